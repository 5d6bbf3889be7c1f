/** `dlq purge`. Messages that are archived while the question is asked are not deleted: none newer than the count is. */
import { confirmed } from '../confirm.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import type { DlqPlace } from './place.ts';
import { findEntries, type Where } from './where.ts';

/** The store's clock may be ahead of this machine's, and S3 has whole seconds. */
const CLOCK_MS = 2_000;

/** @param yes skips the question */
export async function purge(
  place: DlqPlace,
  asked: Where,
  yes: boolean,
  output: Output,
  now: () => number = Date.now,
): Promise<number> {
  const startedAt = now();
  const where: Where = {
    ...asked,
    entry: (entry) => entry.archivedAt <= startedAt + CLOCK_MS && asked.entry(entry),
  };
  let count = 0;
  for await (const part of findEntries(place, where)) count += part.length;
  if (count === 0) {
    output.answer({ purged: 0 }, 'there are no dead letters, or none that match');
    return EXIT.ok;
  }
  const what = `${count} dead ${count === 1 ? 'letter' : 'letters'} of ${place.job.jobName}`;
  if (!yes && !(await confirmed(`deletes ${what} from s3://${place.bucket} for good`))) {
    output.answer({ purged: 0 }, 'nothing was deleted');
    return EXIT.failed;
  }
  const progress = showProgress(output.json);
  let purged = 0;
  try {
    for await (const part of findEntries(place, where)) {
      const meant = part.slice(0, count - purged);
      if (meant.length > 0) await place.deadLetters.removeWithPayloads(meant);
      purged += meant.length;
      progress.update({ done: purged, total: count });
    }
  } finally {
    progress.end();
  }
  output.answer({ purged }, `${purged} of ${what} deleted`);
  return EXIT.ok;
}
