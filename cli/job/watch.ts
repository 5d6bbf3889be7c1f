/** Watches a job until it has ended. To stop watching ends nothing. */
import { ServingError } from '../../lib/contract/errors.ts';
import type { JobPlace } from '../../local/console/job-place.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { costOf, estimateOf, stateText } from './text.ts';

const LOOK_MS = 500;
/** A job begins sooner where nothing is in its way. */
const BEGIN_MS = 120_000;

export async function watchJob(place: JobPlace, id: string, output: Output): Promise<number> {
  const progress = showProgress(output.json);
  const sinceMs = performance.now();
  try {
    for (;;) {
      const found = await place.state(id);
      if (found.state === 'done') {
        progress.end();
        const { summary } = found;
        const cost = summary.first ? estimateOf(summary) : costOf(summary, summary.parts);
        output.answer({ ...found, dollars: cost }, stateText(id, found, place.isLocal));
        return EXIT.ok;
      }
      if (found.state === 'failed' || found.state === 'cancelled') {
        progress.end();
        output.answer({ id, ...found }, stateText(id, found, place.isLocal));
        return EXIT.failed;
      }
      if (found.state === 'waiting' && performance.now() - sinceMs > BEGIN_MS)
        throw new ServingError(
          'timeout',
          `job ${id} has not begun in ${BEGIN_MS / 1000} s: does the deployment take jobs (\`jobs.maximumConcurrency\` in config.yaml)? It begins once it does`,
        );
      const { rows = 0, total } = found.progress ?? {};
      const label = total === undefined ? `job ${id}, ${rows} rows answered so far` : `rows of job ${id}`;
      progress.update({ label, done: rows, total });
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  } finally {
    progress.end();
  }
}
