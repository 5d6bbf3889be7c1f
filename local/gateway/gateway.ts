/**
 * API Gateway on this machine: a server that passes HTTP requests to handlers as events and returns their results. As
 * on AWS it answers 503 "Service Unavailable" after its own 30 s, and 500 "Internal Server Error" after the
 * function's shorter timeout, an error or an invalid result; the client never sees the reason.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { Observer } from '../../lib/pipeline/observer.ts';
import type { LocalLog } from '../aws/lambda.ts';
import { listenError } from '../machine/ports.ts';
import { MAX_BODY_BYTES } from './body.ts';
import type { CallerRules } from './caller.ts';
import { Clients } from './clients.ts';
import { MAX_HEADER_BYTES, newRequestId } from './event.ts';
import { acceptRequest, type GatewayState, nameOf, refuseSocket } from './requests.ts';
import { gatewayMessage, writeResponse } from './response.ts';
import { compileRoutes, type GatewayRoute } from './routes.ts';
import { Slots } from './slots.ts';

/** API Gateway's longest integration timeout, ms. */
const MAX_INTEGRATION_MS = 30_000;
/** The operating system refuses further connections. */
const MAX_CONNECTIONS = 8192;
/** Node's default of 511 fills up during one long run of a model, and then clients retry only after whole seconds. */
const BACKLOG = 4096;
const MAX_REQUESTS = 1000;
/** For routes with `ownSlots`. */
const MAX_OWN_REQUESTS = 100;
/** Clients that wait for results at the same time, apart from all other requests. More are answered 429 with `Retry-After`. */
const MAX_WAITS = 4_000;
const MAX_HELD_BYTES = 512 * 1024 * 1024;
const KEEP_ALIVE_MS = 60_000;
/** The time in which a client must send a request that is streamed. */
const STREAM_MS = 900_000;
const CHECK_INTERVAL_MS = 500;

export interface GatewayOptions extends CallerRules {
  /** 0 takes any free port. */
  readonly port: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  readonly routes: readonly GatewayRoute[];
  readonly log: LocalLog;
  /** The time limit of a handler in ms, default and maximum 30,000. */
  readonly timeoutMs?: number;
  /** The time in which a client must send a request, in ms; default 30,000. */
  readonly requestTimeoutMs?: number;
  /**
   * Concurrent requests, default 1000; further ones are answered 429. A request whose client left does not count, but
   * at most four times as many handlers run. Routes with `ownSlots` have 100 of their own.
   */
  readonly maxConcurrentRequests?: number;
  /** Requests that wait for results, default 4,000; further ones are answered 429. */
  readonly maxWaits?: number;
  /** Bytes of all bodies in memory, default 512 MiB; further requests are answered 429. */
  readonly maxHeldBytes?: number;
  /** How long close() waits for running requests, in ms; default 10,000. */
  readonly closeTimeoutMs?: number;
  /** The option that errors name when the port is in use, default --port. */
  readonly portOption?: string;
  /** Wall clock in ms, for the time of an event. Default Date.now. */
  readonly clock?: () => number;
  /** Observes each request. Default: none. */
  readonly observer?: Observer;
}

export interface Gateway {
  /** Where this machine reaches it. */
  readonly url: string;
  readonly port: number;
  /** Stops listening, waits for running requests and closes the other connections. */
  close(): Promise<void>;
}

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const requestTimeoutMs = options.requestTimeoutMs ?? MAX_INTEGRATION_MS;
  const state: GatewayState = {
    log: options.log,
    callers: options,
    maxHeldBytes: options.maxHeldBytes ?? MAX_HELD_BYTES,
    table: compileRoutes(options.routes.map((route) => ({ ...route, functionName: nameOf(route) }))),
    timeoutMs: Math.min(options.timeoutMs ?? MAX_INTEGRATION_MS, MAX_INTEGRATION_MS),
    clock: options.clock ?? Date.now,
    observer: options.observer ?? {},
    places: new Slots(options.maxConcurrentRequests ?? MAX_REQUESTS),
    ownSlots: new Slots(MAX_OWN_REQUESTS),
    waitSlots: new Slots(options.maxWaits ?? MAX_WAITS),
    clients: new Clients(),
    heldBytes: 0,
    openResponses: 0,
    answered: new WeakSet(),
    bodyTimeoutMs: requestTimeoutMs,
    closing: false,
    onIdle: () => undefined,
  };
  const hasStreams = options.routes.some(({ stream }) => stream);
  const mostBytes = Math.max(MAX_BODY_BYTES, ...options.routes.map(({ maxBytes = 0 }) => maxBytes));
  const server = createServer({
    // Node counts names and separators, AWS does not, so node's limit must be larger.
    maxHeaderSize: 4 * MAX_HEADER_BYTES,
    requestTimeout: hasStreams ? Math.max(requestTimeoutMs, STREAM_MS) : requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, requestTimeoutMs),
    keepAliveTimeout: KEEP_ALIVE_MS,
  });
  server.maxConnections = MAX_CONNECTIONS;
  // A client that ends its sending may still read. The types of Node do not have this option.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on('connection', (socket) => state.clients.connected(socket));
  server.on('request', (request, response) => acceptRequest(state, request, response));
  server.on('checkContinue', (request, response) => {
    // A client refused here never sends its body, so nothing waits for it.
    const isTooMuch = Number(request.headers['content-length'] ?? 0) > mostBytes;
    if (isTooMuch) return writeResponse(response, gatewayMessage(413), newRequestId(), true);
    response.writeContinue();
    acceptRequest(state, request, response);
  });
  server.on('clientError', (error, socket) => refuseSocket(state, error, socket));
  const port = await listen(server, options);
  const { host: at = '127.0.0.1' } = options;
  const host = at === '0.0.0.0' ? '127.0.0.1' : at === '::' ? '::1' : at;
  let closed: Promise<void> | undefined;
  return {
    port,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    close: () => (closed ??= closeGateway(state, server, options.closeTimeoutMs)),
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

async function closeGateway(state: GatewayState, server: Server, timeoutMs = 10_000): Promise<void> {
  state.closing = true;
  const stopped = new Promise<void>((resolve) => server.close(() => resolve()));
  if (state.openResponses > 0) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      state.onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
  // Idle keep-alive sockets, incomplete requests and anything that outlived the wait.
  server.closeAllConnections();
  await stopped;
}
