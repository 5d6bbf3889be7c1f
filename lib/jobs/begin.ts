/**
 * Begins a job: keeps who asked for what, and the list of the files as they are now, each once. All that follows is derived from that
 * list, so that whatever happens twice happens in the same way.
 */
import { createHash } from 'node:crypto';
import { badRequest, ServingError } from '../contract/errors.ts';
import { fileJobsPrefix } from '../contract/names.ts';
import { elementAt, present } from '../contract/present.ts';
import { isBatchId } from './openai/batch.ts';
import {
  type Address,
  type Format,
  type JobKeys,
  type JobRequest,
  keysOf,
  readAddress,
  readRequest,
  requestedId,
} from './request.ts';
import { type JobDeps, type ListedFile, type Message, readJson } from './store.ts';

/** Files of one job. */
const MOST_FILES = 100_000;
/** Pictures of one message. */
const PICTURES = 100;
/** Messages that are sent at the same time. */
const TOGETHER = 200;

const ENDINGS: readonly (readonly [Format, RegExp])[] = [
  ['ndjson', /\.(ndjson|jsonl|jsonlines)$/i],
  ['csv', /\.csv$/i],
  ['parquet', /\.parquet$/i],
  ['picture', /\.(jpe?g|png|webp|gif|bmp|tiff?)$/i],
];

/** Files of a job as they were when it began. */
interface Files {
  readonly bucket: string;
  /** Cut from each key for its name in the results. */
  readonly prefix: string;
  readonly files: readonly (readonly [key: string, etag: string, bytes: number, format: Format])[];
  readonly startedAt: string;
}

/** The facts of the files that the watch of a job needs. */
export interface Begun {
  /** The request's: another one begins what is missing again. */
  readonly etag: string | undefined;
  readonly units: number;
  /** The rows of units of pictures. */
  readonly known: Readonly<Record<number, number>>;
  readonly bytes: number;
  readonly files: number;
  readonly startedAt: string;
}

/**
 * @param key of an object below `in/`: a request, or a file whose job has a default for everything
 * @returns the id of the job whose request or files cannot be read, with the reason
 */
export async function begin(
  key: string,
  deps: JobDeps,
): Promise<{ id: string; error: ServingError } | undefined> {
  const asked = await askedFor(key, deps);
  if (!asked) return undefined;
  const { id, text, etag } = asked;
  const keys = keysOf(deps.job, id);
  try {
    await beginJob(id, readRequest(text), { keys, text, etag }, deps);
    return undefined;
  } catch (error) {
    if (error instanceof ServingError && !error.retryable) return { id, error };
    throw error;
  }
}

async function askedFor(key: string, { job, bucket, store }: JobDeps) {
  const prefix = `${fileJobsPrefix(job)}in/`;
  if (!key.startsWith(prefix)) throw badRequest(`${key} is not below ${prefix}`);
  const name = key.slice(prefix.length);
  const id = requestedId(name);
  if (id !== undefined) {
    const request = await store.text(key);
    return request && { id, ...request };
  }
  for await (const [file] of store.pages({ bucket, key })) {
    if (file?.key !== key || file.bytes === 0) break;
    const digest = createHash('sha256').update(`${key}\n${file.etag}`).digest('hex').slice(0, 12);
    const own = `${
      name
        .replace(/\W+/g, '-')
        .replace(/^[-_]+/, '')
        .slice(0, 60) || 'file'
    }-${digest}`;
    const output = `s3://${bucket}/${fileJobsPrefix(job)}out/${own}/`;
    return { id: own, text: JSON.stringify({ input: `s3://${bucket}/${key}`, output }), etag: file.etag };
  }
  return undefined;
}

interface Asked {
  readonly keys: JobKeys;
  readonly text: string;
  readonly etag: string | undefined;
}

async function beginJob(
  id: string,
  request: JobRequest,
  { keys, text, etag }: Asked,
  deps: JobDeps,
): Promise<void> {
  const { store } = deps;
  // Each message of a batch says by its id that it is one.
  if (isBatchId(id) !== (request.batch !== undefined))
    throw badRequest(`job ${id}: the id of a batch, and of no other job, begins with "batch_"`);
  if ((await readJson<Begun>(store, keys.begun))?.etag === etag) return;
  if ((await store.text(keys.summary)) !== undefined) return;
  // That of a job that goes on may allow more errors.
  await store.put(keys.manifest, text);
  const kept = await readJson<Files>(store, keys.files);
  if (!kept) await store.putNew(keys.files, JSON.stringify(await listFiles(request, deps)));
  const files = kept ?? present(await readJson<Files>(store, keys.files), keys.files);
  const { messages, known, units } = messagesOf(id, request, files);
  for (let i = 0; i < messages.length; i += TOGETHER)
    await Promise.all(messages.slice(i, i + TOGETHER).map((message) => deps.send(message)));
  const bytes = files.files.reduce((sum, [, , size]) => sum + size, 0);
  const facts: Begun = { etag, units, known, bytes, files: files.files.length, startedAt: files.startedAt };
  // One that goes on has been looked at before.
  const turn = (await readJson<{ turn: number }>(store, keys.progress))?.turn ?? 0;
  await deps.send({ do: 'watch', id, turn });
  await store.put(keys.begun, JSON.stringify(facts));
}

