/** Makes the results of a batch files of the API, under ids that follow from that of the batch, so that each delivery makes the same. */
import { type Address, ERRORS, RESULTS } from '../request.ts';
import type { JobDeps } from '../store.ts';
import { factsKey, type KeptFile, stemOf } from './batch.ts';

const ENDINGS = { [RESULTS]: 'output', [ERRORS]: 'error' } as const;

export function outputFileId(batch: string, name: keyof typeof ENDINGS): string {
  return `file-${stemOf(batch)}-${ENDINGS[name]}`;
}

export async function keepOutputs(
  batch: string,
  files: readonly { readonly name: keyof typeof ENDINGS; readonly target: Address; readonly bytes: number }[],
  { job, store, now }: JobDeps,
): Promise<void> {
  for (const { name, target, bytes } of files) {
    const file: KeptFile = {
      id: outputFileId(batch, name),
      filename: `${batch}_${ENDINGS[name]}.jsonl`,
      purpose: 'batch_output',
      bytes,
      createdAt: Math.floor(now() / 1000),
      key: target.key,
    };
    await store.put(factsKey(job, file.id), JSON.stringify(file));
  }
}
