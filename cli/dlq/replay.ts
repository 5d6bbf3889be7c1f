/** `dlq replay`: runs what matches, in parts (local/console/replay.ts says what a replay promises). */
import type { DeadLetterEntry } from '../../lib/s3/dead-letters.ts';
import { type Counts, Replay, type ReplaySettings } from '../../local/console/replay.ts';
import type { DlqPlace } from './place.ts';
import { withRunner } from './runner.ts';
import { findEntries, type Where } from './where.ts';

export interface ReplayOptions extends ReplaySettings {
  /** The time limit of one record. Default: the job's function.timeoutSeconds. */
  readonly limitMs?: number | undefined;
  readonly onStart?: (version: string) => void;
  /** Called between parts; true ends the replay there. */
  readonly isStopped?: () => boolean;
  /** Called with the number of messages examined so far. */
  readonly onProgress: (looked: number) => void;
}

/** The limit of the messages that run together; their payloads may be 32 MiB each. */
const PART_BYTES = 8 * 1024 * 1024;
const PART_RECORDS = 64;

/**
 * Records replayed before the error stay replayed, the rest is unchanged.
 * @throws model_unavailable, queue_unavailable, results_unavailable
 */
export function replay(place: DlqPlace, where: Where, options: ReplayOptions): Promise<Counts> {
  return withRunner(place, options.limitMs, async (runner) => {
    const work = new Replay(place, runner, options);
    options.onStart?.(runner.version);
    let looked = 0;
    for await (const found of findEntries(place, where)) {
      for (const part of partsOf(found)) {
        if (options.isStopped?.()) return work.counts;
        await work.part(part.map(({ id }) => id));
        looked += part.length;
        options.onProgress(looked);
      }
    }
    return work.counts;
  });
}

function partsOf(found: readonly DeadLetterEntry[]): DeadLetterEntry[][] {
  const parts: DeadLetterEntry[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const one of found) {
    const last = parts.at(-1);
    bytes += one.bytes;
    if (last && last.length < PART_RECORDS && bytes <= PART_BYTES) last.push(one);
    else {
      parts.push([one]);
      bytes = one.bytes;
    }
  }
  return parts;
}
