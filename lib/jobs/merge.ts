/**
 * Makes one object of the parts, in the order of the rows. A large one is an upload in pieces that each delivery of the message makes in
 * the same way, so that a second delivery, also at the same time, writes the same bytes to the same place.
 */
import { ServingError } from '../contract/errors.ts';
import { elementAt, present } from '../contract/present.ts';
import type { Begun } from './begin.ts';
import { readPart } from './cover.ts';
import { keepOutputs } from './openai/outputs.ts';
import {
  type Address,
  ERRORS,
  type JobKeys,
  type JobRequest,
  keysOf,
  RESULTS,
  readAddress,
  SUMMARY,
  type Summary,
} from './request.ts';
import { type JobDeps, type MergeMessage, readJson, requestOf } from './store.ts';
import type { Whole } from './watch.ts';

const MiB = 1024 * 1024;
/** A piece, unless there would be more than S3 takes. S3 takes no less than 5 MiB, but for the last one. */
const PIECE_BYTES = 8 * MiB;
const MOST_PIECES = 9_000;
const READS = 8;

/** @returns what is left to be done in another event */
export async function merge(
  { id, etags, files: done = 0 }: MergeMessage,
  deps: JobDeps,
  isOver: () => boolean,
): Promise<MergeMessage | undefined> {
  const { store, job } = deps;
  const keys = keysOf(job, id);
  if ((await store.text(keys.summary)) !== undefined) return removeParts(keys, deps);
  const whole = await readJson<Whole>(store, keys.whole);
  if (!whole) return undefined;
  const request = await requestOf(store, keys);
  if (request.dryRun) {
    const first = (await readParts(resultsOf(whole), keys, deps))
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
    return finish(id, { keys, request, whole, files: [], first }, deps);
  }
  const files = filesOf(whole, request, keys);
  for (let i = done, made = etags; i < files.length; i++, made = []) {
    if (i > done && isOver()) return { do: 'merge', id, etags: [], files: i };
    const left = await writeFile(elementAt(files, i, 'files'), made, keys, deps, isOver);
    if (left) return { do: 'merge', id, etags: left, files: i };
  }
  return finish(id, { keys, request, whole, files }, deps);
}

/** Also for a delivery after one that ended behind the summary. */
async function removeParts(keys: JobKeys, { store, bucket }: JobDeps): Promise<undefined> {
  await store.put(keys.done, '{}');
  for await (const page of store.pages({ bucket, key: keys.parts }))
    await store.remove(page.map(({ key }) => key));
}

