/** How the values of settings are read: each reader says what it expects, and gives nothing for what it does not take. */
import { readS3Address } from '../contract/names.ts';
import { booleanOf, numberOf, type Value } from './value.ts';

export interface Reader<T> {
  /** For messages: "expected …". */
  readonly expected: string;
  /** Returns undefined, or throws a ServingError, for an invalid value. */
  readonly read: (value: Value) => T | undefined;
}

export interface SettingDefinition<T> extends Reader<T> {
  readonly about: string;
  /** The default in words, if DEFAULT_JOB has none. */
  readonly byDefault?: string;
  /** An example value, if there is no default. */
  readonly example?: string;
}

/** The values that the readers of a group return. */
export type ValuesOf<Group> = {
  readonly [Key in keyof Group]: Group[Key] extends Reader<infer T> ? T : never;
};

export const MAX_PATH_LENGTH = 4_096;

const textOf = (value: Value) => (typeof value === 'string' ? value : undefined);
export const listOf = (value: Value): readonly Value[] => (Array.isArray(value) ? value : [value]);

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

export const perChannel = (
  expected: string,
  isFit: (value: number) => boolean,
): Reader<readonly number[]> => ({
  expected,
  read: (value) => {
    const numbers = listOf(value).map(numberOf);
    const fitting = numbers.filter((item) => item !== undefined).filter(isFit);
    return fitting.length === numbers.length && [1, 3].includes(fitting.length) ? fitting : undefined;
  },
});

/** The old system accepted `file://` before a path; `s3://` and `hdfs://` were for Flink. */
export const folder: Reader<string> = {
  expected: 'the path of a folder on this machine (the model is uploaded from there)',
  read: (value) => {
    const path = textOf(value)?.replace(/^file:\/\//, '');
    return path && path.length <= MAX_PATH_LENGTH && !/\0|:\/\//.test(path) ? path : undefined;
  },
};

export const modelPlace: Reader<string> = {
  expected: 'the path of a folder on this machine, or s3://bucket/prefix (the model is uploaded from there)',
  read: (value) => {
    const address = textOf(value);
    const isText = address !== undefined && address.length <= MAX_PATH_LENGTH && !address.includes('\0');
    return isText && readS3Address(address) ? address : folder.read(value);
  },
};

const MAX_TEXTS = 20;
export const texts = (expected: string, isFit: (text: string) => boolean): Reader<readonly string[]> => ({
  expected: `at most ${MAX_TEXTS} ${expected}`,
  read: (value) => {
    const list = listOf(value).map(textOf);
    const good = list.filter((item) => item !== undefined).filter(isFit);
    return good.length === list.length && list.length <= MAX_TEXTS ? good : undefined;
  },
});

export const setting = <T>(
  reader: Reader<T>,
  about: string,
  shown?: Pick<SettingDefinition<T>, 'byDefault' | 'example'>,
): SettingDefinition<T> => ({ ...reader, about, ...shown });
