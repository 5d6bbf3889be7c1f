/** Results that are too large for a store, and an S3 in memory for them. */
import { randomUUID } from 'node:crypto';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Outcome } from '../../lib/contract/values.ts';
import type { FinishedRecord } from '../../lib/pipeline/decode.ts';
import type { LargeStore } from '../../lib/results/large.ts';
import { enqueued } from './enqueue.ts';

/** @param away the uris that it refuses */
export function memoryS3(away: readonly string[] = []) {
  const objects = new Map<string, { readonly bytes: Uint8Array; readonly json: string }>();
  const large: LargeStore = {
    async put({ form, bytes }, jsonAt) {
      const json = [...jsonAt(5)].join('');
      const { uri } = JSON.parse(json) as { uri: string };
      if (away.includes(uri)) throw new ServingError('results_unavailable', 'S3 is away');
      const key = `results/job/${randomUUID()}`;
      objects.set(key, { bytes, json });
      const digest = { bytes: bytes.byteLength, sha256: '' };
      return { bucket: 'b', key, form, ...digest, json: digest, finishedAt: 5 };
    },
  };
  return { large, objects };
}

/** Float32 numbers and an int64. */
export const numbers = (length: number, value = 1): Outcome => ({
  ok: true,
  outputs: [
    { name: 'y', dtype: 'float32', shape: [length], data: new Float32Array(length).fill(value) },
    { name: 'n', dtype: 'int64', shape: [1], data: BigInt64Array.of(2n ** 60n) },
  ],
});

export const finished = (uri: string, outcome: Outcome, sentAt = 1): FinishedRecord => ({
  id: `${uri}-${sentAt}`,
  uri,
  enqueue: enqueued(`e${sentAt}`, sentAt),
  outcome,
});
