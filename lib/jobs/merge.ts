/**
 * Makes one object of the parts, in the order of the rows. A large one is an upload in pieces that each delivery of the message makes in
 * the same way, so that a second delivery, also at the same time, writes the same bytes to the same place.
 */
import { ServingError } from '../contract/errors.ts';
import { present } from '../contract/present.ts';
import type { Begun } from './begin.ts';
import {
  type Address,
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
  { id, etags }: MergeMessage,
  deps: JobDeps,
  isOver: () => boolean,
): Promise<MergeMessage | undefined> {
  const { store, job, bucket } = deps;
  const keys = keysOf(job, id);
  if ((await store.text(keys.summary)) !== undefined) return undefined;
  const whole = await readJson<Whole>(store, keys.whole);
  if (!whole) return undefined;
  const request = await requestOf(store, keys);
  const pieces = piecesOf(whole);
  const read = (parts: Piece) => readParts(parts, keys, deps);
  if (request.dryRun) {
    const first = (await read(pieces.flat()))
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
    await finish(id, { keys, request, whole, first }, deps);
    return undefined;
  }
  const output = readAddress('output', request.output);
  const target = { bucket: output.bucket, key: `${output.key}${RESULTS}` };
  if (pieces.length <= 1) await store.putObject(target, await read(pieces[0] ?? []));
  else {
    const upload = await uploadOf(keys, target, deps);
    const made = [...etags];
    let isOpen = true;
    while (isOpen && made.length < pieces.length) {
      if (isOver()) return { do: 'merge', id, etags: made };
      const etag = await store.putPart(
        target,
        upload,
        made.length + 1,
        await read(pieces[made.length] ?? []),
      );
      isOpen = etag !== undefined;
      if (etag !== undefined) made.push(etag);
    }
    isOpen &&= await store.complete(target, upload, made);
    // Somebody else has completed it.
    if (!isOpen && (await store.size(target)) !== bytesOf(whole.pieces))
      throw new ServingError('conflict', `the upload of ${RESULTS} is gone`);
  }
  await finish(id, { keys, request, whole, target }, deps);
  for await (const page of store.pages({ bucket, key: keys.parts }))
    await store.remove(page.map(({ key }) => key));
  return undefined;
}

/** Parts that follow each other. */
type Piece = Whole['pieces'];

const bytesOf = (parts: Piece): number => parts.reduce((sum, [, bytes]) => sum + bytes, 0);

function piecesOf({ pieces: parts }: Whole): Piece[] {
  const least = Math.max(PIECE_BYTES, Math.ceil(bytesOf(parts) / MOST_PIECES));
  const pieces: Piece[number][][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const part of parts) {
    if (size >= least) {
      pieces.push([]);
      size = 0;
    }
    pieces.at(-1)?.push(part);
    size += part[1];
  }
  return pieces;
}

async function readParts(parts: Piece, keys: JobKeys, { store, bucket }: JobDeps): Promise<Buffer> {
  const bodies: Uint8Array[] = [];
  for (let at = 0; at < parts.length; at += READS) {
    const reads = parts.slice(at, at + READS).map(([name, bytes]) => {
      return store.read({ bucket, key: `${keys.parts}${name}`, bytes, etag: '' }, 0, bytes);
    });
    bodies.push(...(await Promise.all(reads)));
  }
  return Buffer.concat(bodies);
}

/** The upload of the job, which two deliveries share. */
async function uploadOf(keys: JobKeys, target: Address, { store }: JobDeps): Promise<string> {
  const kept = await readJson<string>(store, keys.upload);
  if (kept === undefined) await store.putNew(keys.upload, JSON.stringify(await store.begin(target)));
  return kept ?? present(await readJson<string>(store, keys.upload), keys.upload);
}

interface Ended {
  readonly keys: JobKeys;
  readonly request: JobRequest;
  readonly whole: Whole;
  readonly target?: Address;
  readonly first?: readonly unknown[];
}

async function finish(
  id: string,
  { keys, request, whole, target, first }: Ended,
  deps: JobDeps,
): Promise<void> {
  const { store, memoryMB, arch, now } = deps;
  const begun = present(await readJson<Begun>(store, keys.begun), keys.begun);
  const { pieces: _, ...progress } = whole;
  const summary: Summary = {
    id,
    ...progress,
    bytes: begun.bytes,
    results: target && `s3://${target.bucket}/${target.key}`,
    ...(first && { first }),
    memoryMB,
    arch,
    startedAt: begun.startedAt,
    finishedAt: new Date(now()).toISOString(),
  };
  const text = JSON.stringify(summary);
  if (target) {
    const output = readAddress('output', request.output);
    await store.putObject({ bucket: output.bucket, key: `${output.key}${SUMMARY}` }, Buffer.from(text));
  }
  await store.put(keys.summary, text);
}
