/** Digests and random names, in browsers and in Node. */
import { badConfig } from '../../lib/contract/errors.ts';

export async function hexDigest(bytes: Uint8Array): Promise<string> {
  // Browsers have it on https and on localhost.
  if (!globalThis.crypto?.subtle) throw badConfig('a large request or result needs https');
  return hexOf(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
}

export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Browsers have randomUUID on https and on localhost only. */
export function newIdentity(): string {
  return (
    (crypto as Partial<typeof crypto>).randomUUID?.() ?? hexOf(crypto.getRandomValues(new Uint8Array(16)))
  );
}
