/**
 * Replaces the events of S3 about new objects, which the S3 of one machine does not send: it looks for them twice a second.
 * What is there when the service starts was left by the one before.
 */
import { logError } from '../../lib/contract/log.ts';
import { encodeObjectEvent } from '../../lib/notify/parcels.ts';
import type { listPages } from '../../lib/s3/pages.ts';

const LOOK_MS = 500;
/** An object that is still there after this time is reported again: its message may have been lost. */
const AGAIN_MS = 60_000;

/**
 * @param send puts a message into the queue of the events
 * @param againMs `Infinity` for objects that stay
 * @returns a function that ends it
 */
export function watchObjects(
  objects: { pages(): ReturnType<typeof listPages> },
  send: (message: string) => Promise<void>,
  againMs = AGAIN_MS,
): () => Promise<void> {
  const told = new Map<string, { readonly modifiedAt: number; readonly atMs: number }>();
  const look = async () => {
    const found = new Set<string>();
    for await (const page of objects.pages()) {
      const fresh = page.filter(({ key, modifiedAt }) => {
        found.add(key);
        const before = told.get(key);
        return before?.modifiedAt !== modifiedAt || performance.now() - before.atMs > againMs;
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
    await look().catch((error: unknown) => logError(error, { phase: 'new objects' }));
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
