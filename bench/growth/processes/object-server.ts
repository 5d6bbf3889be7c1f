/**
 * In: a folder. Out: an S3 whose objects are files: whole and in parts, ranges, checksums; no rights, no versions.
 * Trap: the emulator of the local stack holds every object in memory, which 2 GB of model are not to depend on. An
 * upload of many parts is kept as it came, a file a part, so that putting it together costs nothing.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rm, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { serveParent } from '../../processes/child.ts';

export type ObjectServerQuestion =
  | { readonly kind: 'open'; readonly folder: string }
  | { readonly kind: 'place'; readonly key: string; readonly path: string }
  | { readonly kind: 'clear'; readonly prefix: string };

interface Piece {
  readonly path: string;
  readonly bytes: number;
  /** Base64 SHA-256 as the uploader said. */
  readonly checksum: string | undefined;
  /** False: a file that was only placed, and is not ours to remove. */
  readonly isOurs: boolean;
}

interface Stored {
  readonly pieces: readonly Piece[];
  readonly bytes: number;
  readonly etag: string;
  readonly checksum: string | undefined;
}

class ObjectServer {
  readonly #folder: string;
  readonly #objects = new Map<string, Stored>();
  readonly #uploads = new Map<string, Map<number, Piece>>();
  #files = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async place(key: string, path: string): Promise<void> {
    const { size } = await stat(path);
    this.#keep(key, [{ path, bytes: size, checksum: undefined, isOurs: false }], undefined);
  }

  async clear(prefix: string): Promise<void> {
    for (const [key, { pieces }] of this.#objects) {
      if (!key.startsWith(prefix)) continue;
      this.#objects.delete(key);
      for (const { path, isOurs } of pieces) if (isOurs) await rm(path, { force: true });
    }
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://s3');
    // The first part is the bucket: there is one.
    const key = decodeURIComponent(url.pathname).split('/').slice(2).join('/');
    const upload = url.searchParams.get('uploadId') ?? undefined;
    const method = request.method ?? 'GET';
    if (method === 'PUT') return this.#put(request, response, key, url, upload);
    if (method === 'POST') return this.#post(request, response, key, upload);
    if (method === 'DELETE') return void response.writeHead(204).end();
    const object = this.#objects.get(key);
    if (!object) {
      const text = '<Error><Code>NoSuchKey</Code><Message>there is no such object</Message></Error>';
      return void response.writeHead(404).end(method === 'HEAD' ? undefined : text);
    }
    return this.#get(request, response, object);
  }

  async #put(
    request: IncomingMessage,
    response: ServerResponse,
    key: string,
    url: URL,
    upload: string | undefined,
  ): Promise<void> {
    const path = join(this.#folder, `object-${this.#files++}`);
    await pipeline(request, createWriteStream(path));
    const { size } = await stat(path);
    const checksum = request.headers['x-amz-checksum-sha256'] as string | undefined;
    const piece = { path, bytes: size, checksum, isOurs: true };
    if (upload === undefined) this.#keep(key, [piece], checksum);
    else this.#uploads.get(upload)?.set(Number(url.searchParams.get('partNumber')), piece);
    response.writeHead(200, { etag: `"${randomUUID()}"` }).end();
  }

  async #post(
    request: IncomingMessage,
    response: ServerResponse,
    key: string,
    upload: string | undefined,
  ): Promise<void> {
    await buffer(request);
    const head = '<?xml version="1.0" encoding="UTF-8"?>';
    if (upload === undefined) {
      const id = randomUUID();
      this.#uploads.set(id, new Map());
      const text = `${head}<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`;
      return void response.writeHead(200).end(text);
    }
    const parts = [...(this.#uploads.get(upload) ?? [])].sort(([a], [b]) => a - b).map(([, piece]) => piece);
    this.#uploads.delete(upload);
    // As S3 has it: the checksum of the parts' checksums, and how many there are.
    const hash = createHash('sha256');
    for (const { checksum = '' } of parts) hash.update(Buffer.from(checksum, 'base64'));
    const { etag } = this.#keep(key, parts, `${hash.digest('base64')}-${parts.length}`);
    const text = `${head}<CompleteMultipartUploadResult><ETag>${etag}</ETag></CompleteMultipartUploadResult>`;
    return void response.writeHead(200).end(text);
  }

  #keep(key: string, pieces: readonly Piece[], checksum: string | undefined): Stored {
    const bytes = pieces.reduce((sum, piece) => sum + piece.bytes, 0);
    // With a hyphen it is taken for that of many parts, and nobody compares it with an MD5.
    const object = { pieces, bytes, etag: `"${randomUUID()}"`, checksum };
    this.#objects.set(key, object);
    return object;
  }

  async #get(request: IncomingMessage, response: ServerResponse, object: Stored): Promise<void> {
    const { bytes, etag, checksum, pieces } = object;
    const [, first, last] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    const start = Number(first ?? 0);
    const end = Math.min(Number(last ?? bytes), bytes - 1) + 1;
    response.writeHead(first === undefined ? 200 : 206, {
      etag,
      'content-length': end - start,
      ...(first === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${bytes}` }),
      ...(checksum && first === undefined ? { 'x-amz-checksum-sha256': checksum } : {}),
    });
    if (request.method === 'HEAD') return void response.end();
    await pipeline(Readable.from(partsOf(pieces, start, end)), response);
  }
}

async function* partsOf(pieces: readonly Piece[], start: number, end: number): AsyncGenerator<Buffer> {
  let offset = 0;
  for (const { path, bytes } of pieces) {
    const from = Math.max(start, offset);
    const to = Math.min(end, offset + bytes);
    if (from < to) {
      const range = { start: from - offset, end: to - offset - 1, highWaterMark: 1024 * 1024 };
      for await (const chunk of createReadStream(path, range)) yield chunk as Buffer;
    }
    offset += bytes;
  }
}

if (process.send) {
  let objects: ObjectServer | undefined;
  serveParent(async (asked): Promise<string> => {
    const question = asked as ObjectServerQuestion;
    if (question.kind === 'open') {
      await mkdir(question.folder, { recursive: true });
      const server = new ObjectServer(question.folder);
      objects = server;
      const http = createServer((request, response) => {
        server.answer(request, response).catch((error: unknown) => {
          // Whoever breaks off a download does so on purpose.
          if (!response.destroyed) console.error(error);
          response.destroy();
        });
      });
      await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
      return `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    }
    if (!objects) throw new Error('not opened');
    if (question.kind === 'place') await objects.place(question.key, question.path);
    else await objects.clear(question.prefix);
    return '';
  });
}
