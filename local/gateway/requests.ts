/**
 * Processes a request: route, slot, body, handler, response. A request is refused before its body is read; the
 * connection stays usable if the rest of the body is small enough to drop.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { GatewayRequest, Observer } from '../../lib/pipeline/observer.ts';
import { errorFields, invoke, type LocalLog } from '../aws/lambda.ts';
import { endAfterBody, MAX_BODY_BYTES, MAX_DROPPED_BYTES, readBody } from './body.ts';
import { type CallerRules, foreignHost, foreignOrigin, withoutToken } from './caller.ts';
import { type Clients, Served } from './clients.ts';
import { applyCors } from './cors.ts';
import { gatewayEvent, isTooLargeForLambda, MAX_HEADER_BYTES, type RequestHead, readHead } from './event.ts';
import {
  enveloped,
  type GatewayStatus,
  gatewayMessage,
  tooManyWaits,
  toWire,
  type WireResponse,
  writeEarly,
  writeResponse,
} from './response.ts';
import { decodePath, findRoute, type GatewayRoute, type RouteTable } from './routes.ts';
import type { Slots } from './slots.ts';

const TURNS_BEFORE_REFUSAL = 2;
/** A client that takes none of its answer for so long is disconnected. */
const STALLED_ANSWER_MS = 30_000;

export interface GatewayState {
  readonly observer: Observer;
  readonly log: LocalLog;
  readonly callers: CallerRules;
  /** The limit for all bodies together. */
  readonly maxHeldBytes: number;
  readonly table: RouteTable;
  readonly timeoutMs: number;
  readonly clock: () => number;
  /** Slots for requests, from the first byte of the body until the handler ends or the client leaves. */
  readonly places: Slots;
  /** Slots for the routes that have their own. */
  readonly ownSlots: Slots;
  /** Slots for requests that wait for results. */
  readonly waitSlots: Slots;
  readonly clients: Clients;
  /** Bytes of all bodies; each counts until its handler ends. */
  heldBytes: number;
  /**
   * Responses that are not finished yet. Only counted: a set from which every element is soon deleted keeps them all until V8
   * collects the old generation, because each table that it replaces refers to the next one.
   */
  openResponses: number;
  /** The time for a body that is not streamed; the server's own limit may be that of streams. */
  readonly bodyTimeoutMs: number;
  /** Connections that were answered before their request ended. */
  readonly answered: WeakSet<Duplex>;
  closing: boolean;
  onIdle: () => void;
}

export function acceptRequest(state: GatewayState, request: IncomingMessage, response: ServerResponse): void {
  state.openResponses++;
  const served = new Served(response);
  const { requestId } = served;
  const { socket } = request;
  state.clients.add(socket, served);
  const startedMs = performance.now();
  state.observer.requestArrived?.({});
  response.once('close', () => {
    state.openResponses--;
    state.clients.remove(socket, served);
    if (!response.writableFinished) served.become('gone');
    state.observer.requestAnswered?.({
      ...(served.route ? requestOf(served.route) : NO_ROUTE),
      status: response.headersSent ? response.statusCode : undefined,
      tookMs: performance.now() - startedMs,
    });
    if (state.openResponses === 0) state.onIdle();
  });
  serve(state, request, served).catch((error: unknown) => {
    state.log.error('the gateway failed', { requestId, ...errorFields(error) });
    if (!response.headersSent) answer(state, response, gatewayMessage(500), requestId);
  });
}

