/** The messages of the notifier's queue: events of S3 about objects of the outbox, and notices that come again. */
import { forSqs } from '../codecs/sqs-text.ts';
import { badRequest } from '../contract/errors.ts';
import { isNotice, type Notice } from '../contract/notice.ts';

/** A notice on its way. */
export interface Parcel {
  readonly notice: Notice;
  /** Number of attempts so far. */
  readonly attempt: number;
  /** The first failure, in ms since 1970. */
  readonly since?: number | undefined;
  /** Why it was given up. */
  readonly reason?: string | undefined;
}

interface Opened {
  /** True for the message of a rule: to look for objects whose events were lost. */
  readonly isLook: boolean;
  /** The objects that the parcels come from. */
  readonly keys: readonly string[];
  readonly parcels: readonly Parcel[];
}

export function encodeParcel(parcel: Parcel): string {
  return forSqs(JSON.stringify(parcel));
}

/** An event of S3 about a new object. */
export function encodeObjectEvent(key: string): string {
  const escaped = encodeURIComponent(key).replaceAll('%2F', '/');
  return JSON.stringify({ Records: [{ s3: { object: { key: escaped } } }] });
}

/** @param read the notices of an object; undefined if it is gone. @throws bad_request for anything else */
export async function readParcels(
  body: string,
  read: (key: string) => Promise<readonly Notice[] | undefined>,
): Promise<Opened> {
  const message: Message = Object(JSON.parse(body));
  if (message.notice !== undefined) return { ...NOTHING, parcels: [parcelOf(message)] };
  // S3 sends it once, when it is notified of the queue.
  if (message.Event === 's3:TestEvent') return NOTHING;
  if (message.look === 'outbox') return { ...NOTHING, isLook: true };
  if (!Array.isArray(message.Records)) throw unknown();
  const keys = message.Records.map(keyOf);
  const found = await Promise.all(keys.map(read));
  return {
    ...NOTHING,
    keys: keys.filter((_, i) => found[i] !== undefined),
    parcels: found.flatMap((notices) => (notices ?? []).map((notice) => ({ notice, attempt: 0 }))),
  };
}

const NOTHING: Opened = { isLook: false, keys: [], parcels: [] };

interface Message {
  readonly look?: unknown;
  readonly notice?: unknown;
  readonly attempt?: unknown;
  readonly since?: unknown;
  readonly Event?: unknown;
  readonly Records?: unknown;
}

/** @throws bad_request */
function parcelOf({ notice, attempt, since }: Message): Parcel {
  if (!isNotice(notice)) throw unknown();
  return {
    notice,
    attempt: typeof attempt === 'number' ? attempt : 0,
    since: typeof since === 'number' ? since : undefined,
  };
}

/** S3 escapes a key as a form does. */
function keyOf(record: unknown): string {
  const { s3 }: { readonly s3?: { readonly object?: { readonly key?: unknown } } } = Object(record);
  const key = s3?.object?.key;
  if (typeof key !== 'string') throw unknown();
  return decodeURIComponent(key.replaceAll('+', ' '));
}

function unknown() {
  return badRequest(
    'a message of the notifier: expected an event of S3, or {"notice": {"id", "target", "body"}}',
  );
}
