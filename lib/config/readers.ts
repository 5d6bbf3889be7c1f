/** How the values of settings are read: each reader says what it expects, and gives nothing for what it does not take. */
import { badConfig } from '../contract/errors.ts';
import { readS3Address } from '../contract/names.ts';
import { readHubAddress } from './model-path.ts';
import { booleanOf, numberOf, type Value } from './value.ts';

export interface Reader<T> {
  /** For messages: "expected …". */
  readonly expected: string;
  /** Returns undefined, or throws a ServingError, for an invalid value. */
  readonly read: (value: Value) => T | undefined;
}

export interface SettingDefinition<T> extends Reader<T> {
  readonly about: string;
  readonly defaultValue?: T;
  /** The default in words, where no single value describes it. */
  readonly byDefault?: string;
  /** An example, where the default would show nothing. */
  readonly example?: string;
  /** For a limit: what a client gets above it. */
  readonly above?: string;
}

export interface WithDefault<T> extends Reader<T> {
  readonly defaultValue: T;
}

/** The values that the readers of a group return. Those without a default may be missing. */
export type ValuesOf<Group> = {
  readonly [Key in keyof Group as Group[Key] extends WithDefault<unknown> ? Key : never]: ValueOf<Group[Key]>;
} & { readonly [Key in keyof Group]?: ValueOf<Group[Key]> };

type ValueOf<Definition> = Definition extends Reader<infer T> ? T : never;

export const MAX_PATH_LENGTH = 4_096;

const textOf = (value: Value) => (typeof value === 'string' ? value : undefined);
const listOf = (value: Value): readonly Value[] => (Array.isArray(value) ? value : [value]);

export const flag: Reader<boolean> = { expected: 'true or false', read: booleanOf };
export const number: Reader<number> = { expected: 'a number', read: numberOf };

/** @param why the reason for an unexpected range */
export const whole = (min: number, max: number, why?: string): Reader<number> => ({
  expected: `a whole number from ${min} to ${max}${why === undefined ? '' : ` (${why})`}`,
  read: (value) => {
    const read = numberOf(value);
    return read !== undefined && Number.isInteger(read) && read >= min && read <= max ? read : undefined;
  },
});

export const choice = <T extends string>(...words: readonly T[]): Reader<T> => ({
  expected: `one of ${words.join(', ')}`,
  read: (value) => words.find((word) => word === textOf(value)?.trim().toLowerCase()),
});

/** @param check throws for an invalid text */
export const text = (check: (text: string) => unknown): Reader<string> => ({
  expected: 'text',
  read: (value) => {
    const read = textOf(value);
    if (read !== undefined) check(read);
    return read;
  },
});

/** @param expected of the text, where `isFit` does not take it */
export const fitting = (expected: string, isFit: (text: string) => boolean): Reader<string> =>
  text((word) => {
    if (!isFit(word)) throw badConfig(`expected ${expected}`);
  });

/** One value or several. All of them have to fit, and so has their number. */
export const list = <T>(
  expected: string,
  read: (value: Value) => T | undefined,
  isFit: (item: T) => boolean,
  isCount: (count: number) => boolean,
): Reader<readonly T[]> => ({
  expected,
  read: (value) => {
    const items = listOf(value).map(read);
    const good = items.filter((item) => item !== undefined).filter(isFit);
    return good.length === items.length && isCount(good.length) ? good : undefined;
  },
});

export const perChannel = (expected: string, isFit: (value: number) => boolean) =>
  list(expected, numberOf, isFit, (count) => count === 1 || count === 3);

const MAX_TEXTS = 20;
export const texts = (expected: string, isFit: (text: string) => boolean) =>
  list(`at most ${MAX_TEXTS} ${expected}`, textOf, isFit, (count) => count <= MAX_TEXTS);

const MAX_ORIGIN_LENGTH = 255;

export const isHost = (word: string) => /^[a-z0-9][a-z0-9.-]{0,252}$/.test(word);

export function isOrigin(word: string): boolean {
  if (word === '*') return true;
  return word.length <= MAX_ORIGIN_LENGTH && URL.canParse(word) && new URL(word).origin === word;
}

/** The old system accepted `file://` before a path; `s3://` and `hdfs://` were for Flink. */
export const folder: Reader<string> = {
  expected: 'the path of a folder on this machine (the model is uploaded from there)',
  read: (value) => {
    const path = textOf(value)?.replace(/^file:\/\//, '');
    return path && path.length <= MAX_PATH_LENGTH && !/\0|:\/\//.test(path) ? path : undefined;
  },
};

export const modelPlace: Reader<string> = {
  expected:
    'the path of a folder on this machine, s3://bucket/prefix or hf://org/name@revision (the model is uploaded from there)',
  read: (value) => {
    const address = textOf(value);
    const isText = address !== undefined && address.length <= MAX_PATH_LENGTH && !address.includes('\0');
    const isAddress = isText && (readS3Address(address) ?? readHubAddress(address)) !== undefined;
    return isAddress ? address : folder.read(value);
  },
};

/** A reader of settings that may be missing, which means the default. */
export const or = <T>(reader: Reader<T>, defaultValue: NoInfer<T>): WithDefault<T> => ({
  ...reader,
  defaultValue,
});

export const setting = <R extends Reader<unknown>>(
  reader: R,
  about: string,
  shown?: Pick<SettingDefinition<unknown>, 'byDefault' | 'example' | 'above'>,
) => ({ ...reader, about, ...shown });
