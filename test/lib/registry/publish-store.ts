/**
 * An S3 with conditions (If-Match, If-None-Match) and checksums, which the emulator lacks: one bucket in memory,
 * objects written whole.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { openS3 } from '../../../lib/s3/client.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { useAws } from '../../support/environment.ts';

export interface StrictStore {
  readonly s3: S3Client;
  /** By key, without the bucket. */
  readonly objects: Map<string, Buffer>;
  /** Called before a put is judged. */
  beforePut: (key: string) => void;
  /** True: the object is written, and the connection ends before the answer. */
  losesAnswer: (key: string) => boolean;
  /** The store's reading of a body, if it is faulty. */
  stored: (key: string, body: Buffer) => Buffer;
  /** False: it keeps no checksums, as some stores do. */
  keepsChecksums: boolean;
  /** Asked before a put: true hangs, without an answer, until the client gives up. */
  hangs: () => boolean;
}

const etagOf = (body: Buffer) => `"${createHash('md5').update(body).digest('hex')}"`;

export async function strictStore(t: TestContext): Promise<StrictStore> {
  const objects = new Map<string, Buffer>();
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const s3 = openS3({ endpoint, region: 'local' });
  t.after(() => {
    s3.destroy();
    server.closeAllConnections();
    server.close();
  });
  const store: StrictStore = {
    s3,
    objects,
    beforePut: () => undefined,
    losesAnswer: () => false,
    stored: (_, body) => body,
    keepsChecksums: true,
    hangs: () => false,
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = decodeURIComponent(new URL(request.url ?? '', endpoint).pathname);
    const key = path.split('/').slice(2).join('/');
    const body = await buffer(request);
    if (request.method === 'PUT' && store.hangs()) return;
    if (request.method === 'PUT') return put(key, body, request, response);
    const object = objects.get(key);
    if (!object) return refuse(response, 404, 'NoSuchKey');
    response.setHeader('etag', etagOf(object));
    if (store.keepsChecksums)
      response.setHeader('x-amz-checksum-sha256', createHash('sha256').update(object).digest('base64'));
    response.setHeader('content-length', object.length);
    if (request.method === 'HEAD') return void response.end();
    const [, from = '0', to = `${object.length}`] =
      /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? [];
    const part = object.subarray(Number(from), Number(to) + 1);
    response.removeHeader('x-amz-checksum-sha256');
    response.setHeader('content-length', part.length);
    response.writeHead(request.headers.range ? 206 : 200).end(part);
  }

  function put(
    key: string,
    body: Buffer,
    { headers, socket }: IncomingMessage,
    response: ServerResponse,
  ): void {
    store.beforePut(key);
    const held = objects.get(key);
    const match = headers['if-match'];
    if (match !== undefined && !held) return refuse(response, 404, 'NoSuchKey');
    if (match !== undefined && held && match !== etagOf(held))
      return refuse(response, 412, 'PreconditionFailed');
    if (headers['if-none-match'] === '*' && held) return refuse(response, 412, 'PreconditionFailed');
    const claimed = headers['x-amz-checksum-sha256'];
    const actual = createHash('sha256').update(body).digest('base64');
    if (claimed !== undefined && claimed !== actual) return refuse(response, 400, 'BadDigest');
    objects.set(key, store.stored(key, body));
    if (store.losesAnswer(key)) return void socket.destroy();
    response.setHeader('etag', etagOf(body));
    response.end();
  }
  return store;
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' });
  response.end(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`);
}
