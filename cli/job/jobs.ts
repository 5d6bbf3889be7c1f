/** `job list`, `status`, `results`, `cancel` and `resume`. */
import { ServingError } from '../../lib/contract/errors.ts';
import { readAddress } from '../../lib/jobs/request.ts';
import { readAll } from '../../lib/s3/pages.ts';
import type { JobPlace } from '../../local/console/job-place.ts';
import { EXIT, type Output } from '../output.ts';
import { progressText, stateText } from './text.ts';
import { watchJob } from './watch.ts';

/** The last ones; the states of each are a few calls of S3. */
const SHOWN = 100;

export async function listJobs(place: JobPlace, output: Output): Promise<number> {
  const ids = (await place.ids()).toSorted().toReversed();
  const jobs = await readAll(ids.slice(0, SHOWN), async (id) => ({ id, ...(await place.state(id)) }));
  const rows = jobs.map((one) => {
    const far = one.state === 'done' ? one.summary : one.progress;
    return `${one.id.padEnd(36)}  ${one.state.padEnd(9)}  ${far ? progressText(far) : ''}`.trimEnd();
  });
  const more = ids.length > SHOWN ? [`and ${ids.length - SHOWN} more`] : [];
  output.answer({ jobs, more: Math.max(0, ids.length - SHOWN) }, [...rows, ...more].join('\n') || 'no jobs');
  return EXIT.ok;
}

async function assertJob(place: JobPlace, id: string) {
  const request = await place.request(id);
  if (request) return request;
  throw new ServingError('not_found', `there is no job ${id}; \`cluster-serving job list\` shows them`);
}

export async function showJob(place: JobPlace, id: string, output: Output): Promise<number> {
  const request = await assertJob(place, id);
  const found = await place.state(id);
  output.answer({ id, request, ...found }, stateText(id, found, place.isLocal));
  return found.state === 'failed' ? EXIT.failed : EXIT.ok;
}

/** Read at once. */
const PIECE_BYTES = 8 * 1024 * 1024;

/** Prints the lines of a job that is done, unchanged. */
export async function printResults(place: JobPlace, id: string, output: Output): Promise<number> {
  await assertJob(place, id);
  const found = await place.state(id);
  const results = found.state === 'done' ? found.summary.results : undefined;
  if (results === undefined)
    throw new ServingError(
      'conflict',
      `job ${id} has no results: ${found.state === 'done' ? 'it was a dry run' : `it is ${found.state}`}`,
    );
  const file = readAddress('results', results);
  const bytes = await place.objects.size(file);
  if (bytes === undefined) throw new ServingError('not_found', `${results} is not there any more`);
  // A character may be in two pieces.
  const decoder = new TextDecoder();
  for (let at = 0; at < bytes; at += PIECE_BYTES) {
    const end = Math.min(bytes, at + PIECE_BYTES);
    const piece = await place.objects.read({ ...file, etag: '' }, at, end);
    output.piece(decoder.decode(piece, { stream: true }));
  }
  return EXIT.ok;
}

export async function cancelJob(place: JobPlace, id: string, output: Output): Promise<number> {
  await assertJob(place, id);
  const { state } = await place.state(id);
  if (state === 'done') throw new ServingError('conflict', `job ${id} is done: there is nothing to cancel`);
  await place.cancel(id);
  output.answer(
    { id, state: 'cancelled' },
    `job ${id} is cancelled; \`cluster-serving job resume ${id}\` lets it go on`,
  );
  return EXIT.ok;
}

export async function resumeJob(
  place: JobPlace,
  id: string,
  maxErrors: string | undefined,
  output: Output,
): Promise<number> {
  const request = await assertJob(place, id);
  const { state } = await place.state(id);
  if (state === 'done') throw new ServingError('conflict', `job ${id} is done already`);
  const { cancelled, failed } = place.keys(id);
  await place.objects.remove([cancelled, failed]);
  const resumed = (request.resumed ?? 0) + 1;
  await place.ask(id, { ...request, resumed, ...(maxErrors === undefined ? {} : { maxErrors }) });
  return watchJob(place, id, output);
}
