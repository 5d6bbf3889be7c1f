/** Lists, reads and removes captures (captures.ts), outside of the functions that write them. */
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import {
  capturesPrefix,
  isModelName,
  type JobModel,
  lastReplayKey,
  namedCapturesPrefix,
} from '../contract/names.ts';
import { getText, listFolders, putBytes, putText, type S3Client } from './objects.ts';
import { listPages, removeObjects } from './pages.ts';

export interface CapturedObject {
  readonly key: string;
  readonly version: string;
  /** When it was written, in ms since 1970. */
  readonly writtenAt: number;
  readonly bytes: number;
}

export interface CaptureFilter {
  /** Only of this version. Default: of each. */
  readonly version?: string | undefined;
  /** Only what was written from here on, in ms since 1970. Default: from the beginning. */
  readonly since?: number | undefined;
  /** Only what was written up to here, in ms since 1970. Default: to the end. */
  readonly until?: number | undefined;
}

/** A line of an object, or what ends it before its end. */
export type ReadLine =
  | { readonly number: number; readonly text: string }
  | { readonly number: number; readonly problem: string };

const KEY = /^([^/]+)\/(\d{4}-\d\d-\d\d)\/(\d\d)(\d\d)(\d\d)(\d{3})-[\w-]+\.ndjson\.gz$/;
const READ_MS = 60_000;
/** Characters of an object: lines are at most a quarter of it, and a writer holds no more. */
const MOST_CHARACTERS = 64 * 1024 * 1024;

/** Further models of a job with captures; those after them are not listed. */
const MOST_MODELS = 5_000;

/** @returns the names of the further models of which anything was captured. @throws S3's error */
export async function capturedModels(s3: S3Client, bucket: string, job: string): Promise<string[]> {
  const folders = await listFolders(s3, { bucket, key: namedCapturesPrefix(job) }, MOST_MODELS);
  return folders.filter(isModelName);
}

/** The captures of one model, and of no other. */
export class CaptureReader {
  readonly captured: JobModel;
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #report: { readonly bucket: string; readonly key: string };

  constructor(s3: S3Client, bucket: string, captured: JobModel) {
    this.captured = captured;
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#prefix = capturesPrefix(captured.job, captured.model);
    this.#report = { bucket, key: lastReplayKey(captured) };
  }

  /** Pages in the order of versions, and of time within each. @throws S3's error */
  async *pages({
    version,
    since = 0,
    until = Infinity,
  }: CaptureFilter = {}): AsyncGenerator<readonly CapturedObject[]> {
    const prefix = version === undefined ? this.#prefix : `${this.#prefix}${version}/`;
    for await (const page of this.#listed(prefix)) {
      const objects = page.flatMap(({ key, bytes }) => {
        const object = objectOf(key, this.#prefix, bytes);
        return object && object.writtenAt >= since && object.writtenAt <= until ? [object] : [];
      });
      if (objects.length > 0) yield objects;
    }
  }

  /** Steps over the captures of further models, which lie below those of the job's own. */
  async *#listed(prefix: string) {
    const others = namedCapturesPrefix(this.captured.job);
    const isOther = (key = '') => this.captured.model === undefined && key.startsWith(others);
    let after: string | undefined;
    let last: string | undefined;
    do {
      last = undefined;
      for await (const page of listPages(this.#s3, this.#bucket, prefix, after)) {
        yield page;
        last = page.at(-1)?.key;
        if (isOther(last)) break;
      }
      // The character after the slash.
      after = `${others.slice(0, -1)}0`;
    } while (isOther(last));
  }

  /** The lines of an object. What is damaged or cut ends with a problem. @throws S3's error, such as NoSuchKey */
  async *lines({ key }: CapturedObject): AsyncGenerator<ReadLine> {
    const get = new GetObjectCommand({ Bucket: this.#bucket, Key: key });
    const { Body } = await this.#s3.send(get, { abortSignal: AbortSignal.timeout(READ_MS) });
    // On Node the body is a stream of its bytes.
    const body = Body instanceof Readable ? Body : Readable.from([]);
    let number = 1;
    let rest = '';
    let characters = 0;
    try {
      // Its errors, and those of the connection, end the loop.
      const unzipped = pipeline(body, createGunzip(), () => undefined).setEncoding('utf8');
      for await (const part of unzipped) {
        const chunk = String(part);
        characters += chunk.length;
        if (characters > MOST_CHARACTERS) throw badRequest(`more than ${MOST_CHARACTERS} characters`);
        const lines = (rest + chunk).split('\n');
        rest = lines.pop() ?? '';
        for (const text of lines) yield { number: number++, text };
      }
    } catch (error) {
      const { code = '', message } = asError(error);
      if (!(error instanceof ServingError) && !String(code).startsWith('Z_')) throw error;
      yield { number, problem: `cut or damaged: ${message}` };
      return;
    }
    if (rest !== '') yield { number, problem: 'cut: the line has no end' };
  }

  /** Replaces an object by another form of it. */
  async replace({ key }: CapturedObject, body: Uint8Array): Promise<void> {
    const abortSignal = AbortSignal.timeout(READ_MS);
    const address = { bucket: this.#bucket, key };
    await putBytes(this.#s3, address, body, { type: 'application/gzip', abortSignal });
  }

  /** Stores the report of a replay instead of the last one. */
  putReport(text: string): Promise<void> {
    return putText(this.#s3, this.#report, text, { limitMs: READ_MS });
  }

  /** @returns undefined where nothing was replayed */
  lastReport(): Promise<string | undefined> {
    return getText(this.#s3, this.#report);
  }

  /** It names records, so a purge removes it. */
  removeReport(): Promise<void> {
    return removeObjects(this.#s3, this.#bucket, [this.#report.key]);
  }

  remove(objects: readonly CapturedObject[]): Promise<void> {
    return removeObjects(
      this.#s3,
      this.#bucket,
      objects.map(({ key }) => key),
    );
  }
}

/** @returns undefined for an object that no capture has named */
function objectOf(key: string, prefix: string, bytes: number): CapturedObject | undefined {
  const [, version, day, hour, minute, second, ms] = KEY.exec(key.slice(prefix.length)) ?? [];
  const writtenAt = Date.parse(`${day}T${hour}:${minute}:${second}.${ms}Z`);
  return version === undefined || Number.isNaN(writtenAt) ? undefined : { key, version, writtenAt, bytes };
}
