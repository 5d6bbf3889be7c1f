/** Says how many captures are lost, as the service counts them in all of its environments: `status` and `capture list` say the same. */
import { authorizedFetch } from '../../sdk/access.ts';
import { request } from '../../sdk/fetch.ts';
import type { Service } from '../service.ts';

const ANSWER_LIMIT_MS = 5_000;

/** @returns undefined where no service answers */
export async function askLost({ http, access }: Service): Promise<number | undefined> {
  if (http === undefined) return undefined;
  const send = authorizedFetch(http, access);
  try {
    const { body } = await request(`${http}/ready`, {}, ANSWER_LIMIT_MS, undefined, send);
    const { lostCaptures = 0 }: { readonly lostCaptures?: number } = Object(body);
    return lostCaptures;
  } catch {
    return undefined;
  }
}

export function lostText(lost: number): string {
  return `${lost} requests and records were to be captured and could not be stored`;
}
