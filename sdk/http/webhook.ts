/**
 * Opens what the service tells a webhook, for receivers on Node, Deno, Workers and in browsers: checks that it was signed with the
 * secret, and a moment ago. The same event may come several times, always under the same id.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';

/** A record that is done. */
export interface RecordEvent {
  /** The same for each announcement of this outcome: what was handled under this id can be dropped. */
  readonly id: string;
  readonly type: 'record.succeeded' | 'record.failed' | 'record.cancelled';
  /** ISO 8601. */
  readonly timestamp: string;
  readonly data: {
    readonly job: string;
    readonly uri: string;
    /** Which enqueue of the uri it is, as `enqueue` returned it. */
    readonly identity: string;
    readonly status: 'succeeded' | 'failed' | 'cancelled';
    /** The version of the model; absent where none ran. */
    readonly version?: string;
    /** ISO 8601. */
    readonly finishedAt: string;
    /** The error of a record that failed or was cancelled. */
    readonly error?: ErrorRecord;
    /** As GET /predictions answers it, for a target with `include: result`. */
    readonly result?: unknown;
    /** True where the result is over 64 kB, and has to be asked for. */
    readonly resultTooLarge?: boolean;
  };
}

export interface UnwrapOptions {
  /** How old or early a message may be, in seconds. Default 300. */
  readonly toleranceSeconds?: number;
  /** Wall clock in ms. Default Date.now. */
  readonly now?: () => number;
}

type HeaderMap = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Limit for a body. The service sends 64 kB of result and a few hundred bytes. */
const BODY_BYTES = 1024 * 1024;
const MOST_SIGNATURES = 16;

/**
 * The event in a request to a webhook.
 * @param body as it came, before it was parsed
 * @param secret `whsec_…`; several with blanks between them while one replaces the other
 * @throws unauthorized for a message that was not signed with the secret, or is too old; bad_config for a text that is not a secret
 */
export async function unwrap(
  body: string | Uint8Array,
  headers: HeaderMap | Getter,
  secret: string,
  { toleranceSeconds = 300, now = Date.now }: UnwrapOptions = {},
): Promise<RecordEvent> {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  if (bytes.byteLength > BODY_BYTES) throw refused(`its body is over ${BODY_BYTES} bytes`);
  const read = readerOf(headers);
  const [id, timestamp, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map(read);
  if (!id || !timestamp || !signature)
    throw refused('a header webhook-id, -timestamp or -signature is missing');
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN;
  if (!(Math.abs(now() / 1000 - seconds) <= toleranceSeconds))
    throw refused(`its time is not within ${toleranceSeconds} s of now`);
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.byteLength + bytes.byteLength);
  signed.set(head);
  signed.set(bytes, head.byteLength);
  if (!(await isSigned(signed, signature, secret)))
    throw refused('its signature is not made with the secret');
  const event: Omit<RecordEvent, 'id'> = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  return { ...event, id };
}

async function isSigned(signed: Uint8Array<ArrayBuffer>, header: string, secret: string): Promise<boolean> {
  const signatures = header
    .split(' ')
    .slice(0, MOST_SIGNATURES)
    .flatMap((one) => (one.startsWith('v1,') ? (bytesOf(one.slice(3)) ?? []) : []));
  for (const word of secret.split(/\s+/).filter(Boolean)) {
    const raw = bytesOf(word.replace(/^whsec_/, ''));
    if (!raw || raw.byteLength < 24) throw badSecret();
    const algorithm = { name: 'HMAC', hash: 'SHA-256' };
    const key = await crypto.subtle.importKey('raw', raw, algorithm, false, ['verify']);
    // Compares in constant time.
    for (const one of signatures) if (await crypto.subtle.verify('HMAC', key, one, signed)) return true;
  }
  if (secret.trim() === '') throw badSecret();
  return false;
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

interface Getter {
  get(name: string): string | null;
}

function isGetter(headers: HeaderMap | Getter): headers is Getter {
  return typeof headers['get'] === 'function';
}

function readerOf(headers: HeaderMap | Getter): (name: string) => string | undefined {
  if (isGetter(headers)) return (name) => headers.get(name) ?? undefined;
  const values = new Map(Object.entries(headers).map(([name, text]) => [name.toLowerCase(), text]));
  return (name) => {
    const value = values.get(name);
    return typeof value === 'string' ? value : value?.[0];
  };
}

function refused(why: string): ServingError {
  return new ServingError('unauthorized', `the message is not from the service: ${why}`);
}

function badSecret(): ServingError {
  return new ServingError('bad_config', 'secret: expected whsec_ and base64 of at least 24 bytes');
}
