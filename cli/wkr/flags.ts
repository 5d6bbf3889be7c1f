/**
 * Reads the flags of the wkr commands, which begin with one dash: `-port 21324`, `-port=21324`. A flag is defined once:
 * parsing, --help and docs/reference/worker-commands.md follow from it.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { suggest } from '../../lib/contract/suggest.ts';
import { columns, type Options, type Values, wrongUse } from '../command.ts';
import type { Output } from '../output.ts';

/** As options of other commands, with one dash. */
export type Flags = Options;

export interface Given<F extends Flags> {
  readonly values: Values<F>;
  /** The flags as they were given, each with its value in one word. */
  readonly words: readonly string[];
  readonly positionals: readonly string[];
}

interface Definition<F extends Flags> {
  readonly name: string;
  /** The arguments before the flags. */
  readonly usage: string;
  readonly about: string;
  readonly flags: F;
  /** Flags that must be given. */
  readonly required: readonly (keyof F & string)[];
  /** Flags whose value may be several words, as a list that a shell has split. */
  readonly wordLists?: readonly string[];
  /** Texts for options and settings without a flag of that name. */
  readonly spelled?: Readonly<Record<string, string>>;
  /** @returns the exit code */
  readonly run: (given: Given<F>, output: Output) => Promise<number>;
}

export interface WkrCommand {
  readonly help: string;
  /** @returns the exit code. @throws bad_config for a wrong command line */
  run(args: readonly string[], output: Output): Promise<number>;
}

const FOREIGN = /(?<=^|[\s([])--([a-z]+(?:-[a-z]+)*)|\b(?:http|worker)\.([a-z]+[a-zA-Z]*)\b/g;
const FLAG = /^--?([A-Za-z]\w*)(?:=(.*))?$/s;
/** The arguments of a command that starts a class. */
export const CLASS_USAGE = 'module.Class [flags]';

const HELP: readonly string[] = ['-h', '-help', '--help'];

export function defineWkrCommand<const F extends Flags>(definition: Definition<F>): WkrCommand {
  const help = helpOf(definition);
  return {
    help,
    async run(args, output) {
      if (args.some((arg) => HELP.includes(arg))) {
        output.answer({ help }, help);
        return 0;
      }
      try {
        return await definition.run(read(definition, args), output);
      } catch (error) {
        throw inFlags(definition, error);
      }
    },
  };
}

/** Parts of the service name options of `cluster-serving start` and settings of a config.yaml, which are flags here. */
function inFlags<F extends Flags>({ flags, spelled = {} }: Definition<F>, error: unknown): unknown {
  if (!(error instanceof ServingError) || error.code !== 'bad_config') return error;
  const message = error.message.replaceAll(FOREIGN, (word: string, option?: string, setting = '') => {
    const flag = option?.replaceAll('-', '_') ?? setting.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toLowerCase();
    return spelled[word] ?? (Object.hasOwn(flags, flag) ? `-${flag}` : word);
  });
  return message === error.message ? error : new ServingError(error.code, message, { cause: error });
}

/** @param example of a module and its class. @throws bad_config unless there is just one */
export function readClass(positionals: readonly string[], example: string): string {
  const text = positionals.join(' ');
  if (/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/.test(text)) return text;
  throw wrongUse(`expected one module and class, such as ${example}, got ${JSON.stringify(text)}`);
}

/** @returns the name, which becomes part of the names of files. @throws bad_config */
export function readName(flag: string, name: string): string {
  if (/^\w[\w.-]{0,99}$/.test(name)) return name;
  const rule = 'expected up to 100 letters, digits and . _ -, not beginning with . or -';
  throw wrongUse(`${flag}: ${rule}, got ${JSON.stringify(name)}`);
}

function read<F extends Flags>(definition: Definition<F>, args: readonly string[]): Given<F> {
  const { name, flags, required } = definition;
  const refuse = (problem: string) => wrongUse(`${name}: ${problem}; \`${name} -help\` shows how`);
  const positionals: string[] = [];
  const words: string[] = [];
  const values: Record<string, unknown> = {};
  for (let i = 0; i < args.length; i++) {
    const [, flag, joined] = FLAG.exec(args[i] ?? '') ?? [];
    if (flag === undefined) {
      positionals.push(args[i] ?? '');
      continue;
    }
    const option = Object.hasOwn(flags, flag) ? flags[flag] : undefined;
    if (!option) {
      const meant = suggest(flag, Object.keys(flags));
      throw refuse(`unknown flag -${flag}${meant === undefined ? '' : `, did you mean -${meant}?`}`);
    }
    words.push(`-${flag}`);
    if (option.value === undefined) {
      if (joined !== undefined) throw refuse(`-${flag} takes no value`);
      values[flag] = true;
      continue;
    }
    const most = joined !== undefined ? 0 : definition.wordLists?.includes(flag) ? args.length : 1;
    const own = joined === undefined ? [] : [joined];
    while (own.length < most && args[i + 1] !== undefined && !FLAG.test(args[i + 1] ?? ''))
      own.push(args[++i] ?? '');
    if (own.length === 0) throw refuse(`-${flag} needs a value`);
    const text = own.join(' ');
    words.push(text);
    values[flag] = option.range ? numberOf(name, flag, text, option.range) : text;
  }
  const missing = required.find((flag) => values[flag] === undefined);
  if (missing !== undefined) throw refuse(`-${missing} is missing`);
  for (const [flag, option] of Object.entries(flags)) values[flag] ??= option.default;
  // Each value was made by its own definition.
  return { values: values as Values<F>, words, positionals };
}

function numberOf(
  name: string,
  flag: string,
  text: string,
  [least, most]: readonly [number, number],
): number {
  if (/^\d{1,9}$/.test(text) && Number(text) >= least && Number(text) <= most) return Number(text);
  throw wrongUse(
    `${name}: -${flag}: expected a whole number from ${least} to ${most}, got ${JSON.stringify(text)}`,
  );
}

function helpOf<F extends Flags>({ name, usage, about, flags, required }: Definition<F>): string {
  const rows = Object.entries(flags).map(([flag, { value, about: text, default: otherwise }]) => {
    const head = `  -${flag}${value === undefined ? '' : ` <${value}>`}`;
    const note = required.includes(flag)
      ? ' (required)'
      : otherwise === undefined
        ? ''
        : ` (default ${otherwise})`;
    return [head, `${text}${note}`] as const;
  });
  const help = ['  -help', 'this text'] as const;
  return [`Usage: ${name} ${usage}`.trimEnd(), '', about, '', ...columns([...rows, help])].join('\n');
}
