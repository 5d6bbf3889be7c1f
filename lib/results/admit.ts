/** Waits for a token of a limiter, whichever store keeps them. */
import { ServingError } from '../contract/errors.ts';
import type { Caller } from '../contract/values.ts';
import { callerIsGone } from '../pipeline/deadline.ts';
import type { LimiterOptions } from './store.ts';

/** The answer of a store: ms until the token may be used, or until a request that got none may come again. */
export interface Asked {
  readonly waitMs: number;
  readonly isTaken: boolean;
}

interface Tokens {
  readonly ask: () => Promise<Asked>;
  /** Gives a token back. Never rejects: one that cannot be given back is lost, as if its request had run. */
  readonly give: () => Promise<unknown>;
}

/** @throws rate_limited; the error of a caller that has left */
export async function admit(
  { ask, give }: Tokens,
  { tokensPerSecond, sleep }: LimiterOptions,
  caller: Caller | undefined,
): Promise<void> {
  const { waitMs, isTaken } = await ask();
  if (!isTaken)
    throw new ServingError('rate_limited', `over ${tokensPerSecond} requests per second`, {
      retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)),
    });
  if (waitMs > 0) await sleep(waitMs, caller?.signal);
  if (caller?.presence !== 'gone') return;
  await give();
  throw callerIsGone();
}
