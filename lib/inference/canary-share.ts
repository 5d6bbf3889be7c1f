/** Decides which records a canary takes. Every environment decides alike, and so does a later delivery of a record. */
import { createHash } from 'node:crypto';
import type { CanaryShare } from '../contract/values.ts';

/** @param key of a record or request. Another canary draws other keys: its version is part of what is drawn from */
export function isOfCanary(key: string, { version, share }: Pick<CanaryShare, 'version' | 'share'>): boolean {
  const digest = createHash('sha256').update(`${version} ${key}`).digest();
  return digest.readUInt32BE(0) / 2 ** 32 < share;
}
