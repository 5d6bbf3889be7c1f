/** Jobs over files as a console shows them, and what ends one by hand. */
import type { Done } from '../../console/api.ts';
import type { JobFacts, JobList } from '../../console/jobs.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Summary } from '../../lib/jobs/request.ts';
import { readAll } from '../../lib/s3/pages.ts';
import type { JobPlace } from './job-place.ts';

/** The states of each are a few calls of S3. */
const SHOWN = 25;

/** @param costOf dollars of a job that is done. Default: it costs nothing */
export async function jobList(
  place: JobPlace,
  costOf?: (summary: Summary, parts: number) => number,
): Promise<JobList> {
  const ids = (await place.ids()).toSorted().toReversed();
  const jobs = await readAll(ids.slice(0, SHOWN), async (id): Promise<JobFacts> => {
    const found = await place.state(id);
    const summary = found.state === 'done' ? found.summary : undefined;
    const far = found.state === 'done' ? found.summary : found.progress;
    const { rows = 0, errors = 0, files = 0, total } = far ?? {};
    return {
      id,
      state: found.state,
      rows,
      errors,
      files,
      total,
      error: found.state === 'failed' ? found.error : undefined,
      results: summary?.results,
      dollars: summary && costOf?.(summary, summary.parts),
    };
  });
  return { jobs, more: ids.length - jobs.length };
}

/** @throws not_found, conflict for one that has ended */
export async function cancelJob(place: JobPlace, id: string): Promise<Done> {
  if (!(await place.request(id))) throw new ServingError('not_found', `there is no job ${id}`);
  const { state } = await place.state(id);
  if (state !== 'running' && state !== 'waiting')
    throw new ServingError('conflict', `job ${id} is ${state}: there is nothing to cancel`);
  await place.cancel(id);
  return { done: `Job ${id} is cancelled. \`cluster-serving job resume ${id}\` lets it go on.` };
}
