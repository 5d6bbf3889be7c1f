/**
 * Defines a command once: parsing, --help, suggestions for misspelled options and docs/reference/cli.md are derived
 * from the definition. --help is answered, whatever other options there are.
 */

import { type ParseArgsOptionDescriptor, parseArgs } from 'node:util';
import { asError, ServingError } from '../lib/contract/errors.ts';
import { present } from '../lib/contract/present.ts';
import { suggest } from '../lib/contract/suggest.ts';
import type { Output } from './output.ts';

export interface Option {
  readonly about: string;
  readonly short?: string;
  /** The name of the value in the help, or its unit. An option with neither a value nor choices is a switch. */
  readonly value?: string;
  readonly choices?: readonly string[];
  /** Makes the value a number. */
  readonly range?: readonly [least: number, most: number];
  /** True if the number may have decimals. */
  readonly decimals?: true;
  /** Used when the option is absent. */
  readonly default?: string | number;
  readonly multiple?: true;
  /** The actions that accept it; undefined for all. */
  readonly actions?: readonly string[];
  /** Its heading in the help. Default: Options. */
  readonly group?: string;
}

export type Options = Readonly<Record<string, Option>>;

type One<O> = O extends { choices: readonly (infer Choice)[] }
  ? Choice
  : O extends { range: unknown }
    ? number
    : O extends { value: string }
      ? string
      : boolean;
type Given<O> = O extends { multiple: true } ? readonly One<O>[] : One<O>;
export type Values<O> = {
  readonly [K in keyof O as O[K] extends { default: unknown } ? K : never]: Given<O[K]>;
} & { readonly [K in keyof O as O[K] extends { default: unknown } ? never : K]?: Given<O[K]> };

interface Definition {
  readonly name: string;
  /** The arguments, one line per form; without it the command takes options only. */
  readonly usage?: readonly string[];
  readonly about: string;
  /**
   * The possible first arguments, each with its own arguments, a description, and a reason for refusing options of
   * others.
   */
  readonly actions?: Readonly<Record<string, readonly [usage: string, about: string, whyNot?: string]>>;
  readonly options: Options;
  readonly examples?: readonly string[];
}

/** @returns the exit code */
type Run<O, A> = (
  values: Values<O>,
  output: Output,
  args: readonly string[],
  action: A & string,
) => Promise<number>;

export interface Command {
  readonly help: string;
  readonly options: Options;
  /** @returns the exit code. @throws bad_config for a wrong command line */
  run(args: readonly string[], output: Output): Promise<number>;
}

const COMMON = {
  json: { about: 'print JSON, and nothing else on stdout' },
  help: { short: 'h', about: 'this text' },
} as const;

export function defineCommand<const O extends Options, const A = Definition['actions']>(
  definition: Definition & {
    readonly options: O;
    readonly actions?: A;
    readonly run: Run<O, keyof A>;
  },
): Command {
  const help = helpOf(definition);
  return {
    help,
    options: { ...definition.options, ...COMMON },
    async run(args, output) {
      const end = args.indexOf('--');
      if ((end < 0 ? args : args.slice(0, end)).some((arg) => arg === '--help' || arg === '-h')) {
        output.answer({ help }, help);
        return 0;
      }
      const { values, positionals } = parse(definition, args);
      const action = definition.actions && actionOf(definition, positionals.shift(), Object.keys(values));
      const checked = checkedValues(definition.options, values) as Values<O>;
      return definition.run(checked, output, positionals, action as keyof A & string);
    },
  };
}

/** Restricts options to some actions. */
export function only<const O extends Options>(actions: readonly string[], options: O): O {
  return withEach(options, { actions });
}

/** Gives options a heading of their own in the help. */
export function grouped<const O extends Options>(group: string, options: O): O {
  return withEach(options, { group });
}

function withEach<O extends Options>(options: O, fields: Partial<Option>): O {
  const entries = Object.entries(options).map(([name, option]) => [name, { ...option, ...fields }] as const);
  return Object.fromEntries<Option>(entries) as O;
}

function parse({ name, usage, options }: Definition, args: readonly string[]) {
  const all: Options = { ...options, ...COMMON };
  const config = Object.entries(all).map(([option, { short, multiple, ...rest }]) => {
    const type = rest.value === undefined && rest.choices === undefined ? 'boolean' : 'string';
    return [option, { type, ...(short && { short }), ...(multiple && { multiple }) }] as const;
  });
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: Object.fromEntries<ParseArgsOptionDescriptor>(config),
      allowPositionals: true,
    });
    if (usage === undefined && positionals[0] !== undefined) {
      throw new Error(`unexpected ${JSON.stringify(positionals[0])}`);
    }
    const { json: _json, help: _help, ...own } = values;
    return { values: own, positionals };
  } catch (error) {
    const [message = ''] = asError(error).message.split('. To specify');
    const unknown = /^Unknown option '--([^']+)'/.exec(message)?.[1];
    const meant = unknown === undefined ? undefined : suggest(unknown, Object.keys(all));
    const advice = meant === undefined ? '' : `, did you mean --${meant}?`;
    throw wrongUse(`${message}${advice}; \`cluster-serving ${name} --help\` shows how`);
  }
}

