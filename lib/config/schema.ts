/**
 * Checks the values of a config file and makes a JobConfig of them, reporting every wrong value. This table and
 * JobConfig must have the same keys; a test writes a whole job as a config and reads it back.
 */
import { badConfig, ServingError } from '../contract/errors.ts';
import { assertJobName } from '../contract/names.ts';
import { parseFilter } from '../pipeline/postprocess.ts';
import { constantsOf, inputsOf, namesOf } from './import-values.ts';
import { DEFAULT_JOB, type JobConfig } from './job.ts';
import type { Problem, Setting } from './settings.ts';
import { booleanOf, numberOf, shown, type Value } from './value.ts';

interface Reader<T> {
  /** For messages: "expected …". */
  readonly expected: string;
  /** Undefined, or an error of ours, for a value that is not right. */
  readonly read: (value: Value) => T | undefined;
}

type ReadValues<Readers> = { [Key in keyof Readers]?: Readers[Key] extends Reader<infer T> ? T : never };

const MAX_PATH_LENGTH = 4_096;
const MAX_ORIGINS = 20;
const MAX_ORIGIN_LENGTH = 255;

const textOf = (value: Value) => (typeof value === 'string' ? value : undefined);
const listOf = (value: Value): readonly Value[] => (Array.isArray(value) ? value : [value]);

const flag: Reader<boolean> = { expected: 'true or false', read: booleanOf };
const number: Reader<number> = { expected: 'a number', read: numberOf };

/** @param why the range is as it is, where nobody would guess it */
const whole = (min: number, max: number, why?: string): Reader<number> => ({
  expected: `a whole number from ${min} to ${max}${why === undefined ? '' : ` (${why})`}`,
  read: (value) => {
    const read = numberOf(value);
    return read !== undefined && Number.isInteger(read) && read >= min && read <= max ? read : undefined;
  },
});

const choice = <T extends string>(...words: readonly T[]): Reader<T> => ({
  expected: `one of ${words.join(', ')}`,
  read: (value) => words.find((word) => word === textOf(value)?.trim().toLowerCase()),
});

/** @param check throws when the text is not right */
const text = (check: (text: string) => unknown): Reader<string> => ({
  expected: 'text',
  read: (value) => {
    const read = textOf(value);
    if (read !== undefined) check(read);
    return read;
  },
});

const perChannel = (expected: string, isFit: (value: number) => boolean): Reader<readonly number[]> => ({
  expected,
  read: (value) => {
    const numbers = listOf(value).map(numberOf);
    const fitting = numbers.filter((item) => item !== undefined).filter(isFit);
    return fitting.length === numbers.length && [1, 3].includes(fitting.length) ? fitting : undefined;
  },
});

