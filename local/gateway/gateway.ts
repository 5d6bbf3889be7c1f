/**
 * In: HTTP requests on a socket. Out: API Gateway HTTP API events for the handlers, their results as responses.
 * Trap: like AWS, the gateway answers 503 "Service Unavailable" at its own 30 s and 500 "Internal Server Error" when
 * the function's shorter timeout ends first, for a thrown error and for a broken result; the client never learns why.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { CorsRules } from '../../lib/http/cors.ts';
import { errorFields, invoke, type LocalLog } from '../aws/lambda.ts';
import { listenError } from '../ports.ts';
import { endAfterBody, MAX_BODY_BYTES, MAX_DROPPED_BYTES, readBody } from './body.ts';
import { applyCors } from './cors.ts';
import {
  gatewayEvent,
  isTooLargeForLambda,
  MAX_HEADER_BYTES,
  newRequestId,
  type RequestHead,
  readHead,
} from './event.ts';
import {
  GATEWAY_MESSAGES,
  type GatewayStatus,
  gatewayMessage,
  toWire,
  type WireResponse,
  writeEarly,
  writeResponse,
} from './response.ts';
import { compileRoutes, decodePath, findRoute, type GatewayRoute, type RouteTable } from './routes.ts';
import { Places } from './slots.ts';

/** API Gateway's longest integration timeout, ms. */
const MAX_INTEGRATION_MS = 30_000;
/** Connections beyond it are refused by the system. */
const MAX_CONNECTIONS = 8192;
/** Node's own 511 fills within one long run of a model; then clients wait whole seconds for another try. */
const BACKLOG = 4096;
const MAX_REQUESTS = 1000;
/** Of routes that have places of their own. */
const MAX_OWN_REQUESTS = 100;
const MAX_HELD_BYTES = 512 * 1024 * 1024;
const KEEP_ALIVE_MS = 60_000;
const CHECK_INTERVAL_MS = 500;

export interface GatewayOptions {
  /** 0 takes any free port. */
  readonly port: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  readonly routes: readonly GatewayRoute[];
  readonly log: LocalLog;
  /** Undefined: no page of another origin may call. */
  readonly cors?: CorsRules | undefined;
  /** How long a handler may take, ms; default and at most 30,000. */
  readonly timeoutMs?: number;
  /** How long a client may take to send one request, ms; default 30,000. */
  readonly requestTimeoutMs?: number;
  /**
   * Requests handled at once, default 1000; one more is answered 429. Whose client left has no place any more, but no
   * more than four times as many handlers run. Routes with `ownPlaces` have 100 beside.
   */
  readonly maxConcurrentRequests?: number;
  /** Bytes of all bodies held at once, default 512 MiB; one more is answered 429. */
  readonly maxHeldBytes?: number;
  /** How long close() waits for requests under way, ms; default 10,000. */
  readonly closeTimeoutMs?: number;
  /** What to name in the message when the port is taken, default --port. */
  readonly portOption?: string;
  /** Wall clock in ms, default Date.now. */
  readonly clock?: () => number;
}

export interface Gateway {
  readonly url: string;
  readonly port: number;
  /** Stops listening, waits for requests under way, then cuts what is left. */
  close(): Promise<void>;
}

interface State {
  readonly options: GatewayOptions;
  readonly table: RouteTable;
  readonly timeoutMs: number;
  readonly clock: () => number;
  /** Of requests from their first byte of body to the end of their handler, or of their client. */
  readonly places: Places;
  /** Of those on routes that have their own. */
  readonly ownPlaces: Places;
  /** Bytes of bodies, each until its handler ends. */
  heldBytes: number;
  /** Responses not yet written or cut. */
  readonly open: Set<ServerResponse>;
  /** Connections that have an answer although their request is not over. */
  readonly answered: WeakSet<Duplex>;
  closing: boolean;
  onIdle: () => void;
}

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const state: State = {
    options,
    table: compileRoutes(options.routes.map((route) => ({ ...route, functionName: nameOf(route) }))),
    timeoutMs: Math.min(options.timeoutMs ?? MAX_INTEGRATION_MS, MAX_INTEGRATION_MS),
    clock: options.clock ?? Date.now,
    places: new Places(options.maxConcurrentRequests ?? MAX_REQUESTS),
    ownPlaces: new Places(MAX_OWN_REQUESTS),
    heldBytes: 0,
    open: new Set(),
    answered: new WeakSet(),
    closing: false,
    onIdle: () => undefined,
  };
  const requestTimeoutMs = options.requestTimeoutMs ?? MAX_INTEGRATION_MS;
  const server = createServer({
    // Names and separators count for node but not for AWS, so node's own limit must be the wider one.
    maxHeaderSize: 4 * MAX_HEADER_BYTES,
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, requestTimeoutMs),
    keepAliveTimeout: KEEP_ALIVE_MS,
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.on('request', (request, response) => accept(state, request, response));
  server.on('checkContinue', (request, response) => {
    // A client refused here never sends its body, so nothing may wait for it.
    const isTooMuch = Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES;
    if (isTooMuch) return writeResponse(response, gatewayMessage(413), newRequestId(), true);
    response.writeContinue();
    accept(state, request, response);
  });
  server.on('clientError', (error, socket) => refuseSocket(state, error, socket));
  const port = await listen(server, options);
  const host = options.host ?? '127.0.0.1';
  let closed: Promise<void> | undefined;
  return {
    port,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    close: () => (closed ??= closeGateway(state, server)),
  };
}