async function serve(state: GatewayState, request: IncomingMessage, served: Served): Promise<void> {
  const { response, requestId } = served;
  const head = readHead(request);
  const [rawPath, rawQueryString] = splitUrl(request.url ?? '');
  const path = decodePath(rawPath);
  const match = path === undefined ? undefined : findRoute(state.table, request.method ?? '', path);
  served.route = match?.route;
  const shaped = (wire: WireResponse) => (match?.route.hasEnvelope ? enveloped(wire) : wire);
  const dismiss = (wire: WireResponse) =>
    refuseRequest(state, request, response, head, shaped(wire), requestId);
  // Node makes an object of the headers when it is asked for; this one has them already.
  const caller = { method: request.method, socket: request.socket, headers: head.headers };
  const foreign = foreignHost(state.callers, caller);
  if (foreign) return dismiss(foreign);
  if (applyCors(state.callers.cors, request, response)) return;
  const noToken = match?.route.isOpen?.(head.headers) ? undefined : withoutToken(state.callers, caller);
  const refused = foreignOrigin(state.callers, caller) ?? noToken;
  if (refused) return dismiss(refused);
  const refuse = (status: GatewayStatus) => dismiss(gatewayMessage(status));
  if (head.bytes > MAX_HEADER_BYTES) return refuse(431);
  if (path === undefined) return refuse(400);
  if (match === undefined) return refuse(404);
  const places = slotsFor(state, match.route, head, rawQueryString);
  if (places.isFull && (await staysFull(places)))
    return places === state.waitSlots ? dismiss(tooManyWaits()) : refuse(429);
  if (match.route.refuses?.()) return refuse(429);
  const slot = served.take(places, match.route.onLeave);
  const { maxBytes } = match.route;
  const about = { request, head, path, rawQueryString, match, requestId, nowMs: state.clock() };
  let heldBytes = 0;
  const hold = (bytes: number) => {
    if (state.heldBytes + bytes > state.maxHeldBytes) return false;
    state.heldBytes += bytes;
    heldBytes += bytes;
    return true;
  };
  try {
    if (match.route.stream) {
      const event = gatewayEvent({ ...about, body: undefined });
      const wire = await runStream(match.route.stream, request, response, event);
      if (!wire) return;
      return request.complete ? answer(state, response, wire, requestId) : dismiss(wire);
    }
    const read = await inTime(state, request, () =>
      readBody(request, head.bodyBytes, maxBytes ?? MAX_BODY_BYTES, hold),
    );
    if (read.kind === 'gone' || served.presence === 'gone') return;
    if (read.kind === 'too_large') return refuse(413);
    if (read.kind === 'no_room') return refuse(429);
    const event = gatewayEvent({ ...about, body: read.bytes });
    if (maxBytes === undefined && isTooLargeForLambda(event)) {
      return answer(state, response, shaped(gatewayMessage(413)), requestId);
    }
    const wire = await run(state, match.route, event, shaped, served);
    answer(state, response, wire, requestId);
  } finally {
    slot.release();
    state.heldBytes -= heldBytes;
  }
}

async function inTime<T>(state: GatewayState, request: IncomingMessage, read: () => Promise<T>): Promise<T> {
  if (request.complete) return read();
  const timer = setTimeout(() => {
    const late: NodeJS.ErrnoException = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
    refuseSocket(state, late, request.socket);
  }, state.bodyTimeoutMs);
  return read().finally(() => clearTimeout(timer));
}

async function runStream(
  stream: NonNullable<GatewayRoute['stream']>,
  request: IncomingMessage,
  response: ServerResponse,
  event: Parameters<GatewayRoute['handler']>[0],
): Promise<WireResponse | undefined> {
  const result = await stream(request, response, event);
  if (result === undefined) return undefined;
  const wire = toWireSafely(result, undefined);
  return 'problem' in wire ? gatewayMessage(500) : wire;
}

function slotsFor(
  { places, ownSlots, waitSlots }: GatewayState,
  route: GatewayRoute,
  { headers }: RequestHead,
  query: string,
): Slots {
  if (route.ownSlots) return ownSlots;
  return route.waits?.(headers, query) ? waitSlots : places;
}

/** @returns the path, and the query without its question mark */
function splitUrl(url: string): [string, string] {
  const queryAt = url.indexOf('?');
  return queryAt < 0 ? [url, ''] : [url.slice(0, queryAt), url.slice(queryAt + 1)];
}

