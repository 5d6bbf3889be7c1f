/**
 * `POST /encode` with a frame: what our own clients send, so that arrays, bytes and dates arrive as they left
 * (docs/reference/worker-protocol.md, "Clients"). An item that fails is an answer; an HTTP error is about the request.
 */
import { assertImage } from '../../codecs/image/image.ts';
import { encodeFrame, ProtocolError, parseRequest } from '../../codecs/values/frame.ts';
import { ValueReader } from '../../codecs/values/read-value.ts';
import { isTensorLike } from '../../codecs/values/tensor-like.ts';
import { decodeFrame } from '../../codecs/values/value-frame.ts';
import { ValueWriter } from '../../codecs/values/write-value.ts';
import { badRequest, type ErrorRecord, ServingError } from '../../contract/errors.ts';
import { LIMITS } from '../../contract/limits.ts';
import type { Inputs, Model, Runner, RunPolicy, Value } from '../../contract/values.ts';
import { EncodedImage, isEncodedImage, type WorkerValue } from '../../contract/worker-values.ts';
import { observeRun } from '../../pipeline/observed.ts';
import type { Observers } from '../../pipeline/observer.ts';
import { prefersAsync } from '../accept.ts';
import type { HttpRequest } from '../request.ts';
import { type HttpResponse, json } from '../response.ts';
import { valueOf } from './item.ts';

export const FRAME_TYPE = 'application/x-wkr';

/** The outcome of an item as a client gets it. */
export type ItemOutcome = { readonly value: WorkerValue } | { readonly error: ErrorRecord };

/** Keeps the outcomes of items whose clients do not wait. */
export interface Later {
  /**
   * Reserves room for an item.
   * @param run never rejects
   * @throws rate_limited when too many items wait
   */
  run(item: LaterItem, run: (isOver: () => boolean) => Promise<ItemOutcome>): void;
}

export interface LaterItem {
  /** Who asks for the outcome. */
  readonly identity: string;
  readonly id: string;
  readonly bytes: number;
}

interface RunDeps {
  readonly model: Model;
  readonly observers: Observers;
}

interface FrameDeps extends RunDeps {
  readonly later: Later | undefined;
  readonly policy: RunPolicy;
}

interface Asked {
  readonly identity: string;
  readonly id: string;
  readonly value: WorkerValue;
}

/** @throws bad_request for a malformed frame; retryable errors of the item */
export async function runFrame(
  request: HttpRequest,
  { later, policy, ...deps }: FrameDeps,
): Promise<HttpResponse> {
  const body = request.body({ limit: 'frameBytes' });
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const { identity, id, value } = readAsked(bytes);
  if (prefersAsync(request)) {
    if (!later) {
      throw badRequest('Prefer: respond-async is served on a single machine only; use POST /predictions');
    }
    later.run({ identity, id, bytes: bytes.byteLength }, (isOver) =>
      runItem(deps, value, { isOver }).catch((error: unknown) => ({
        error: ServingError.from(error).toJSON(),
      })),
    );
    return json(202, { error_code: 0, error_message: '', data: { id } });
  }
  const outcome = await runItem(deps, value, policy);
  // Lambda carries bytes as base64.
  const limit = later ? LIMITS.frameBytes : (LIMITS.httpBodyBytes / 4) * 3;
  return frameAnswer((writer) => ({ type: 'encoded', id, outcome: writeOutcome(outcome, writer) }), limit);
}

/** @throws too_large for a frame over `limit` bytes */
export function frameAnswer(
  write: (writer: ValueWriter) => Readonly<Record<string, unknown>>,
  limit: number = LIMITS.frameBytes,
): HttpResponse {
  const frame = Buffer.concat(encodeLimited(write));
  if (frame.byteLength > limit) {
    throw new ServingError(
      'too_large',
      `the answer is ${frame.byteLength} bytes, over the limit of ${limit}`,
    );
  }
  const headers = { 'content-type': FRAME_TYPE, 'x-content-type-options': 'nosniff' };
  return { statusCode: 200, headers, body: frame.toString('base64'), isBase64Encoded: true };
}

function encodeLimited(write: (writer: ValueWriter) => Readonly<Record<string, unknown>>): Uint8Array[] {
  const writer = new ValueWriter();
  try {
    return encodeFrame(write(writer), writer.blocks);
  } catch (error) {
    // Values that a frame cannot hold; the value came from one, or from a model.
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    throw new ServingError('too_large', `the answer fits into no frame: ${error.message}`, { cause: error });
  }
}

export function writeOutcome(outcome: ItemOutcome, writer: ValueWriter): unknown {
  return 'error' in outcome ? outcome : { value: writer.write(outcome.value, 'value') };
}

/** @throws what the same item may not meet when it is sent again */
async function runItem(
  { model, observers }: RunDeps,
  value: WorkerValue,
  policy: RunPolicy,
): Promise<ItemOutcome> {
  return model.use(async (runner) => {
    const record = recordOf(value, runner);
    const run = () => runner.run([record], { ...policy, failFast: true });
    const ran = await observeRun(1, run, 'request', observers).catch((error: unknown) => [
      { ok: false as const, error: ServingError.from(error) },
    ]);
    const [outcome] = ran;
    if (!outcome) throw new ServingError('internal', 'the runner gave no outcome');
    if (outcome.ok) return { value: valueOf(outcome, runner) };
    if (outcome.error.retryable) throw outcome.error;
    return { error: outcome.error.toJSON() };
  });
}

/** A model takes arrays and images, as its first input. */
function recordOf(value: WorkerValue, { inputs }: Runner): Inputs {
  return new Map([[inputs?.[0]?.name ?? 'item', inputOf(value)]]);
}

function inputOf(value: WorkerValue): Value {
  if (isTensorLike(value)) return { kind: 'tensor', tensor: value };
  return isEncodedImage(value) ? { kind: 'image', bytes: value.bytes } : { kind: 'value', value };
}

const NAME = /^[A-Za-z0-9._-]{1,64}$/;

function readAsked(bytes: Uint8Array): Asked {
  try {
    const { header, blocks } = decodeFrame(bytes);
    const { type, identity, id, value, blocks: _, ...others } = header;
    if (type !== 'encode' || !('value' in header) || Object.keys(others).length > 0) {
      throw badRequest('expected a frame of type "encode" with identity, id and value, and nothing else');
    }
    const reader = new ValueReader(blocks, readImage, parseRequest);
    const asked = { identity: nameOf(identity, 'identity'), id: nameOf(id, 'id'), value: reader.read(value) };
    reader.end();
    return asked;
  } catch (error) {
    if (error instanceof ProtocolError) throw badRequest(error.message);
    throw error;
  }
}

/** @throws bad_request for an invalid name */
export function nameOf(value: unknown, what: string): string {
  if (typeof value === 'string' && NAME.test(value)) return value;
  throw badRequest(`${what}: expected 1 to 64 letters, digits, dots, hyphens or underscores`);
}

function readImage(bytes: Uint8Array): WorkerValue {
  assertImage(bytes);
  return new EncodedImage(bytes);
}
