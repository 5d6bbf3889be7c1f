/**
 * Rules about the alarms of a template: every failure that matters has one, and somebody receives it. An alarm on a
 * misspelled metric stays green for ever, so alarms are found by namespace and metric, not by name.
 */
import { deadLetterQueues, eventSourcesOf, functionsOf } from './deployment.ts';
import { type Finding, isProduction, listed, type Rule, templateRule } from './rule.ts';
import {
  listOf,
  namesIn,
  type Properties,
  recordOf,
  resourcesOf,
  type Template,
  textOf,
} from './template.ts';

interface Watched {
  readonly namespace: string;
  readonly metric: string;
  /** What the alarm is about: names in its dimensions. */
  readonly names: readonly string[];
}

const ALARM = 'AWS::CloudWatch::Alarm';

/** Every metric that some alarm looks at, metric math included. */
function watchedMetrics(template: Template): Watched[] {
  const one = ({ Namespace, MetricName, Dimensions }: Properties): Watched => ({
    namespace: textOf(Namespace),
    metric: textOf(MetricName),
    names: listOf(Dimensions).flatMap((dimension) => namesIn(recordOf(dimension)['Value'])),
  });
  return resourcesOf(template, ALARM).flatMap(([, alarm]) => {
    const parts = listOf(alarm['Metrics']).map((part) =>
      recordOf(recordOf(recordOf(part)['MetricStat'])['Metric']),
    );
    return [one(alarm), ...parts.map(one)];
  });
}

/** Functions that everything depends on: their errors must not go unheard. */
const ESSENTIAL = ['predict', 'batch'];

interface Alarm {
  readonly id: string;
  readonly looksAt: string;
  readonly why: string;
  /** True: every stack has it; else only --param monitoring=full makes it. */
  readonly isBasic: boolean;
  /** What is not watched; empty when all is well. */
  readonly unwatched: (template: Template, watched: readonly Watched[]) => readonly string[];
}

/** Of AWS/Lambda, for predict and batch each. */
function lambdaMetric(metric: string): Alarm['unwatched'] {
  return (template, watched) => {
    const alarmed = watched.filter((one) => one.namespace === 'AWS/Lambda' && one.metric === metric);
    return functionsOf(template)
      .filter(({ name }) => ESSENTIAL.includes(name))
      .filter(({ logicalName }) => {
        return !alarmed.some(({ names }) => names.length === 0 || names.includes(logicalName));
      })
      .map(({ name }) => `${metric} of ${name}`);
  };
}

function anyMetric(namespace: string, ...metrics: readonly string[]): Alarm['unwatched'] {
  return (_, watched) => {
    const isThere = watched.some((one) => one.namespace === namespace && metrics.includes(one.metric));
    return isThere ? [] : [`${namespace} ${metrics[0]}`];
  };
}

function queueAge(template: Template, watched: readonly Watched[]): string[] {
  const dead = deadLetterQueues(template);
  const ages = watched.filter(({ metric }) => metric === 'ApproximateAgeOfOldestMessage');
  return eventSourcesOf(template)
    .flatMap(({ queue }) => (queue === undefined || dead.has(queue) ? [] : [queue]))
    .filter((queue) => !ages.some(({ names }) => names.includes(queue)))
    .map((queue) => `ApproximateAgeOfOldestMessage of ${queue}`);
}

/** The queue of dead letters is emptied within seconds: the function behind it is as good a sign, and a better one. */
function deadLetters(template: Template, watched: readonly Watched[]): string[] {
  const queues = deadLetterQueues(template);
  return [...queues].filter((queue) => {
    const fed = eventSourcesOf(template).find((source) => source.queue === queue)?.fed?.logicalName;
    return !watched.some(({ metric, names }) => {
      const isFunction = metric === 'Invocations' && fed !== undefined && names.includes(fed);
      return isFunction || (metric === 'ApproximateNumberOfMessagesVisible' && names.includes(queue));
    });
  });
}