/** @throws bad_request, too_large */
async function listFiles(
  { input, output, batch, format, dryRun }: JobRequest,
  deps: JobDeps,
): Promise<Files> {
  const { store, now } = deps;
  const from = readAddress('input', input);
  const startedAt = new Date(now()).toISOString();
  if (dryRun !== true) await assertEmpty(output, deps);
  if (batch) return { bucket: from.bucket, prefix: '', files: [await piecesOf(from, deps)], startedAt };
  const isPrefix = from.key === '' || from.key.endsWith('/');
  const prefix = isPrefix ? from.key : from.key.slice(0, from.key.lastIndexOf('/') + 1);
  const files: Files['files'][number][] = [];
  for await (const page of store.pages(from)) {
    const meant = isPrefix
      ? page.filter(({ key }) => !isHidden(key.slice(prefix.length)))
      : page.filter(({ key }) => key === from.key);
    for (const file of meant) files.push([file.key, file.etag, file.bytes, format ?? formatOf(file)]);
    if (files.length > MOST_FILES)
      throw badRequest(`${input} has more than ${MOST_FILES} files: make several jobs`);
    if (!isPrefix) break;
  }
  if (files.length === 0)
    throw badRequest(`there is no file at ${input}${isPrefix ? '' : '; a prefix ends in a slash'}`);
  return { bucket: from.bucket, prefix, files, startedAt };
}

/** The input of a batch: one file in pieces, which never change. */
async function piecesOf(from: Address, { store }: JobDeps): Promise<Files['files'][number]> {
  let bytes = 0;
  for await (const page of store.pages(from)) bytes += page.reduce((sum, piece) => sum + piece.bytes, 0);
  return [from.key, '', bytes, 'openai'];
}

async function assertEmpty(output: string, { store }: JobDeps): Promise<void> {
  for await (const [first] of store.pages(readAddress('output', output)))
    if (first)
      throw badRequest(
        `${output} is not empty, there is ${first.key}: choose another output, results replace nothing`,
      );
}

/** Spark and others put files beside their output that are none of it. */
function isHidden(name: string): boolean {
  return name.endsWith('/') || name.split('/').some((part) => part.startsWith('_') || part.startsWith('.'));
}

/** @throws bad_request */
function formatOf({ key }: ListedFile): Format {
  const format = ENDINGS.find(([, ending]) => ending.test(key))?.[0];
  if (format !== undefined) return format;
  throw badRequest(
    `${key} is no .ndjson, .jsonl, .csv, .parquet or picture by its name; give the format, or files of one format only`,
  );
}

/** A table is a unit, and pictures that follow each other are units of up to a hundred. */
function messagesOf(id: string, { dryRun, batch }: JobRequest, { bucket, prefix, files }: Files) {
  const endpoint = batch?.endpoint;
  const messages: Message[] = [];
  const known: Record<number, number> = {};
  let unit = 0;
  for (let at = 0; at < files.length; unit++) {
    const [key, etag, bytes, format] = elementAt(files, at, 'files');
    const name = key.slice(prefix.length);
    if (format !== 'picture') {
      const file = { bucket, key, etag, bytes };
      messages.push({ do: 'plan', id, unit, file, name, format, at: 0, row: 0, dryRun, endpoint });
      at++;
      continue;
    }
    const group: [string, string, number, string][] = [];
    for (let next = files[at]; next?.[3] === 'picture' && group.length < PICTURES; next = files[++at])
      group.push([next[0], next[1], next[2], next[0].slice(prefix.length)]);
    known[unit] = group.length;
    const some = dryRun ? group.slice(0, DRY_ROWS) : group;
    if (!dryRun || unit === 0)
      messages.push({
        do: 'run',
        id,
        unit,
        row: 0,
        rows: some.length,
        source: { kind: 'picture', bucket, files: some },
      });
  }
  return { messages, known, units: unit };
}

/** Rows that a dry run answers: enough to know their time. */
export const DRY_ROWS = 100;