/** The old system took `file://` before a path; `s3://` and `hdfs://` were for Flink. */
const folder: Reader<string> = {
  expected: 'the path of a folder on this machine (the model is uploaded from there)',
  read: (value) => {
    const path = textOf(value)?.replace(/^file:\/\//, '');
    return path && path.length <= MAX_PATH_LENGTH && !/\0|:\/\//.test(path) ? path : undefined;
  },
};

const origins: Reader<readonly string[]> = {
  expected: `at most ${MAX_ORIGINS} origins like "https://example.com", or "*"`,
  read: (value) => {
    const list = listOf(value).map(textOf);
    const good = list.filter((item) => item !== undefined).filter(isOrigin);
    return good.length === list.length && list.length <= MAX_ORIGINS ? good : undefined;
  },
};

function isOrigin(word: string): boolean {
  if (word === '*') return true;
  return word.length <= MAX_ORIGIN_LENGTH && URL.canParse(word) && new URL(word).origin === word;
}

const TOP = {
  modelPath: folder,
  jobName: text(assertJobName),
  postProcessing: text(parseFilter),
  inputAlreadyBatched: flag,
  batchSize: whole(1, 10_000),
  threadPerModel: whole(0, 64),
  modelRefreshSeconds: whole(1, 86_400),
  resultTtlSeconds: whole(1, 14 * 86_400),
};

const IMAGE = {
  width: whole(1, 16_384),
  height: whole(1, 16_384),
  channels: choice('bgr', 'rgb', 'grey'),
  layout: choice('chw', 'hwc'),
  scale: number,
  mean: perChannel('a number, or a list of 3', () => true),
  std: perChannel('a number that is not 0, or a list of 3', (value) => value !== 0),
};

const names: Reader<readonly string[]> = { expected: 'names, each once: [a, b]', read: namesOf };

const IMPORT = {
  inputs: {
    expected:
      'names [a, b], each once, or shapes by name {a: [N, 3, 224, 224]} or {a: "N,3,224,224"} (a word is a free size)',
    read: inputsOf,
  },
  outputs: names,
  constants: { expected: 'numbers by name: {keep_prob: 1}', read: constantsOf },
  signature: text((name) => {
    if (name === '' || name.length > 512) throw badConfig('expected a name');
  }),
  tags: names,
};

const QUEUE = {
  batchSize: whole(1, 10_000),
  windowSeconds: whole(0, 300),
  maximumConcurrency: whole(2, 1_000),
  maxReceiveCount: whole(1, 1_000),
};

/** Node and onnxruntime start in 0.4 to 1 s, and the records need time too; 3 s is also what Lambda takes by default. */
const LEAST_TIMEOUT_SECONDS = 3;

const FUNCTION = {
  memoryMB: whole(128, 10_240),
  timeoutSeconds: whole(
    LEAST_TIMEOUT_SECONDS,
    900,
    'records that came back run in a process of their own, which has to start first',
  ),
};

const HTTP = {
  tokenBucketEnabled: flag,
  tokensPerSecond: whole(1, 10_000),
  tokenAcquireTimeoutMs: whole(0, 28_000),
  // API Gateway gives up after 30 s.
  timeoutMs: whole(1, 29_000),
  corsOrigins: origins,
};

const GROUPS: Readonly<Record<string, Readonly<Record<string, Reader<unknown>>>>> = {
  '': TOP,
  'image.': IMAGE,
  'import.': IMPORT,
  'queue.': QUEUE,
  'function.': FUNCTION,
  'http.': HTTP,
};

/** What each setting of ours may be, in words: `queue.batchSize` is "a whole number from 1 to 10000". */
export const SETTINGS: ReadonlyMap<string, string> = new Map(
  Object.entries(GROUPS).flatMap(([prefix, readers]) =>
    Object.entries(readers).map(([key, { expected }]) => [`${prefix}${key}`, expected] as const),
  ),
);

/** Only without problems is the job what the file says. Never throws. */
export function readJob(settings: ReadonlyMap<string, Setting>): { job: JobConfig; problems: Problem[] } {
  const problems: Problem[] = [];
  const read = <Readers extends Record<string, Reader<unknown>>>(readers: Readers, prefix: string) =>
    readValues(readers, prefix, settings, problems);
  const job: JobConfig = {
    ...DEFAULT_JOB,
    ...read(TOP, ''),
    image: { ...DEFAULT_JOB.image, ...read(IMAGE, 'image.') },
    import: { ...DEFAULT_JOB.import, ...read(IMPORT, 'import.') },
    queue: { ...DEFAULT_JOB.queue, ...read(QUEUE, 'queue.') },
    function: { ...DEFAULT_JOB.function, ...read(FUNCTION, 'function.') },
    http: { ...DEFAULT_JOB.http, ...read(HTTP, 'http.') },
  };
  return { job, problems };
}

function readValues<Readers extends Record<string, Reader<unknown>>>(
  readers: Readers,
  prefix: string,
  settings: ReadonlyMap<string, Setting>,
  problems: Problem[],
): ReadValues<Readers> {
  const values: Record<string, unknown> = {};
  for (const [name, { expected, read }] of Object.entries(readers)) {
    const setting = settings.get(`${prefix}${name}`);
    if (setting === undefined) continue;
    const { key, line, value } = setting;
    let message = `expected ${expected}, got ${shown(value)}`;
    try {
      const result = read(value);
      if (result !== undefined) {
        values[name] = result;
        continue;
      }
    } catch (error) {
      message = ServingError.from(error).message;
    }
    problems.push({ line, text: `${key}: ${message}` });
  }
  return values as ReadValues<Readers>;
}
