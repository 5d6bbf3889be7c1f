/**
 * In: what a command takes and does. Out: the same --help, --json, refusals and number checks for all of them.
 * Trap: --help is answered whatever else is on the line.
 */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { ServingError } from '../lib/contract/errors.ts';
import type { Output } from './output.ts';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values<O extends Options> = ReturnType<
  typeof parseArgs<{ options: O; allowPositionals: true }>
>['values'];

interface CommandOf<O extends Options> {
  readonly name: string;
  /** All of what --help prints. */
  readonly help: string;
  /** Beside --json and --help. */
  readonly options: O;
  /** Whether it takes arguments that are no options. Default false. */
  readonly takesArguments?: boolean;
  /** @returns the exit code */
  readonly run: (values: Values<O>, output: Output, args: readonly string[]) => Promise<number>;
}

export interface Command {
  readonly help: string;
  readonly options: Options;
  /** @returns the exit code. @throws bad_config for a wrong line */
  run(args: readonly string[], output: Output): Promise<number>;
}

const COMMON = { json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } as const;

export const COMMON_HELP = `\
      --json              print JSON, and nothing else on stdout
  -h, --help              this text`;

export function defineCommand<const O extends Options>({
  name,
  help,
  options,
  takesArguments,
  run,
}: CommandOf<O>): Command {
  return {
    help,
    options: { ...options, ...COMMON },
    async run(args, output) {
      if (wantsHelp(args)) {
        output.answer({ help }, help);
        return 0;
      }
      const { values, positionals } = read(name, args, options, takesArguments ?? false);
      return run(values, output, positionals);
    },
  };
}

function wantsHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end < 0 ? args : args.slice(0, end)).some((arg) => arg === '--help' || arg === '-h');
}

function read<O extends Options>(name: string, args: readonly string[], options: O, takesArguments: boolean) {
  try {
    const config = { args: [...args], options: { ...options, ...COMMON }, allowPositionals: true } as const;
    const { values, positionals } = parseArgs(config);
    const [surplus] = positionals;
    if (surplus !== undefined && !takesArguments) throw new Error(`unexpected ${JSON.stringify(surplus)}`);
    const { json: _json, help: _help, ...own } = values as Readonly<Record<string, unknown>>;
    return { values: own as Values<O>, positionals };
  } catch (error) {
    throw wrongUse(`${(error as Error).message}; \`cluster-serving ${name} --help\` shows how`);
  }
}

/** The command line does not say what to do: exit code 2. */
export function wrongUse(message: string): ServingError {
  return new ServingError('bad_config', message);
}

/** A part that was left out of the installation is no defect of ours. */
export function explained(error: unknown): ServingError {
  const { code, message } = error as NodeJS.ErrnoException;
  const name = code === 'ERR_MODULE_NOT_FOUND' ? /package '([^']+)'/.exec(message)?.[1] : undefined;
  if (name === undefined) return ServingError.from(error);
  return new ServingError(
    'bad_config',
    `the package ${name} is missing, which the local service needs: npm install ${name}`,
    { cause: error },
  );
}

/** @throws bad_config naming the option, the range and what came */
export function wholeNumber(
  option: string,
  text: string | undefined,
  { otherwise, most }: { otherwise: number; most: number },
): number {
  if (text === undefined) return otherwise;
  if (/^\d{1,9}$/.test(text) && Number(text) <= most) return Number(text);
  throw wrongUse(`${option}: expected a whole number from 0 to ${most}, got ${JSON.stringify(text)}`);
}