/** Bytes of a part. */
interface Range {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** A file to be made, of ranges that follow each other. */
export interface Merged {
  readonly name: typeof RESULTS | typeof ERRORS;
  readonly target: Address;
  readonly ranges: readonly Range[];
  readonly bytes: number;
  /** Where the id of its upload is. */
  readonly upload: string;
}

const resultsOf = ({ pieces }: Whole): Range[] =>
  pieces.map(([name, bytes]) => ({ name, start: 0, end: bytes - apartOf(name, bytes) }));

const errorsOf = ({ pieces }: Whole): Range[] =>
  pieces.map(([name, bytes]) => ({ name, start: bytes - apartOf(name, bytes), end: bytes }));

function apartOf(name: string, bytes: number): number {
  return readPart(name, bytes)?.apart ?? 0;
}

/** The results; those of a batch in two files, which are there where they have lines. */
function filesOf(whole: Whole, { output, batch }: JobRequest, keys: JobKeys): readonly Merged[] {
  const { bucket, key } = readAddress('output', output);
  const file = (name: Merged['name'], ranges: readonly Range[], upload: string): Merged => ({
    name,
    target: { bucket, key: `${key}${name}` },
    ranges: ranges.filter(({ start, end }) => end > start),
    bytes: bytesOf(ranges),
    upload,
  });
  const results = file(RESULTS, resultsOf(whole), keys.upload);
  if (!batch) return [results];
  return [results, file(ERRORS, errorsOf(whole), keys.errorUpload)].filter(({ bytes }) => bytes > 0);
}

/** @returns the ETags of what is there, where no time is left for the rest */
async function writeFile(
  { name, target, ranges, bytes, upload: key }: Merged,
  etags: readonly string[],
  keys: JobKeys,
  deps: JobDeps,
  isOver: () => boolean,
): Promise<readonly string[] | undefined> {
  const { store } = deps;
  const pieces = piecesOf(ranges);
  const read = (place: number) => readParts(pieces[place] ?? [], keys, deps);
  if (pieces.length <= 1) {
    await store.putObject(target, await read(0));
    return undefined;
  }
  const upload = await uploadOf(key, target, deps);
  const made = [...etags];
  let isOpen = true;
  while (isOpen && made.length < pieces.length) {
    if (isOver()) return made;
    const etag = await store.putPart(target, upload, made.length + 1, await read(made.length));
    isOpen = etag !== undefined;
    if (etag !== undefined) made.push(etag);
  }
  isOpen &&= await store.complete(target, upload, made);
  // Somebody else has completed it.
  if (!isOpen && (await store.size(target)) !== bytes)
    throw new ServingError('conflict', `the upload of ${name} is gone`);
  return undefined;
}

const bytesOf = (ranges: readonly Range[]): number =>
  ranges.reduce((sum, { start, end }) => sum + end - start, 0);

function piecesOf(ranges: readonly Range[]): Range[][] {
  const least = Math.max(PIECE_BYTES, Math.ceil(bytesOf(ranges) / MOST_PIECES));
  const pieces: Range[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const range of ranges) {
    if (size >= least) {
      pieces.push([]);
      size = 0;
    }
    pieces.at(-1)?.push(range);
    size += range.end - range.start;
  }
  return pieces;
}

async function readParts(
  ranges: readonly Range[],
  keys: JobKeys,
  { store, bucket }: JobDeps,
): Promise<Buffer> {
  const bodies: Uint8Array[] = [];
  for (let at = 0; at < ranges.length; at += READS) {
    const reads = ranges.slice(at, at + READS).map(({ name, start, end }) => {
      return store.read({ bucket, key: `${keys.parts}${name}`, bytes: end, etag: '' }, start, end);
    });
    bodies.push(...(await Promise.all(reads)));
  }
  return Buffer.concat(bodies);
}

/** The upload of the job, which two deliveries share. */
async function uploadOf(key: string, target: Address, { store }: JobDeps): Promise<string> {
  const kept = await readJson<string>(store, key);
  if (kept === undefined) await store.putNew(key, JSON.stringify(await store.begin(target)));
  return kept ?? present(await readJson<string>(store, key), key);
}

interface Ended {
  readonly keys: JobKeys;
  readonly request: JobRequest;
  readonly whole: Whole;
  readonly files: readonly Merged[];
  readonly first?: readonly unknown[];
}

async function finish(
  id: string,
  { keys, request, whole, files, first }: Ended,
  deps: JobDeps,
): Promise<undefined> {
  const { store, memoryMB, arch, now } = deps;
  const begun = present(await readJson<Begun>(store, keys.begun), keys.begun);
  const { pieces: _, ...progress } = whole;
  const results = files.find(({ name }) => name === RESULTS)?.target;
  const summary: Summary = {
    id,
    ...progress,
    bytes: begun.bytes,
    results: results && `s3://${results.bucket}/${results.key}`,
    ...(first && { first }),
    memoryMB,
    arch,
    startedAt: begun.startedAt,
    finishedAt: new Date(now()).toISOString(),
  };
  const text = JSON.stringify(summary);
  if (request.batch) await keepOutputs(id, files, deps);
  if (!request.dryRun) {
    const output = readAddress('output', request.output);
    await store.putObject({ bucket: output.bucket, key: `${output.key}${SUMMARY}` }, Buffer.from(text));
  }
  await store.put(keys.summary, text);
  return removeParts(keys, deps);
}
