/**
 * Replaces the events of S3 about the outbox, which the S3 of one machine does not send: it looks for new objects twice a second.
 * What is there when the service starts was left by the one before.
 */
import { logError } from '../../lib/contract/log.ts';
import { encodeObjectEvent } from '../../lib/notify/parcels.ts';
import type { OutboxReader } from '../../lib/s3/outbox-reader.ts';

const LOOK_MS = 500;
/** An object that is still there after this time is reported again: its message may have been lost. */
const AGAIN_MS = 60_000;

/** @param send puts a message into the notifier's queue. @returns a function that ends it */
export function watchOutbox(
  outbox: Pick<OutboxReader, 'pages'>,
  send: (message: string) => Promise<void>,
): () => Promise<void> {
  const told = new Map<string, { readonly modifiedAt: number; readonly atMs: number }>();
  const look = async () => {
    const found = new Set<string>();
    for await (const page of outbox.pages()) {
      const fresh = page.filter(({ key, modifiedAt }) => {
        found.add(key);
        const before = told.get(key);
        return before?.modifiedAt !== modifiedAt || performance.now() - before.atMs > AGAIN_MS;
      });
      const sent = fresh.map(async ({ key, modifiedAt }) => {
        await send(encodeObjectEvent(key));
        told.set(key, { modifiedAt, atMs: performance.now() });
      });
      await Promise.all(sent);
    }
    for (const key of told.keys()) if (!found.has(key)) told.delete(key);
  };
  let isEnded = false;
  let timer: NodeJS.Timeout | undefined;
  const looking = async (): Promise<void> => {
    await look().catch((error: unknown) => logError(error, { phase: 'outbox' }));
    if (!isEnded) timer = setTimeout(next, LOOK_MS).unref();
  };
  let current: Promise<void> | undefined;
  const next = () => {
    current = looking();
  };
  next();
  return async () => {
    isEnded = true;
    clearTimeout(timer);
    await current;
  };
}