async function run(
  state: GatewayState,
  route: GatewayRoute,
  event: Parameters<GatewayRoute['handler']>[0],
  shaped: (wire: WireResponse) => WireResponse,
  caller: Served,
): Promise<WireResponse> {
  const { log } = state;
  const timeoutMs = route.timeoutMs ?? state.timeoutMs;
  const facts = { functionName: nameOf(route), timeoutMs, caller };
  const client = event.requestContext.http.sourceIp;
  const bytes = Number(event.headers['content-length'] ?? 0);
  state.observer.requestAccepted?.({ ...requestOf(route), client, bytes });
  const invocation = await invoke(route.handler, event, facts, state.timeoutMs);
  const where = { route: event.routeKey, requestId: event.requestContext.requestId };
  if (invocation.kind === 'timed_out') {
    log.error(`the handler took longer than ${invocation.afterMs} ms`, where);
    return shaped(gatewayMessage(timeoutMs < state.timeoutMs ? 500 : 503));
  }
  if (invocation.kind === 'failed') {
    log.error('the handler threw', { ...where, ...errorFields(invocation.error) });
    return shaped(gatewayMessage(500));
  }
  const wire = toWireSafely(invocation.result, route.maxBytes);
  if (!('problem' in wire)) return wire;
  log.error(`the handler returned no response: ${wire.problem}`, where);
  return shaped(gatewayMessage(500));
}

const NO_ROUTE = { method: 'none', route: 'none', functionName: undefined };

function requestOf({ method, path, functionName }: GatewayRoute): GatewayRequest {
  return { method, route: path, functionName };
}

/** Names the route /predictions/{uri} predictions-uri. */
export function nameOf(route: GatewayRoute): string {
  return route.functionName ?? (route.path.match(/[A-Za-z0-9_]+/g) ?? ['root']).join('-');
}

/** The length of that many bytes as base64. */
function asBase64(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

/** A result that JSON cannot represent (a cycle, a bigint, a getter that throws) fails as on Lambda. */
function toWireSafely(result: unknown, maxBytes: number | undefined): ReturnType<typeof toWire> {
  try {
    return toWire(result, maxBytes === undefined ? undefined : asBase64(maxBytes));
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function answer(state: GatewayState, response: ServerResponse, wire: WireResponse, requestId: string): void {
  if (response.destroyed) return;
  writeResponse(response, wire, requestId, state.closing);
  if (response.writableLength > 0) holdAnswer(state, response, wire.bodyBytes);
}

/** An answer that its client has not taken yet counts as a body, and a client that takes none of it is disconnected. */
function holdAnswer(state: GatewayState, response: ServerResponse, bytes: number): void {
  state.heldBytes += bytes;
  // Node closes a connection after this time without progress, and sets another time when the answer is sent.
  response.socket?.setTimeout(STALLED_ANSWER_MS);
  response.once('close', () => {
    state.heldBytes -= bytes;
  });
}

/** Clients that left free their slots when what has arrived by now was read. */
async function staysFull(slots: Slots): Promise<boolean> {
  for (let turn = 0; turn < TURNS_BEFORE_REFUSAL && slots.isFull; turn++) await setImmediate();
  return slots.isFull;
}

/** Answers before the body is read: at once when there is none, else while the body is dropped. */
function refuseRequest(
  state: GatewayState,
  request: IncomingMessage,
  response: ServerResponse,
  head: RequestHead,
  wire: WireResponse,
  requestId: string,
): void {
  if (response.destroyed) return;
  if (request.complete || head.bodyBytes === 0) return answer(state, response, wire, requestId);
  const close = state.closing || head.bodyBytes === undefined || head.bodyBytes > MAX_DROPPED_BYTES;
  state.answered.add(request.socket);
  response.once('finish', () => state.answered.delete(request.socket));
  endAfterBody(request, response);
  writeEarly(response, wire, requestId, close);
}

/** Answers an incomplete request: invalid HTTP, too slow, or headers beyond node's limit. */
export function refuseSocket(state: GatewayState, error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET' || state.answered.has(socket)) {
    socket.destroy();
    return;
  }
  const status =
    error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  const body = String(gatewayMessage(status).body);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}