async function listen(server: Server, options: GatewayOptions): Promise<number> {
  const { port, host = '127.0.0.1', portOption = '--port' } = options;
  server.listen({ port, host, backlog: BACKLOG });
  try {
    await once(server, 'listening');
  } catch (error) {
    throw await listenError(error, { port, host, option: portOption });
  }
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

function accept(state: State, request: IncomingMessage, response: ServerResponse): void {
  state.open.add(response);
  response.once('close', () => {
    state.open.delete(response);
    if (state.open.size === 0) state.onIdle();
  });
  if (applyCors(state.options.cors, request, response)) return;
  const requestId = newRequestId();
  serve(state, request, response, requestId).catch((error: unknown) => {
    state.options.log.error('the gateway failed', { requestId, ...errorFields(error) });
    if (!response.headersSent) answer(state, response, 500, requestId);
  });
}

async function serve(
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
): Promise<void> {
  const head = readHead(request);
  const [rawPath = '', ...query] = (request.url ?? '').split('?');
  const path = decodePath(rawPath);
  const match = path === undefined ? undefined : findRoute(state.table, request.method ?? '', path);
  const refuse = (status: GatewayStatus) => refuseRequest(state, request, response, head, status, requestId);
  if (head.bytes > MAX_HEADER_BYTES) return refuse(431);
  if (path === undefined) return refuse(400);
  if (match === undefined) return refuse(404);
  const places = match.route.ownPlaces ? state.ownPlaces : state.places;
  if (places.isFull || match.route.refuses?.()) return refuse(429);
  const leave = places.take(response);
  let heldBytes = 0;
  const hold = (bytes: number) => {
    if (state.heldBytes + bytes > (state.options.maxHeldBytes ?? MAX_HELD_BYTES)) return false;
    state.heldBytes += bytes;
    heldBytes += bytes;
    return true;
  };
  try {
    const read = await readBody(request, head.bodyBytes, hold);
    if (read.kind === 'gone') return;
    if (read.kind === 'too_large') return refuse(413);
    if (read.kind === 'no_room') return refuse(429);
    const event = gatewayEvent({
      request,
      head,
      path,
      rawQueryString: query.join('?'),
      match,
      body: read.bytes,
      requestId,
      nowMs: state.clock(),
    });
    if (isTooLargeForLambda(event)) return answer(state, response, 413, requestId);
    const wire = await run(state, match.route, event);
    if (!response.destroyed) writeResponse(response, wire, requestId, state.closing);
  } finally {
    leave();
    state.heldBytes -= heldBytes;
  }
}

async function run(
  state: State,
  route: GatewayRoute,
  event: Parameters<GatewayRoute['handler']>[0],
): Promise<WireResponse> {
  const { log } = state.options;
  const timeoutMs = route.timeoutMs ?? state.timeoutMs;
  const facts = { functionName: nameOf(route), timeoutMs, clock: state.clock };
  const invocation = await invoke(route.handler, event, facts, state.timeoutMs);
  const where = { route: event.routeKey, requestId: event.requestContext.requestId };
  if (invocation.kind === 'timed_out') {
    log.error(`the handler took longer than ${invocation.afterMs} ms`, where);
    return gatewayMessage(timeoutMs < state.timeoutMs ? 500 : 503);
  }
  if (invocation.kind === 'failed') {
    log.error('the handler threw', { ...where, ...errorFields(invocation.error) });
    return gatewayMessage(500);
  }
  const wire = toWireSafely(invocation.result);
  if (!('problem' in wire)) return wire;
  log.error(`the handler returned no response: ${wire.problem}`, where);
  return gatewayMessage(500);
}

/** /predictions/{uri} is predictions-uri. */
function nameOf(route: GatewayRoute): string {
  return route.functionName ?? (route.path.match(/[A-Za-z0-9_]+/g) ?? ['root']).join('-');
}

/** A result that JSON cannot hold (a cycle, a bigint, a getter that throws) fails like on Lambda. */
function toWireSafely(result: unknown): ReturnType<typeof toWire> {
  try {
    return toWire(result);
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function answer(state: State, response: ServerResponse, status: GatewayStatus, requestId: string): void {
  if (!response.destroyed) writeResponse(response, gatewayMessage(status), requestId, state.closing);
}

/** Answers before the request's body was read: at once when there is none, else while it is thrown away. */
function refuseRequest(
  state: State,
  request: IncomingMessage,
  response: ServerResponse,
  head: RequestHead,
  status: GatewayStatus,
  requestId: string,
): void {
  if (response.destroyed) return;
  if (request.complete || head.bodyBytes === 0) return answer(state, response, status, requestId);
  const close = state.closing || head.bodyBytes === undefined || head.bodyBytes > MAX_DROPPED_BYTES;
  state.answered.add(request.socket);
  response.once('finish', () => state.answered.delete(request.socket));
  endAfterBody(request, response);
  writeEarly(response, gatewayMessage(status), requestId, close);
}

/** The request was never whole: broken HTTP, too slow, or headers beyond what node reads. */
function refuseSocket(state: State, error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET' || state.answered.has(socket)) {
    socket.destroy();
    return;
  }
  const status =
    error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  const body = JSON.stringify({ message: GATEWAY_MESSAGES[status] });
  socket.end(
    `HTTP/1.1 ${status} ${GATEWAY_MESSAGES[status]}\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

async function closeGateway(state: State, server: Server): Promise<void> {
  state.closing = true;
  const stopped = new Promise<void>((resolve) => server.close(() => resolve()));
  if (state.open.size > 0) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, state.options.closeTimeoutMs ?? 10_000);
      state.onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
  // Idle keep-alive sockets, half-sent heads and whatever outlived the wait.
  server.closeAllConnections();
  await stopped;
}