const ALARMS: readonly Alarm[] = [
  {
    id: 'alarm-queue-age',
    looksAt: 'an alarm on the age of the oldest message of the queue',
    why: 'A batch function that fails or is too slow shows in the age first; after 4 days records are gone without a result.',
    isBasic: true,
    unwatched: queueAge,
  },
  {
    id: 'alarm-dead-letters',
    looksAt: 'an alarm on dead letters: calls of the function that parks them, or messages in their queue',
    why: 'A record that ran out of tries has a failed result and nothing else; whoever sent it may never look.',
    isBasic: true,
    unwatched: deadLetters,
  },
  {
    id: 'alarm-redis-memory',
    looksAt: 'an alarm on the memory of Redis',
    why: 'With noeviction a full Redis refuses every result: all stands still, and nothing is lost as long as somebody hears of it within the 4 days of the queue.',
    isBasic: true,
    unwatched: anyMetric(
      'AWS/ElastiCache',
      'DatabaseMemoryUsagePercentage',
      'FreeableMemory',
      'BytesUsedForCache',
    ),
  },
  {
    id: 'alarm-errors',
    looksAt: 'an alarm on Errors of predict and of batch',
    why: 'Our handlers answer for every error they know: Errors count crashes, time-outs and a failed INIT.',
    isBasic: false,
    unwatched: lambdaMetric('Errors'),
  },
  {
    id: 'alarm-throttles',
    looksAt: 'an alarm on Throttles of predict and of batch',
    why: "The account's 1,000 environments are shared by all its functions; a throttled poller uses up tries of good records.",
    isBasic: false,
    unwatched: lambdaMetric('Throttles'),
  },
  {
    id: 'alarm-duration',
    looksAt: 'an alarm on Duration of predict and of batch',
    why: 'A model that grew slowly into its timeout fails for all callers on one day.',
    isBasic: false,
    unwatched: lambdaMetric('Duration'),
  },
  {
    id: 'alarm-redis-evictions',
    looksAt: 'an alarm on Evictions of Redis',
    why: 'With noeviction there are none: a single one says that the policy was changed and results are being thrown away.',
    isBasic: false,
    unwatched: anyMetric('AWS/ElastiCache', 'Evictions'),
  },
];

function alarmRule({ id, looksAt, why, isBasic, unwatched }: Alarm): Rule {
  return templateRule({
    id,
    topic: 'Logs and alarms',
    looksAt,
    why,
    fix: isBasic ? 'infra/stack/alarms.yml' : '--param monitoring=full (prod has it)',
    check: (template, facts): Finding[] => {
      const missing = unwatched(template, watchedMetrics(template));
      if (missing.length === 0) return [];
      const severity = isBasic || isProduction(facts) ? 'warning' : 'info';
      return [{ severity, where: 'alarms', found: `none on ${listed(missing)}`, expected: 'an alarm' }];
    },
  });
}

const actions = templateRule({
  id: 'alarm-actions',
  topic: 'Logs and alarms',
  looksAt: 'AlarmActions of every alarm',
  why: 'An alarm that tells nobody is red in a console that nobody looks at.',
  fix: '--param alarmEmail=<address>, or alarmTopic=own or the ARN of a topic',
  check: (template, facts) => {
    const composite = resourcesOf(template, 'AWS::CloudWatch::CompositeAlarm').filter(
      ([, { AlarmActions }]) => tells(AlarmActions),
    );
    const covered = new Set(composite.flatMap(([, { AlarmRule }]) => namesIn(AlarmRule)));
    const silent = resourcesOf(template, ALARM)
      .filter(([name, { AlarmActions }]) => !tells(AlarmActions) && !covered.has(name))
      .map(([name]) => name);
    if (silent.length === 0) return [];
    const severity = isProduction(facts) ? 'warning' : 'info';
    return [
      { severity, where: listed(silent), found: 'no AlarmActions', expected: 'a topic that somebody reads' },
    ];
  },
});

const tells = (alarmActions: unknown) =>
  listOf(alarmActions).some((action) => textOf(action) !== '' || typeof action === 'object');

const topicUnheard = templateRule({
  id: 'alarm-topic-unheard',
  topic: 'Logs and alarms',
  looksAt: 'subscriptions of a topic that this stack makes for its alarms',
  why: 'A topic without a subscription tells nobody; that of --param alarmTopic=own has none until somebody subscribes.',
  fix: '--param alarmEmail=<address>, or subscribe to the topic of the output AlarmTopicArn after the deployment',
  check: (template) => {
    const heard = resourcesOf(template, 'AWS::SNS::Subscription').flatMap(([, { TopicArn }]) =>
      namesIn(TopicArn),
    );
    return resourcesOf(template, 'AWS::SNS::Topic')
      .filter(([name, { Subscription }]) => !heard.includes(name) && listOf(Subscription).length === 0)
      .map(([where]) => ({
        severity: 'info',
        where,
        found: 'no subscription in this template',
        expected: 'somebody who hears of it',
      }));
  },
});

export const ALARM_RULES = [...ALARMS.map(alarmRule), actions, topicUnheard];
