/** The routes of a worker's service that clients use, in this process, with a function as the worker. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encodeFrame, FrameDecoder, type Header } from '../../lib/codecs/values/frame.ts';
import { ValueReader } from '../../lib/codecs/values/read-value.ts';
import { ValueWriter } from '../../lib/codecs/values/write-value.ts';
import type { WorkerValue } from '../../lib/contract/worker-values.ts';
import type { Hooks } from './runner.ts';

export const FRAME_TYPE = 'application/x-wkr';

/** An error that it throws fails the item; `{ code }` is its code. */
export type Work = (value: WorkerValue, id: string) => unknown;

export interface WorkerServiceOptions {
  /** Answers a request before its body is read, if it gives a status. */
  readonly refuse?: (request: IncomingMessage) => number | undefined;
  readonly status?: Readonly<Record<string, unknown>>;
}

export interface WorkerService {
  readonly server: Server;
  readonly port: number;
  readonly url: string;
  /** Method and path of each request. */
  readonly requests: readonly string[];
  readonly headers: readonly IncomingMessage['headers'][];
}

interface Finished {
  readonly id: string;
  readonly value?: unknown;
  readonly error?: unknown;
}

export async function workerService(
  t: Hooks,
  work: Work,
  options: WorkerServiceOptions = {},
): Promise<WorkerService> {
  const requests: string[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const results = new Map<string, Finished[]>();
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    headers.push(request.headers);
    void answer(request, response, work, results, options);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { server, port, url: `http://127.0.0.1:${port}`, requests, headers };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  work: Work,
  results: Map<string, Finished[]>,
  options: WorkerServiceOptions,
): Promise<void> {
  const refused = options.refuse?.(request);
  if (refused !== undefined) return refuse(response, refused);
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
  if (pathname === '/status/server') {
    const status = { protocol: 'obj', wkr_protocol: 1, server_version: '0.1.0', ...options.status };
    return send(response, 200, 'application/json', [Buffer.from(JSON.stringify(status))]);
  }
  if (pathname.startsWith('/results/')) {
    const identity = pathname.slice('/results/'.length);
    const after = Number(searchParams.get('after'));
    const all = () => results.get(identity) ?? [];
    const endAt = performance.now() + Number(searchParams.get('wait')) * 1000;
    while (all().length <= after && performance.now() < endAt)
      await new Promise((resolve) => setTimeout(resolve, 5));
    return sendResults(response, all().slice(after), Math.max(after, all().length));
  }
  if (pathname !== '/encode') return refuse(response, 404);
  const { header, value } = readItem(Buffer.concat(await request.toArray()));
  const id = String(header['id']);
  const identity = String(header['identity']);
  if (request.headers.prefer !== 'respond-async') {
    return sendFrame(response, { type: 'encoded', id }, [await outcomeOf(work, value, id)]);
  }
  const accepted = JSON.stringify({ error_code: 0, error_message: '', data: { id } });
  send(response, 202, 'application/json', [Buffer.from(accepted)]);
  const finished = await outcomeOf(work, value, id);
  results.set(identity, [...(results.get(identity) ?? []), finished]);
}

function readItem(body: Uint8Array): { header: Header; value: WorkerValue } {
  const decoder = new FrameDecoder();
  const [frame] = [...decoder.push(body)];
  decoder.end();
  if (!frame) throw new Error('no frame');
  const reader = new ValueReader(frame.blocks);
  const value = reader.read(frame.header['value']);
  reader.end();
  return { header: frame.header, value };
}

async function outcomeOf(work: Work, value: WorkerValue, id: string): Promise<Finished> {
  try {
    return { id, value: await work(value, id) };
  } catch (error) {
    const { code = 'model_failed', message } = error as { code?: string; message: string };
    return { id, error: { code, message } };
  }
}

function sendResults(response: ServerResponse, finished: readonly Finished[], cursor: number): void {
  const writer = new ValueWriter();
  const results = finished.map((each) => ({ id: each.id, outcome: outcome(each, writer) }));
  const frame = encodeFrame({ type: 'results', cursor, results }, writer.blocks);
  send(response, 200, FRAME_TYPE, frame);
}

function sendFrame(response: ServerResponse, header: Header, [finished]: readonly [Finished]): void {
  const writer = new ValueWriter();
  const frame = { ...header, outcome: outcome(finished, writer) };
  send(response, 200, FRAME_TYPE, encodeFrame(frame, writer.blocks));
}

function outcome(finished: Finished, writer: ValueWriter): Header {
  return 'error' in finished ? { error: finished.error } : { value: writer.write(finished.value, 'value') };
}

function refuse(response: ServerResponse, status: number): void {
  const envelope = { error_code: status, error_message: `refused with ${status}`, data: null };
  send(response, status, 'application/json', [Buffer.from(JSON.stringify(envelope))]);
}

function send(response: ServerResponse, status: number, type: string, body: readonly Uint8Array[]): void {
  response.writeHead(status, { 'content-type': type });
  response.end(Buffer.concat(body));
}
