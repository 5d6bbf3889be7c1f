/** Composes the dependencies of the function that slows queues down, outside the VPC: it reaches Lambda, and not Redis. */
import { concurrencyOf, setConcurrency } from '../aws/event-sources.ts';
import type { Spent } from '../contract/budget.ts';
import { badConfig } from '../contract/errors.ts';
import { logWarning } from '../contract/log.ts';
import { budgetMark } from '../contract/names.ts';
import { reachedLimit } from '../metrics/spent.ts';
import type { EventSource, ThrottleDeps } from '../pipeline/throttle.ts';
import { getText, putText } from '../s3/objects.ts';
import { s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

export async function composeThrottle(scope: Scope): Promise<ThrottleDeps> {
  const { environment } = scope;
  const { job, bucket, eventSources } = environment;
  const s3 = scope.get(s3Client);
  const mark = { bucket, key: budgetMark(job.jobName) };
  const place = () => ({ ...environment.role, endpoint: environment.aws.endpoint });
  return {
    sources: sourcesIn(eventSources),
    readMark: async () => spentIn(await getText(s3, mark)),
    isReached: (spent) => reachedLimit(job.budget, spent, Date.now()) !== undefined,
    forget: () => putText(s3, mark, '{}'),
    concurrencyOf: (id) => concurrencyOf(place(), id),
    setConcurrency: (id, most) => setConcurrency(place(), id, most),
    onChanged: logWarning,
  };
}

/** @param text as `<id>=10,<id>=4`. @throws bad_config */
function sourcesIn(text: string): EventSource[] {
  return text.split(',').map((source) => {
    const [, id, concurrency] = /^([\w-]+)=(\d+)$/.exec(source) ?? [];
    if (id === undefined)
      throw badConfig(
        `the environment variable CLUSTER_SERVING_EVENT_SOURCES: expected "<id>=<concurrency>", got ${JSON.stringify(source)}`,
      );
    return { id, concurrency: Number(concurrency) };
  });
}

function spentIn(text: string | undefined): Spent | undefined {
  const { date, day, month }: { readonly [Key in keyof Spent]?: unknown } = Object(JSON.parse(text ?? '{}'));
  if (typeof date !== 'string' || typeof day !== 'number' || typeof month !== 'number') return undefined;
  return { date, day, month };
}
