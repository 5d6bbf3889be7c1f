/**
 * Sends a request again that certainly did nothing (429), or that does the same when it arrives twice: a read, and an
 * enqueue with its identity, an upload. Each try is signed again; all of them keep the request's identity and its time limit.
 */
import { discard, type Fetch } from './fetch.ts';
import { sleep } from './limit.ts';

const TRIES = 3;
const FIRST_PAUSE_MS = 200;
/** A service that asks for a longer pause is not waited for: its error says when to try again. */
const LONGEST_PAUSE_MS = 2_000;

/** @param random from 0 to 1: clients that failed together do not come back together */
export function retrying(send: Fetch, random: () => number = Math.random): Fetch {
  return async (url, init) => {
    for (let i = 1; ; i++) {
      let askedMs = 0;
      try {
        const response = await send(url, init);
        askedMs = Number(response.headers.get('retry-after') ?? 0) * 1_000;
        if (i === TRIES || !mayPass(response.status, init) || !(askedMs <= LONGEST_PAUSE_MS)) return response;
        discard(response);
      } catch (error) {
        // A TypeError is what fetch throws when the network fails.
        if (i === TRIES || !isIdempotent(init) || !(error instanceof TypeError)) throw error;
      }
      const pauseMs = askedMs + FIRST_PAUSE_MS * 2 ** (i - 1) * random();
      await sleep(pauseMs, init.signal);
    }
  };
}

function mayPass(status: number, init: RequestInit): boolean {
  return status === 429 || (isIdempotent(init) && (status === 502 || status === 503));
}

/** PUT is that of an upload. DELETE is not: a result that was taken, and whose answer was lost, cannot be taken again. */
function isIdempotent({ method = 'GET', headers }: RequestInit): boolean {
  return method === 'GET' || method === 'PUT' || new Headers(headers).has('idempotency-key');
}
