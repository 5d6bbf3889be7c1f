/** Looks at the versions on trial of all models of a job: of its own, and of the further ones that may have any. */
import { asError } from '../../lib/contract/errors.ts';
import { logError } from '../../lib/contract/log.ts';
import { readFurtherTrials, removeFurtherTrials } from '../../lib/registry/further-trials.ts';
import type { TrialReport } from '../../lib/registry/trial-report.ts';
import { type WatchParts, watchTrials } from './watch.ts';

/** @param model the name of a further model. Default: the job's own */
export type PartsOf = (model?: string) => WatchParts;

/** The pointer of a trial is written after its entry, and may still come. */
const BEGIN_MS = 3_600_000;

/**
 * A look that fails keeps the others from nothing. Each time it begins with another model, so that one whose look takes all of the time
 * is not always before the others.
 * @returns the report of the job's own model. @throws its error
 */
export async function watchAll(partsOf: PartsOf, job: string): Promise<TrialReport | undefined> {
  const own = partsOf();
  const { s3, location, now } = own;
  const looked = await watchTrials(own).then(
    (report) => ({ report }),
    (error: unknown) => ({ error: asError(error) }),
  );
  const further = await readFurtherTrials(s3, location.bucket, job);
  const names = [...further.begun.keys()];
  const first = names.length === 0 ? 0 : Math.floor(now() / 60_000) % names.length;
  const over = new Set<string>();
  for (const name of [...names.slice(first), ...names.slice(0, first)]) {
    try {
      const report = await watchTrials(partsOf(name));
      const ageMs = now() - (further.begun.get(name) ?? 0);
      if (!report && !(ageMs < BEGIN_MS)) over.add(name);
    } catch (error) {
      logError(error, { phase: 'trial', model: name });
    }
  }
  if (over.size > 0) await removeFurtherTrials(s3, location.bucket, job, further, over);
  if ('error' in looked) throw looked.error;
  return looked.report;
}
