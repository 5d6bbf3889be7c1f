/**
 * Encodes the small message that points to a large one in S3. It comes from untrusted callers, so only a key directly
 * under the job's own payload prefix is accepted.
 */
import { LIMITS } from '../contract/limits.ts';
import { assertUri, payloadPrefix } from '../contract/names.ts';
import { isObject } from './instances.ts';

/** @param bytes of the message; without it readers must expect the largest */
export function encodePointer(uri: string, key: string, bytes?: number): string {
  return JSON.stringify({ uri, pointer: key, bytes });
}

export interface Pointer {
  readonly uri: string;
  readonly key: string;
  /** The size of the object; undefined if unknown. */
  readonly bytes?: number;
}

/** The longest body of a pointer: a uri of 1 KiB with every byte escaped, and a key. */
const POINTER_CHARACTERS = 8_192;

/** Undefined for any other message. */
export function decodePointer(body: string, job: string): Pointer | undefined {
  if (body.length > POINTER_CHARACTERS || !body.includes('"pointer"')) return undefined;
  try {
    const parsed: unknown = JSON.parse(body);
    if (!isObject(parsed) || typeof parsed['pointer'] !== 'string') return undefined;
    // A failure of the payload is stored under this uri.
    const uri = assertUri(parsed['uri']);
    const key = parsed['pointer'];
    const prefix = payloadPrefix(job);
    const isOurs = key.startsWith(prefix) && /^[\w-]{1,80}$/.test(key.slice(prefix.length));
    if (!isOurs) return undefined;
    const bytes = parsed['bytes'];
    const isSize = Number.isInteger(bytes) && Number(bytes) >= 0 && Number(bytes) <= LIMITS.payloadBytes;
    return isSize ? { uri, key, bytes: Number(bytes) } : { uri, key };
  } catch {
    return undefined;
  }
}
