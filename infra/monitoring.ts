/**
 * In: a stack's names, time-outs and whom to tell. Out: its alarms and its dashboard, for `--param monitoring=full`;
 * the three of alarms.yml are always there. Every alarm has an entry in docs/runbook.md.
 * Trap: our handlers answer for every error they know, so Lambda's own Errors count only what ended a function: a crash,
 * a time-out, a failed INIT. What a record failed of is in our own metrics (lib/metrics/emf.ts).
 */
import { dashboard } from './dashboard.ts';
import {
  type MonitoringRequest,
  OURS,
  type Resource,
  redisNode,
  type Watched,
  watchedFunctions,
} from './watched.ts';

export interface Monitoring {
  readonly Resources: Readonly<Record<string, Resource>>;
}

/** A function that needs this much of its time is about to be ended by Lambda. */
const LATE_SHARE = 0.9;
/** Waiting GETs end after 20 s and predict after 29; what takes longer than this has no good reason. */
const LATE_ANSWER_MS = 25_000;
/** An environment has one connection, two while it waits; 1,000 environments are an account's usual limit. */
const MANY_CONNECTIONS = 10_000;
const MANY_PARKED = 100;

export function fullMonitoring(request: MonitoringRequest): Monitoring {
  const alarms = [
    ...watchedFunctions(request).flatMap(functionAlarms),
    ...gatewayAlarms(),
    ...queueAlarms(request),
    ...redisAlarms(request),
  ];
  const actions = request.alarmActions;
  const resources = alarms.map(([name, properties]) => {
    const told = actions.length > 0 ? { AlarmActions: actions, OKActions: actions } : {};
    return [name, { Type: 'AWS::CloudWatch::Alarm', Properties: { ...properties, ...told } }] as const;
  });
  return { Resources: { ...Object.fromEntries(resources), Dashboard: dashboard(request) } };
}

type Alarm = readonly [logicalName: string, properties: Readonly<Record<string, unknown>>];

interface Rule {
  readonly says: string;
  /** Namespace, name and dimensions. */
  readonly metric: Readonly<Record<string, unknown>>;
  /** "Sum", "Maximum", or a percentile as "p99". */
  readonly statistic: string;
  /** Red when the value reaches it. */
  readonly from: number;
  /** Red when this many of the last `periods` are over. */
  readonly times?: number;
  readonly periods?: number;
  readonly seconds?: number;
}

function alarm({ says, metric, statistic, from, times = 1, periods = 1, seconds = 300 }: Rule) {
  return {
    AlarmDescription: says,
    ...metric,
    ...(statistic.startsWith('p') ? { ExtendedStatistic: statistic } : { Statistic: statistic }),
    Period: seconds,
    EvaluationPeriods: periods,
    DatapointsToAlarm: times,
    Threshold: from,
    ComparisonOperator: 'GreaterThanOrEqualToThreshold',
    TreatMissingData: 'notBreaching',
  };
}

function functionAlarms({ name, logicalName, timeoutSeconds }: Watched): Alarm[] {
  const metric = (MetricName: string) => ({
    Namespace: 'AWS/Lambda',
    MetricName,
    Dimensions: [{ Name: 'FunctionName', Value: { Ref: `${logicalName}LambdaFunction` } }],
  });
  const errors = alarm({
    says: `${name} crashed, ran into its time-out or could not start`,
    metric: metric('Errors'),
    statistic: 'Sum',
    from: 1,
  });
  const throttles = alarm({
    says: `${name} was called and Lambda refused: the account has no concurrency left`,
    metric: metric('Throttles'),
    statistic: 'Sum',
    from: 1,
    times: 2,
    periods: 3,
  });
  const duration = alarm({
    says: `${name} needs over ${100 * LATE_SHARE} % of its ${timeoutSeconds} s`,
    metric: metric('Duration'),
    statistic: 'Maximum',
    from: LATE_SHARE * timeoutSeconds * 1000,
    times: 2,
    periods: 3,
  });
  return [
    [`${logicalName}ErrorsAlarm`, errors],
    [`${logicalName}ThrottlesAlarm`, throttles],
    [`${logicalName}DurationAlarm`, duration],
  ];
}

