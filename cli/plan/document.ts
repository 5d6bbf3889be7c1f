/** The document of `plan`. Scripts rely on it: docs/reference/cli.md lists its keys. */
import { capacityOf } from '../../infra/doctor/capacity.ts';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import type { Facts } from '../../infra/doctor/rule.ts';
import { PRICES } from '../../lib/contract/prices.ts';
import { type BilledStack, billOf, serverlessPrice, togetherOf } from './bill.ts';
import type { Calls } from './calls.ts';
import { bytesOfDailyRecord, limitsOf } from './limits.ts';
import type { Load } from './load.ts';

export type PlanDocument = ReturnType<typeof documentOf>;

/** @param rate as it was written */
export function documentOf(rate: string, load: Load, calls: Calls, facts: Facts) {
  const { job, settings, parameters, template, stage } = facts;
  const stack: BilledStack = {
    ...settings,
    tracing: parameters.tracing === 'on' ? 'on' : 'off',
    metrics: parameters.metrics === 'off' ? 'off' : 'on',
    monitoring: parameters.monitoring === 'full' ? 'full' : 'basic',
    idle: template && idlePrice(template),
  };
  const { redisNodeType, redisNodes, redisMaxGB, files } = stack;
  const limits = limitsOf(load, calls, stack, job);
  const parts = billOf(load, calls, stack, job);
  const isWithin = (at: number | null) => at === null || at >= load.perDay;
  return {
    rate,
    load,
    stack: {
      stage,
      redis: files.redis,
      ...(files.redis === 'node' ? { redisNodeType, redisNodes } : {}),
      ...(files.redis === 'node' || files.redis === 'dynamodb' ? {} : { redisMaxGB }),
    },
    calls,
    /** True if the settings as they are carry the rate. */
    fits: limits.every(({ breaksAt }) => isWithin(breaksAt)),
    limits,
    /** Limits that no setting lifts so far, the lowest first. */
    beyond: limits
      .filter(({ mostAt }) => !isWithin(mostAt))
      .toSorted((a, b) => (a.mostAt ?? 0) - (b.mostAt ?? 0))
      .map(({ name }) => name),
    bill: {
      parts,
      together: togetherOf(parts),
      isWhole: parts.every(({ requests, queue }) => requests !== null && queue !== null),
    },
    prices: { region: PRICES.region, asOf: PRICES.asOf },
    notes: notesOf(load, calls, stack, facts),
  };
}

function notesOf(load: Load, calls: Calls, stack: BilledStack, { job }: Facts): string[] {
  const { records, windowSeconds, batchMs, notes } = calls;
  // Records that arrive while an event is gathered, or the one before it is answered.
  const gathered = Math.max(1, load.perSecond * Math.max(windowSeconds, batchMs / 1_000));
  const capacity = capacityOf(stack, job);
  const bytes = load.perDay * bytesOfDailyRecord(load, capacity, job);
  const isFull = stack.files.redis === 'node' && bytes > (capacity.redisBytes ?? Infinity);
  const dollars = Math.round(serverlessPrice(bytes, load.perMonth)).toLocaleString('en-US');
  return [
    ...notes,
    gathered < records &&
      `the bill has full events of ${records}; at this rate one has about ${gathered.toFixed(1)}, so Lambda, SQS and logs of the queue cost up to ${(records / gathered).toFixed(1)} times as much`,
    isFull &&
      `the node of Redis does not hold these results; redis=serverless would cost ${dollars} dollars a month for them`,
    'not in the bill: cold starts, records that come by POST /predictions instead of SQS, traffic out of AWS, taxes, free tiers',
  ].filter((note) => note !== false);
}
