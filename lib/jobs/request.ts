/** Who asks for a job over files, and for what: the text of `in/<id>.job.json`, which is kept as the job's manifest. */
import { isObject } from '../codecs/instances.ts';
import { quoteValue } from '../codecs/quote.ts';
import { badRequest } from '../contract/errors.ts';
import { fileJobsPrefix, readS3Address } from '../contract/names.ts';
import type { TableFormat } from './cut.ts';
import { type BatchRequest, readBatch } from './openai/batch.ts';

export const FORMATS = ['ndjson', 'csv', 'parquet', 'picture'] as const;
export type Format = TableFormat | 'parquet' | 'picture';

export interface JobRequest {
  /** `s3://bucket/key`: an object, or with a slash at the end all below. */
  readonly input: string;
  /** `s3://bucket/prefix/`, where nothing may be yet. */
  readonly output: string;
  /** Default: what the ending of each name says. */
  readonly format?: Format | undefined;
  /** Errors at which the job ends: a number of rows, or `1%` of them. Default: it goes on. */
  readonly maxErrors?: string | undefined;
  /** Counts the rows and answers the first ones only. */
  readonly dryRun?: boolean | undefined;
  /** Changed to let a job go on. */
  readonly resumed?: number | undefined;
  /** The lines of the input are requests, and the results have the form of OpenAI's API. */
  readonly batch?: BatchRequest | undefined;
}

export interface Address {
  readonly bucket: string;
  readonly key: string;
}

const ID = /^[A-Za-z0-9][\w-]{0,79}$/;
const REQUEST = /^([A-Za-z0-9][\w-]{0,79})\.job\.json$/;

/** The id of the job that an object below `in/` asks for; undefined for a file of records. */
export function requestedId(name: string): string | undefined {
  return REQUEST.exec(name)?.[1];
}

/** @throws bad_request */
export function assertJobId(id: string): string {
  if (ID.test(id)) return id;
  throw badRequest(`job ${quoteValue(id)}: expected 1 to 80 letters, digits, "-" or "_"`);
}

/** @throws bad_request naming the field */
export function readRequest(text: string): JobRequest {
  const body: unknown = parse(text);
  if (!isObject(body))
    throw badRequest('the request of a job: expected {"input": "s3://…", "output": "s3://…/"}');
  const { input, output, format, maxErrors, dryRun, resumed, batch } = body;
  readAddress('input', input);
  const { key } = readAddress('output', output);
  if (key !== '' && !key.endsWith('/'))
    throw badRequest(`output: expected a prefix that ends in a slash, got ${quoteValue(output)}`);
  const known = FORMATS.find((one) => one === format);
  if (format !== undefined && known === undefined)
    throw badRequest(`format: expected ${FORMATS.join(', ')}, got ${quoteValue(format)}`);
  if (maxErrors !== undefined && typeof maxErrors !== 'number' && typeof maxErrors !== 'string')
    throw badRequest(
      `maxErrors: expected a number of rows, or a percentage such as 1%, got ${quoteValue(maxErrors)}`,
    );
  if (maxErrors !== undefined) errorLimit(String(maxErrors), 0);
  return {
    input: String(input),
    output: String(output),
    format: known,
    maxErrors: typeof maxErrors === 'number' ? `${maxErrors}` : maxErrors,
    dryRun: dryRun === true,
    resumed: Number(resumed) || 0,
    batch: readBatch(batch),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badRequest('the request of a job is not JSON');
  }
}

/** @throws bad_request */
export function readAddress(name: string, text: unknown): Address {
  const address = typeof text === 'string' ? readS3Address(text) : undefined;
  if (address) return address;
  throw badRequest(`${name}: expected s3://<bucket>/<prefix>, got ${quoteValue(text)}`);
}

/** The most errors of a job of `rows` rows. @throws bad_request */
export function errorLimit(text: string, rows: number): number {
  const [, count, percent] = /^(?:(\d{1,12})|(\d{1,3}(?:\.\d{1,6})?)\s*%)$/.exec(text.trim()) ?? [];
  if (count !== undefined) return Number(count);
  if (percent !== undefined && Number(percent) <= 100) return Math.floor((rows * Number(percent)) / 100);
  throw badRequest(
    `maxErrors: expected a number of rows, or a percentage such as 1%, got ${quoteValue(text)}`,
  );
}

/** Where a job keeps what it has done so far, below `run/<id>/`. */
export function keysOf(job: string, id: string) {
  const base = `${fileJobsPrefix(job)}run/${assertJobId(id)}/`;
  return {
    base,
    /** Files of the caller's machine. */
    input: `${base}input/`,
    manifest: `${base}manifest.json`,
    /** The files as they were when the job began. */
    files: `${base}files.json`,
    begun: `${base}begun.json`,
    parts: `${base}parts/`,
    /** All lines of a batch can be used, or what is wrong with them. */
    checked: `${base}checked.json`,
    problems: `${base}problems.json`,
    /** How many rows a file has, in a name. */
    ends: `${base}ends/`,
    /** An object says why the job does not go on. */
    stops: `${base}stop/`,
    /** The parts are removed after it, and with them what a late message would skip. */
    done: `${base}stop/done.json`,
    cancelled: `${base}stop/cancelled.json`,
    failed: `${base}stop/failed.json`,
    /** The completion window of a batch is over. */
    expired: `${base}stop/expired.json`,
    progress: `${base}progress.json`,
    /** The parts in order, once all are there. */
    whole: `${base}whole.json`,
    upload: `${base}upload.json`,
    errorUpload: `${base}upload-errors.json`,
    summary: `${base}summary.json`,
  };
}

export type JobKeys = ReturnType<typeof keysOf>;

export const RESULTS = 'results.ndjson';
/** The errors of a batch, which has a file of its own for them. */
export const ERRORS = 'errors.ndjson';
export const SUMMARY = 'summary.json';

/** The files of a job while it runs. */
export interface Progress {
  readonly files: number;
  /** Rows of all files; undefined while they are being counted. */
  readonly total: number | undefined;
  readonly rows: number;
  readonly errors: number;
  /** The time of the function. */
  readonly ms: number;
  readonly parts: number;
}

/** How a job ended. */
export interface Summary extends Progress {
  readonly id: string;
  readonly total: number;
  /** Bytes of all files. */
  readonly bytes: number;
  /** Where the results are; undefined for a dry run. */
  readonly results: string | undefined;
  /** When all rows had answers. */
  readonly answeredAt: string;
  /** The first answers of a dry run. */
  readonly first?: readonly unknown[];
  readonly memoryMB: number;
  readonly arch: string;
  readonly startedAt: string;
  readonly finishedAt: string;
}