function gatewayAlarms(): Alarm[] {
  const metric = (MetricName: string) => ({
    Namespace: 'AWS/ApiGateway',
    MetricName,
    Dimensions: [{ Name: 'ApiId', Value: { Ref: 'HttpApi' } }],
  });
  return [
    [
      'ApiErrorsAlarm',
      alarm({
        says: 'The HTTP API answered with 5xx five times within 5 minutes, twice in a quarter of an hour',
        metric: metric('5xx'),
        statistic: 'Sum',
        from: 5,
        times: 2,
        periods: 3,
      }),
    ],
    [
      'ApiLatencyAlarm',
      alarm({
        says: `One in a hundred answers takes over ${LATE_ANSWER_MS / 1000} s; the gateway gives up at 30`,
        metric: metric('Latency'),
        statistic: 'p99',
        from: LATE_ANSWER_MS,
        times: 3,
        periods: 3,
      }),
    ],
  ];
}

function queueAlarms({ service, stage, jobName }: MonitoringRequest): Alarm[] {
  return [
    [
      'DeadLetterAgeAlarm',
      alarm({
        says: 'A dead letter has waited for 15 minutes: the function that parks it does not',
        metric: {
          Namespace: 'AWS/SQS',
          MetricName: 'ApproximateAgeOfOldestMessage',
          Dimensions: [{ Name: 'QueueName', Value: { 'Fn::GetAtt': ['DeadLetterQueue', 'QueueName'] } }],
        },
        statistic: 'Maximum',
        from: 900,
      }),
    ],
    [
      'ParkedAlarm',
      alarm({
        says: `${MANY_PARKED} records were parked within an hour: not one bad record, but something they share`,
        metric: {
          Namespace: OURS,
          MetricName: 'Parked',
          Dimensions: [
            { Name: 'Job', Value: jobName },
            { Name: 'Function', Value: `${service}-${stage}-dead-letter` },
          ],
        },
        statistic: 'Sum',
        from: MANY_PARKED,
        seconds: 3600,
      }),
    ],
  ];
}

function redisAlarms({ redisNodes }: MonitoringRequest): Alarm[] {
  return [
    ['RedisEvictionsAlarm', redisAlarm('Redis threw results away before their time', 'Evictions', 'Sum', 1)],
    [
      'RedisConnectionsAlarm',
      redisAlarm(
        'Redis has far more connections than functions',
        'CurrConnections',
        'Maximum',
        MANY_CONNECTIONS,
      ),
    ],
    ['RedisCpuAlarm', redisAlarm('Redis has no time left', 'EngineCPUUtilization', 'Average', 90)],
  ];

  /** Any node: which of them is the primary changes with a failover. */
  function redisAlarm(says: string, name: string, statistic: string, from: number) {
    const metric = (node: number) => ({
      Namespace: 'AWS/ElastiCache',
      MetricName: name,
      Dimensions: [{ Name: 'CacheClusterId', Value: redisNode(node) }],
    });
    if (redisNodes === 1) return alarm({ says, metric: metric(1), statistic, from, times: 2, periods: 3 });
    const {
      Statistic: _,
      Period,
      ...rest
    } = alarm({
      says,
      metric: {},
      statistic,
      from,
      times: 2,
      periods: 3,
    }) as Record<string, unknown>;
    const nodes = Array.from({ length: redisNodes }, (_each, i) => ({
      Id: `node${i + 1}`,
      MetricStat: { Metric: metric(i + 1), Period, Stat: statistic },
      ReturnData: false,
    }));
    const worst = { Id: 'worst', Expression: 'MAX(METRICS())', Label: name, ReturnData: true };
    return { ...rest, Metrics: [worst, ...nodes] };
  }
}
