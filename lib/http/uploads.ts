/**
 * Bodies over the gateway's limit: a client uploads one to where POST /uploads says, and sends `{"payload": id}` in its place. The id is the
 * digest of the body, so a client that names it has the body, and an upload of other bytes has no name.
 */
import { isObject } from '../codecs/instances.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';

export interface Upload {
  readonly bytes: number;
  /** In small hex: the id of the upload. */
  readonly sha256: string;
}

/** Where a body is uploaded by PUT. */
export interface UploadPlace {
  /** Absolute, or at the host that was asked. */
  readonly url: string;
  /** Headers that the request must have. */
  readonly headers: Readonly<Record<string, string>>;
  /** When the url stops to work, in ms since 1970. */
  readonly expiresAt: number;
}

/**
 * @param caller by `callerOf`: the upload of another one is not there
 * @throws not_found, bad_request, queue_unavailable
 */
export type ReadUpload = (id: string, caller: string) => Promise<Uint8Array>;

const DIGEST = /^[0-9a-f]{64}$/;
/** `{"payload": id}` with white space. A longer body is none. */
const MOST_CHARACTERS = 256;

/** @throws bad_request, too_large */
export function readUpload(body: unknown): Upload {
  const { bytes, sha256, ...others }: Readonly<Record<string, unknown>> = isObject(body) ? body : {};
  if (!Number.isInteger(bytes) || Number(bytes) < 1)
    throw badRequest(
      'bytes: expected the number of bytes of the body, as in {"bytes": 7340032, "sha256": "…"}',
    );
  if (!isUploadId(sha256))
    throw badRequest('sha256: expected the digest of the body, 64 digits of hex in small letters');
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw badRequest(`unknown key "${other.slice(0, 40)}"; expected "bytes", "sha256"`);
  if (Number(bytes) > LIMITS.payloadBytes)
    throw overLimit('payloadBytes', `the body is ${String(bytes)} bytes,`);
  return { bytes: Number(bytes), sha256 };
}

export function isUploadId(text: unknown): text is string {
  return typeof text === 'string' && DIGEST.test(text);
}

/**
 * The upload that a body of JSON names in its place; undefined for any other body.
 * @throws bad_request for a name that is none, or that has other keys beside it
 */
export function uploadIn(body: Uint8Array | string): string | undefined {
  if (body.length > MOST_CHARACTERS) return undefined;
  const text = typeof body === 'string' ? body : Buffer.from(body).toString();
  if (!text.includes('"payload"')) return undefined;
  const parsed = parsedOrUndefined(text);
  if (!isObject(parsed) || !('payload' in parsed) || 'instances' in parsed) return undefined;
  const { payload, ...others } = parsed;
  if (Object.keys(others).length > 0)
    throw badRequest('"payload" stands alone: any other key belongs into the body that was uploaded');
  if (isUploadId(payload)) return payload;
  throw badRequest('payload: expected the id that POST /uploads answered with');
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The uploaded body. @throws as ReadUpload; bad_request where it names an upload itself, or the service takes none */
export async function uploadedBody(
  id: string,
  caller: string,
  read: ReadUpload | undefined,
): Promise<Uint8Array> {
  if (!read) throw new ServingError('bad_request', 'payload: this service takes no uploads');
  const body = await read(id, caller);
  if (uploadIn(body) === undefined) return body;
  throw badRequest('payload: what was uploaded names another upload');
}
