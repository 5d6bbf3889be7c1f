/**
 * Downloads one file of the hub, and continues what an earlier attempt has left of it. Nothing is believed of a server: the
 * bytes are those of the digest that the list gives, or the file is removed.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { badModel, modelUnavailable, ServingError } from '../../lib/contract/errors.ts';
import { digestFile } from '../../lib/registry/digest.ts';
import type { ListedFile } from '../../onnx-import/index.ts';
import type { HubClient } from './client.ts';

/** Attempts that bring nothing new, after which the hub is given up. */
const MAX_FAILURES = 5;
const PAUSE_MS = 1_000;

export interface FileOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with the bytes of the file that are there. */
  readonly onBytes: (bytes: number) => void;
  /** Replaced in tests. */
  readonly pauseMs?: number | undefined;
}

/** @throws bad_model when the content is another one; model_unavailable when it does not arrive; the signal's reason */
export async function downloadFile(
  client: HubClient,
  path: string,
  file: ListedFile,
  target: string,
  { signal, onBytes, pauseMs = PAUSE_MS }: FileOptions,
): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  let failures = 0;
  for (;;) {
    const before = await sizeOf(target);
    try {
      if (before !== file.bytes)
        await appendTo(target, before, file, await openAt(client, path, before), onBytes);
      break;
    } catch (error) {
      signal?.throwIfAborted();
      const { code } = ServingError.from(error);
      failures = (await sizeOf(target)) > before ? 0 : failures + 1;
      if (code !== 'model_unavailable' || failures === MAX_FAILURES) throw error;
      await pause(pauseMs * 2 ** failures, undefined, signal ? { signal } : {});
    }
  }
  if (await hasDigest(target, file)) return;
  await rm(target, { force: true });
  throw badModel(
    `${file.path}: the content is not that of the digest in the list of the hub, so it was removed; a proxy or a mirror may have changed it`,
  );
}

interface Opened {
  readonly from: number;
  readonly chunks: AsyncIterable<Uint8Array>;
}

async function openAt(client: HubClient, path: string, from: number): Promise<Opened> {
  const { response, chunks, close } = await client.open(path, from);
  if (response.status === 200) return { from: 0, chunks };
  const range = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  if (Number(range) === from) return { from, chunks };
  await close();
  throw modelUnavailable(`${path}: asked for the bytes from ${from}, got ${range ?? 'no range'}`);
}

async function appendTo(
  target: string,
  before: number,
  { path, bytes }: ListedFile,
  { from, chunks }: Opened,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const handle = await open(target, from === 0 || before === 0 ? 'w' : 'r+');
  let at = from;
  try {
    for await (const chunk of chunks) {
      if (at + chunk.length > bytes)
        throw badModel(`${path}: the server sends more than the ${bytes} bytes that the list gives`);
      await handle.write(chunk, 0, chunk.length, at);
      onBytes((at += chunk.length));
    }
  } finally {
    await handle.close();
  }
  if (at < bytes) throw modelUnavailable(`${path}: the download ended after ${at} of ${bytes} bytes`);
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

export async function hasDigest(path: string, file: ListedFile): Promise<boolean> {
  if ((await sizeOf(path)) !== file.bytes) return false;
  const { digest } = file;
  if ('sha256' in digest) return (await digestFile(path, 'sha256')) === digest.sha256;
  return (await gitSha1(path, file.bytes)) === digest.gitSha1;
}

/** The name that git gives to a content. */
async function gitSha1(path: string, bytes: number): Promise<string> {
  const hash = createHash('sha1').update(`blob ${bytes}\0`);
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest('hex');
}
