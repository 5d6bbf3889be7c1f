/** The part of a stack for a job with a budget: what slows the queues down, and the budget of AWS, which warns. */
import { type JobConfig, sharesOf, THROTTLE_SECONDS } from '../../lib/config/job.ts';
import { hasBudget, LEAST_CONCURRENCY } from '../../lib/contract/budget.ts';
import { budgetMark } from '../../lib/contract/names.ts';
import type { Deployment } from './parameters.ts';

/** Parts of the monthly limit in percent at which AWS tells. */
const WARNED_AT = [80, 100];

/** Logical names of the mappings that osls and infra/stack/priority/on.yml make, with their concurrency. */
export function eventSources({ queue, jobs }: JobConfig): (readonly [name: string, concurrency: number])[] {
  const shares = sharesOf(queue, queue.maximumConcurrency, LEAST_CONCURRENCY);
  return [
    ['BatchEventSourceMappingSQSQueue', shares.normal],
    ...(queue.highShare > 0 ? [['BatchEventSourceMappingSQSHighQueue', shares.high] as const] : []),
    ...(jobs.maximumConcurrency > 0
      ? [['JobsEventSourceMappingSQSJobsQueue', jobs.maximumConcurrency] as const]
      : []),
  ];
}

/** Read in serverless.yml and infra/stack/budget/. */
export function budgetSettings(job: JobConfig, { alarmEmail, alarmTopic }: Deployment) {
  const sources = eventSources(job);
  const arn = 'arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:event-source-mapping:';
  const told = [
    ...(alarmEmail === '' ? [] : [{ SubscriptionType: 'EMAIL', Address: alarmEmail }]),
    ...(alarmEmail === '' && alarmTopic !== 'none'
      ? [{ SubscriptionType: 'SNS', Address: alarmTopic === 'own' ? { Ref: 'AlarmTopic' } : alarmTopic }]
      : []),
  ];
  return {
    throttleSeconds: THROTTLE_SECONDS,
    budgetMark: budgetMark(job.jobName),
    /** The variable of the function `throttle`. */
    eventSources: { 'Fn::Sub': sources.map(([name, most]) => `\${${name}}=${most}`).join(',') },
    eventSourceArns: sources.map(([name]) => ({ 'Fn::Sub': `${arn}\${${name}}` })),
    budgetDollars: job.budget.perMonth,
    budgetNotices:
      told.length === 0
        ? { Ref: 'AWS::NoValue' }
        : WARNED_AT.map((Threshold) => ({
            Notification: {
              NotificationType: 'ACTUAL',
              ComparisonOperator: 'GREATER_THAN',
              Threshold,
              ThresholdType: 'PERCENTAGE',
            },
            Subscribers: told,
          })),
    alarmPublishers: publishers(job),
  };
}

function publishers({ budget }: JobConfig): string | readonly string[] {
  const alarms = 'cloudwatch.amazonaws.com';
  return budget.perMonth > 0 ? [alarms, 'budgets.amazonaws.com'] : alarms;
}

/** Why a deployment could not keep its budget. */
export function budgetProblems({ budget }: JobConfig, { pollers }: Deployment): string[] {
  if (!hasBudget(budget) || pollers === '') return [];
  return [
    'param pollers does not go with budget in config.yaml: pollers that are always there have no concurrency that could be lowered',
  ];
}