function actionOf({ name, actions = {}, options }: Definition, action: string | undefined, given: string[]) {
  const names = Object.keys(actions);
  if (action === undefined || !names.includes(action)) {
    const found = action === undefined ? 'nothing' : JSON.stringify(action);
    const meant = action === undefined ? undefined : suggest(action, names);
    const advice =
      meant === undefined ? `\`cluster-serving ${name} --help\` shows how` : `did you mean ${meant}?`;
    const expected = `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
    throw wrongUse(`${name}: expected ${expected}, got ${found}; ${advice}`);
  }
  const stray = given.find((option) => !(options[option]?.actions?.includes(action) ?? true));
  if (stray === undefined) return action;
  const owners = options[stray]?.actions?.map((owner) => `${name} ${owner}`).join(', ');
  const why = actions[action]?.[2];
  throw wrongUse(`${why === undefined ? '' : `${name} ${action} ${why}; `}--${stray} belongs to ${owners}`);
}

/** Checks numbers and choices and fills in defaults. */
function checkedValues(options: Options, values: Readonly<Record<string, unknown>>) {
  const given = Object.entries(values).map(([name, value]) => {
    const { choices, range, decimals } = present(options[name], `option ${name}`);
    const text = String(value);
    if (choices && !choices.includes(text)) throw unexpected(name, choices.join(', '), text);
    if (!range) return [name, value] as const;
    const isNumber = (decimals ? /^\d{1,9}(\.\d{1,6})?$/ : /^\d{1,9}$/).test(text);
    if (isNumber && Number(text) >= range[0] && Number(text) <= range[1])
      return [name, Number(text)] as const;
    throw unexpected(name, `a ${decimals ? '' : 'whole '}number from ${range[0]} to ${range[1]}`, text);
  });
  const defaults = Object.entries(options).flatMap(([name, option]) =>
    option.default === undefined ? [] : [[name, option.default] as const],
  );
  return Object.fromEntries<unknown>([...defaults, ...given]);
}

function helpOf({ name, usage = ['[options]'], about, actions, options, examples }: Definition): string {
  const own = Object.entries<Option>(options);
  // Groups with a name of their own come last.
  const ranked = [...own, ...Object.entries<Option>(COMMON)].toSorted(
    ([, a], [, b]) => Number(a.group !== undefined) - Number(b.group !== undefined),
  );
  const heads = [...Map.groupBy(ranked, headingOf)].map(([heading, each]) => ({
    heading,
    rows: each.map(optionRow),
  }));
  const width = Math.max(...heads.flatMap(({ rows }) => rows.map(([head]) => head.length)));
  const actionRows = Object.entries(actions ?? {}).map(([action, [args, text]]) => {
    return [`  ${action} ${args}`.trimEnd(), text] as const;
  });
  return [
    ...usage.map((form, i) => `${i === 0 ? 'Usage:' : '      '} cluster-serving ${name} ${form}`),
    '',
    about,
    ...(actions ? ['', ...columns(actionRows)] : []),
    ...heads.flatMap(({ heading, rows }) => ['', heading, ...columns(rows, width)]),
    ...(examples ? ['', 'Examples:', ...examples.map((line) => `  cluster-serving ${line}`)] : []),
  ].join('\n');
}

function headingOf([, { group = 'Options', actions }]: readonly [string, Option]): string {
  return `${group}${actions === undefined ? '' : ` of ${actions.join(', ')}`}:`;
}

function optionRow([name, option]: readonly [string, Option]): readonly [string, string] {
  const { short, choices, value = choices?.join('|'), multiple, about } = option;
  const head = `  ${short ? `-${short},` : '   '} --${name}${value === undefined ? '' : ` <${value}>`}`;
  const again = multiple ? '; may be given again' : '';
  return [head, `${about}${again}${option.default === undefined ? '' : ` (default ${option.default})`}`];
}

/** Two columns. The second is wrapped so that lines fit a terminal of 120 columns. */
export function columns(
  rows: readonly (readonly [head: string, text: string])[],
  width = Math.max(...rows.map(([head]) => head.length)),
): string[] {
  const line = new RegExp(`.{1,${118 - width}}(?: |$)`, 'g');
  return rows.flatMap(([head, text]) =>
    (text.match(line) ?? []).map((part, i) => `${(i === 0 ? head : '').padEnd(width)}  ${part.trimEnd()}`),
  );
}

/** An error of the command line or the config: exit code 2. */
export function wrongUse(message: string): ServingError {
  return new ServingError('bad_config', message);
}

/** @param option without its dashes */
export function unexpected(option: string, expected: string, got: string): ServingError {
  return wrongUse(`--${option}: expected ${expected}, got ${JSON.stringify(got)}`);
}

/** A missing package is a faulty installation, not a defect of this program. */
export function explained(error: unknown): ServingError {
  const { code, message } = asError(error);
  // A package with a binary is required, the others are imported.
  const isMissing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND';
  const name = isMissing ? /(?:package|module) '(@?\w[^':]*)'/.exec(message)?.[1] : undefined;
  if (name === undefined) return ServingError.from(error);
  const text = `the package ${name} is missing, which the local service needs: npm install ${name}`;
  return new ServingError('bad_config', text, { cause: error });
}
