/**
 * In: nothing. Out: the prices that costs are calculated with, in dollars of us-east-1, as docs/costs.md shows them.
 * Trap: they are examples, written down from memory in November 2026, and no bill was compared: look yours up. A test
 * holds the document and this file together.
 */

export const ARCHITECTURES = ['x86_64', 'arm64'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

export const PRICES = {
  region: 'us-east-1',
  /** When they were written down. */
  asOf: '2026-11',
  /** Lambda, of time: a GB is 1,024 MB of function.memoryMB. */
  perGBSecond: { x86_64: 0.000_016_666_7, arm64: 0.000_013_333_4 },
  /** Lambda, of invocations. */
  invocationsPerMillion: 0.2,
  /** HTTP API; each 512 KB of a request count as one. */
  apiRequestsPerMillion: 1,
  /** Sends, receives and deletes, up to ten messages each; each 64 KB of one count as one. */
  queueRequestsPerMillion: 0.4,
  /** Records that are too large for a message. */
  s3PutsPerMillion: 5,
  s3GetsPerMillion: 0.4,
} as const;

/** What counts as one request. */
export const API_UNIT_BYTES = 512 * 1024;
export const QUEUE_UNIT_BYTES = 64 * 1024;
