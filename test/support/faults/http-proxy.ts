/**
 * An HTTP proxy in front of SQS or S3 that injects a fault into chosen requests. A truncated answer must announce its
 * full length, or the client sees a short answer and no fault.
 */
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Hooks } from '../runner.ts';
import { signed } from '../signed-request.ts';

export interface SeenRequest {
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  /** `AmazonSQS.SendMessageBatch` and similar; '' for S3. */
  readonly action: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body: Buffer;
}

export type RequestFate =
  | { readonly kind: 'pass'; readonly after?: () => void }
  /** The service never sees it. */
  | { readonly kind: 'answer'; readonly answer: Answer }
  /** The service sees another request in its place, the client another answer. */
  | {
      readonly kind: 'change';
      readonly request?: (request: SeenRequest) => Buffer | Promise<Buffer>;
      readonly answer?: (answer: Answer) => Answer;
    }
  /** The connection ends before the service sees it. */
  | { readonly kind: 'reset'; readonly after?: () => void }
  /** The service does it, the connection ends before the answer. */
  | { readonly kind: 'lose'; readonly after?: () => void }
  /** The head and a share (0 to 1) of the answer's body; then the connection ends. */
  | { readonly kind: 'cut'; readonly share: number; readonly after?: () => void }
  /** The head and a share of the body; then nothing more, and no end. 0: not even the head. */
  | { readonly kind: 'stall'; readonly share: number; readonly after?: () => void };

export interface HttpProxy {
  readonly url: string;
  /** Asked for every request; all pass by default. */
  onRequest: (request: SeenRequest) => RequestFate;
  /** `GET /bucket/key` and `AmazonSQS.SendMessageBatch`, so far. */
  readonly seen: string[];
  /** Requests whose answer is not out yet. */
  readonly waiting: number;
  /** Ends every connection there is. */
  resetAll(): void;
}

export async function startHttpProxy(t: Hooks, targetUrl: string): Promise<HttpProxy> {
  const seen: string[] = [];
  const agent = new http.Agent({ keepAlive: true });
  const sockets = new Set<Socket>();
  let waiting = 0;
  const server = http.createServer((incoming, outgoing) => {
    waiting++;
    outgoing.on('close', () => waiting--);
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('error', () => undefined);
    outgoing.on('error', () => undefined);
    incoming.on('end', () => {
      const request: SeenRequest = {
        method: incoming.method ?? 'GET',
        path: incoming.url ?? '/',
        action: String(incoming.headers['x-amz-target'] ?? ''),
        headers: incoming.headers,
        body: Buffer.concat(chunks),
      };
      seen.push(request.action || `${request.method} ${request.path.replace(/\?.*$/, '')}`);
      void act(request, proxy.onRequest(request), outgoing, (body) =>
        forward(agent, targetUrl, request, body),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: HttpProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    onRequest: () => ({ kind: 'pass' }),
    seen,
    get waiting() {
      return waiting;
    },
    resetAll() {
      for (const socket of sockets) reset(socket);
    },
  };
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  t.after(async () => {
    agent.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return proxy;
}

async function act(
  request: SeenRequest,
  fate: RequestFate,
  outgoing: http.ServerResponse,
  ask: (body: Buffer) => Promise<Answer>,
): Promise<void> {
  const end = () => {
    if (outgoing.socket) reset(outgoing.socket);
  };
  if (fate.kind === 'answer') return tell(outgoing, fate.answer);
  if (fate.kind === 'reset') {
    fate.after?.();
    return end();
  }
  if (fate.kind === 'stall' && fate.share === 0) return fate.after?.();
  let answer: Answer;
  try {
    answer = await ask(fate.kind === 'change' && fate.request ? await fate.request(request) : request.body);
  } catch {
    return end();
  }
  if (fate.kind === 'change') return tell(outgoing, fate.answer ? fate.answer(answer) : answer);
  if (fate.kind === 'pass') return tell(outgoing, answer, fate.after);
  if (fate.kind === 'lose') {
    fate.after?.();
    return end();
  }
  outgoing.writeHead(answer.status, answer.headers as http.OutgoingHttpHeaders);
  const part = answer.body.subarray(0, Math.floor(answer.body.length * fate.share));
  // The head goes out alone when there is nothing of the body.
  outgoing.flushHeaders();
  outgoing.write(part, () => {
    fate.after?.();
    if (fate.kind === 'cut') outgoing.socket?.end();
  });
}

/** One that is ending already cannot be reset: its handle would never close. */
function reset(socket: Socket): void {
  if (socket.writableEnded || socket.readableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

function tell(outgoing: http.ServerResponse, { status, headers, body }: Answer, after?: () => void): void {
  outgoing.writeHead(status, headers as http.OutgoingHttpHeaders);
  outgoing.end(body, () => after?.());
}

function forward(agent: http.Agent, targetUrl: string, request: SeenRequest, body: Buffer): Promise<Answer> {
  const headers = body.equals(request.body) ? { ...request.headers } : signedAgain(request, body);
  for (const name of ['expect', 'transfer-encoding', 'content-length', 'connection']) delete headers[name];
  return new Promise((resolve, reject) => {
    const call = http.request(
      new URL(request.path, targetUrl),
      { method: request.method, agent, headers: { ...headers, 'content-length': body.length } },
      (reply) => {
        const chunks: Buffer[] = [];
        reply.on('data', (chunk: Buffer) => chunks.push(chunk));
        reply.on('error', reject);
        reply.on('end', () => {
          const whole = Buffer.concat(chunks);
          const { 'transfer-encoding': _, connection: __, ...kept } = reply.headers;
          resolve({
            status: reply.statusCode ?? 500,
            headers: { ...(kept as Answer['headers']), 'content-length': lengthOf(request, reply, whole) },
            body: whole,
          });
        });
      },
    );
    call.on('error', reject);
    call.end(body);
  });
}

/** A changed body needs a signature of its own, with the keys of this process, which are the client's too. */
function signedAgain({ method, path, headers }: SeenRequest, body: Buffer): http.OutgoingHttpHeaders {
  const { 'content-type': type = '', 'x-amz-target': target = '', host = '' } = headers;
  const credentials = {
    accessKeyId: process.env['AWS_ACCESS_KEY_ID'] ?? '',
    secretAccessKey: process.env['AWS_SECRET_ACCESS_KEY'] ?? '',
  };
  const kept = { 'content-type': type, 'x-amz-target': String(target) };
  const again = signed({ method, path, headers: kept, body }, { credentials, service: 'sqs', host });
  return { ...again.headers };
}

/** A HEAD has a length and no body. */
function lengthOf(request: SeenRequest, reply: http.IncomingMessage, body: Buffer): string {
  return request.method === 'HEAD' ? String(reply.headers['content-length'] ?? 0) : String(body.length);
}

/** S3's answer when it refuses. */
export function s3Error(status: number, code: string): Answer {
  const body = Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>injected</Message></Error>`,
  );
  return {
    status,
    headers: { 'content-type': 'application/xml', 'content-length': String(body.length) },
    body,
  };
}

/** SQS's answer when it refuses. */
export function sqsError(status: number, code: string): Answer {
  const body = Buffer.from(JSON.stringify({ __type: `com.amazonaws.sqs#${code}`, message: 'injected' }));
  return {
    status,
    headers: { 'content-type': 'application/x-amz-json-1.0', 'content-length': String(body.length) },
    body,
  };
}
