/**
 * API Gateway on this machine: a server that hands HTTP requests to the handlers as events, and their results back as
 * responses. Like AWS, it answers 503 "Service Unavailable" after its own 30 s and 500 "Internal Server Error" when the
 * function's shorter timeout ends first, for a thrown error and for a broken result; the client never learns why.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { CorsRules } from '../../lib/http/cors.ts';
import type { LocalLog } from '../aws/lambda.ts';
import { listenError } from '../ports.ts';
import { MAX_BODY_BYTES } from './body.ts';
import { MAX_HEADER_BYTES, newRequestId } from './event.ts';
import { acceptRequest, type GatewayState, nameOf, refuseSocket } from './requests.ts';
import { gatewayMessage, writeResponse } from './response.ts';
import { compileRoutes, type GatewayRoute } from './routes.ts';
import { Slots } from './slots.ts';

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
   * more than four times as many handlers run. Routes with `ownSlots` have 100 beside.
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

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const state: GatewayState = {
    log: options.log,
    cors: options.cors,
    maxHeldBytes: options.maxHeldBytes ?? MAX_HELD_BYTES,
    table: compileRoutes(options.routes.map((route) => ({ ...route, functionName: nameOf(route) }))),
    timeoutMs: Math.min(options.timeoutMs ?? MAX_INTEGRATION_MS, MAX_INTEGRATION_MS),
    clock: options.clock ?? Date.now,
    places: new Slots(options.maxConcurrentRequests ?? MAX_REQUESTS),
    ownSlots: new Slots(MAX_OWN_REQUESTS),
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
  server.on('request', (request, response) => acceptRequest(state, request, response));
  server.on('checkContinue', (request, response) => {
    // A client refused here never sends its body, so nothing may wait for it.
    const isTooMuch = Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES;
    if (isTooMuch) return writeResponse(response, gatewayMessage(413), newRequestId(), true);
    response.writeContinue();
    acceptRequest(state, request, response);
  });
  server.on('clientError', (error, socket) => refuseSocket(state, error, socket));
  const port = await listen(server, options);
  const host = options.host ?? '127.0.0.1';
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
  if (state.open.size > 0) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
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
