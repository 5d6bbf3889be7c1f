/** Composes what announces outcomes. A job without targets loads none of it. */
import { hasTargets } from '../config/job.ts';
import type { Announce } from '../results/announce.ts';
import { results } from './results.ts';
import { s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

/** @returns undefined for a job without targets */
export async function announcement(scope: Scope): Promise<Announce | undefined> {
  const { bucket, job } = scope.environment;
  const targets = job.notify;
  if (!hasTargets(job)) return undefined;
  const [{ announceOutcomes }, { OutboxWriter }] = await Promise.all([
    import('../results/announce.ts'),
    import('../s3/outbox.ts'),
  ]);
  const outbox = new OutboxWriter(scope.get(s3Client), bucket, job.jobName);
  return announceOutcomes({
    targets,
    results: scope.get(results),
    put: (notices) => outbox.put(notices),
    job: job.jobName,
    place: bucket,
  });
}
