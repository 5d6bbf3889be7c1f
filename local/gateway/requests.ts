/**
 * Processes a request: route, slot, body, handler, response. A request is refused before its body is read; the
 * connection stays usable if the rest of the body is small enough to drop.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorFields, invoke, type LocalLog } from '../aws/lambda.ts';
import { endAfterBody, MAX_BODY_BYTES, MAX_DROPPED_BYTES, readBody } from './body.ts';
import { type CallerRules, foreignHost, foreignOrigin, withoutToken } from './caller.ts';
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
  enveloped,
  GATEWAY_MESSAGES,
  type GatewayStatus,
  gatewayMessage,
  toWire,
  type WireResponse,
  writeEarly,
  writeResponse,
} from './response.ts';
import { decodePath, findRoute, type GatewayRoute, type RouteTable } from './routes.ts';
import type { Slot, Slots } from './slots.ts';

/** A request while it is served. */
export interface Seen {
  /** Undefined until it is known, and where there is none. */
  route?: Pick<GatewayRoute, 'method' | 'path' | 'functionName'>;
}

/** Called when a request arrives. @returns called when it is over; no status: the client left before the answer */
export type Observe = (request: Seen) => (status: number | undefined, tookMs: number) => void;

export interface GatewayState {
  readonly observe: Observe;
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
  /** Bytes of all bodies; each counts until its handler ends. */
  heldBytes: number;
  /**
   * Responses that are not finished yet. Only counted: a set from which every element is soon deleted keeps them all until V8
   * collects the old generation, because each table that it replaces refers to the next one.
   */
  openResponses: number;
  /** Connections that were answered before their request ended. */
  readonly answered: WeakSet<Duplex>;
  closing: boolean;
  onIdle: () => void;
}

export function acceptRequest(state: GatewayState, request: IncomingMessage, response: ServerResponse): void {
  state.openResponses++;
  const served: Served = { response, requestId: newRequestId(), seen: {} };
  const { requestId, seen } = served;
  const startedMs = performance.now();
  const over = state.observe(seen);
  response.once('close', () => {
    state.openResponses--;
    served.slot?.abandon();
    over(response.headersSent ? response.statusCode : undefined, performance.now() - startedMs);
    if (state.openResponses === 0) state.onIdle();
  });
  serve(state, request, served).catch((error: unknown) => {
    state.log.error('the gateway failed', { requestId, ...errorFields(error) });
    if (!response.headersSent) answer(state, response, gatewayMessage(500), requestId);
  });
}

interface Served {
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly seen: Seen;
  /** While its handler runs. */
  slot?: Slot;
}

async function serve(state: GatewayState, request: IncomingMessage, served: Served): Promise<void> {
  const { response, requestId, seen } = served;
  const head = readHead(request);
  const [rawPath, rawQueryString] = splitUrl(request.url ?? '');
  const path = decodePath(rawPath);
  const match = path === undefined ? undefined : findRoute(state.table, request.method ?? '', path);
  if (match) seen.route = match.route;
  const shaped = (wire: WireResponse) => (match?.route.hasEnvelope ? enveloped(wire) : wire);
  const dismiss = (wire: WireResponse) =>
    refuseRequest(state, request, response, head, shaped(wire), requestId);
  // Node makes an object of the headers when it is asked for; this one has them already.
  const caller = { method: request.method, socket: request.socket, headers: head.headers };
  const foreign = foreignHost(state.callers, caller);
  if (foreign) return dismiss(foreign);
  if (applyCors(state.callers.cors, request, response)) return;
  const isOpen = match?.route.isOpen?.(head.headers) ?? false;
  const refused =
    foreignOrigin(state.callers, caller) ?? (isOpen ? undefined : withoutToken(state.callers, caller));
  if (refused) return dismiss(refused);
  const refuse = (status: GatewayStatus) => dismiss(gatewayMessage(status));
  if (head.bytes > MAX_HEADER_BYTES) return refuse(431);
  if (path === undefined) return refuse(400);
  if (match === undefined) return refuse(404);
  const places = match.route.ownSlots ? state.ownSlots : state.places;
  if (places.isFull || match.route.refuses?.()) return refuse(429);
  const slot = places.take();
  served.slot = slot;
  const { maxBytes } = match.route;
  let heldBytes = 0;
  const hold = (bytes: number) => {
    if (state.heldBytes + bytes > state.maxHeldBytes) return false;
    state.heldBytes += bytes;
    heldBytes += bytes;
    return true;
  };
  try {
    const read = await readBody(request, head.bodyBytes, maxBytes ?? MAX_BODY_BYTES, hold);
    if (read.kind === 'gone') return;
    if (read.kind === 'too_large') return refuse(413);
    if (read.kind === 'no_room') return refuse(429);
    const event = gatewayEvent({
      request,
      head,
      path,
      rawQueryString,
      match,
      body: read.bytes,
      requestId,
      nowMs: state.clock(),
    });
    if (maxBytes === undefined && isTooLargeForLambda(event)) {
      return answer(state, response, shaped(gatewayMessage(413)), requestId);
    }
    const wire = await run(state, match.route, event, shaped);
    if (!response.destroyed) writeResponse(response, wire, requestId, state.closing);
  } finally {
    slot.release();
    state.heldBytes -= heldBytes;
  }
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
): Promise<WireResponse> {
  const { log } = state;
  const timeoutMs = route.timeoutMs ?? state.timeoutMs;
  const facts = { functionName: nameOf(route), timeoutMs };
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

/** Names the route /predictions/{uri} predictions-uri. */
export function nameOf(route: GatewayRoute): string {
  return route.functionName ?? (route.path.match(/[A-Za-z0-9_]+/g) ?? ['root']).join('-');
}

/** The length of so many bytes as base64. */
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
  if (!response.destroyed) writeResponse(response, wire, requestId, state.closing);
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
  const body = JSON.stringify({ message: GATEWAY_MESSAGES[status] });
  socket.end(
    `HTTP/1.1 ${status} ${GATEWAY_MESSAGES[status]}\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}
