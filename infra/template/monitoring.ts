/**
 * Alarms and dashboard for `--param monitoring=full`; those of alarms.yml always exist. Lambda's Errors
 * metric counts only crashes, timeouts and failed INITs: the handlers answer known errors and count them in
 * lib/observe/emf.ts.
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

/** A function that uses this share of its timeout is close to being ended by Lambda. */
const LATE_SHARE = 0.9;
/** A GET waits up to 20 s; only predict may take longer, up to 29 s. */
const LATE_ANSWER_MS = 25_000;
/** The 1,000 environments of an account open up to two connections each. */
const MANY_CONNECTIONS = 10_000;
const MANY_DEAD_LETTERS = 100;

export function fullMonitoring(request: MonitoringRequest): Monitoring {
  const alarms = [
    ...watchedFunctions(request).flatMap(functionAlarms),
    ...gatewayAlarms(),
    ...queueAlarms(request),
    ...redisAlarms(request),
  ];
  return { Resources: { ...alarmResources(alarms, request), Dashboard: dashboard(request) } };
}

/** The alarms for a Redis that belongs to no job. */
export function redisMonitoring(request: RedisMonitoring): Monitoring {
  return { Resources: alarmResources(redisAlarms(request), request) };
}

type RedisMonitoring = Pick<MonitoringRequest, 'redisNodes' | 'redisNodeType' | 'alarmActions'>;

function alarmResources(alarms: readonly Alarm[], { alarmActions: actions }: RedisMonitoring) {
  const resources = alarms.map(([name, properties]) => {
    const told = actions.length > 0 ? { AlarmActions: actions, OKActions: actions } : {};
    return [name, { Type: 'AWS::CloudWatch::Alarm', Properties: { ...properties, ...told } }] as const;
  });
  return Object.fromEntries(resources);
}

function metricOf(namespace: string, name: string, dimensions: Readonly<Record<string, unknown>>) {
  const Dimensions = Object.entries(dimensions).map(([Name, Value]) => ({ Name, Value }));
  return { Namespace: namespace, MetricName: name, Dimensions };
}

type Alarm = readonly [logicalName: string, properties: Readonly<Record<string, unknown>>];

interface Rule {
  readonly says: string;
  /** Namespace, name and dimensions. */
  readonly metric: Readonly<Record<string, unknown>>;
  /** "Sum", "Maximum", or a percentile as "p99". */
  readonly statistic: string;
  /** Threshold. */
  readonly from: number;
  /** True: in alarm at the threshold and below it. */
  readonly isLeast?: boolean;
  /** In alarm when this many of the last `periods` reach the threshold. */
  readonly times?: number;
  readonly periods?: number;
  readonly seconds?: number;
}

function alarm({ says, metric, statistic, from, isLeast, times = 1, periods = 1, seconds = 300 }: Rule) {
  return {
    AlarmDescription: says,
    ...metric,
    ...(statistic.startsWith('p') ? { ExtendedStatistic: statistic } : { Statistic: statistic }),
    Period: seconds,
    EvaluationPeriods: periods,
    DatapointsToAlarm: times,
    Threshold: from,
    ComparisonOperator: isLeast ? 'LessThanOrEqualToThreshold' : 'GreaterThanOrEqualToThreshold',
    TreatMissingData: 'notBreaching',
  };
}

function functionAlarms({ name: of, logicalName, timeoutSeconds }: Watched): Alarm[] {
  const metric = (name: string) =>
    metricOf('AWS/Lambda', name, { FunctionName: { Ref: `${logicalName}LambdaFunction` } });
  const errors = alarm({
    says: `${of} crashed, timed out or failed to start`,
    metric: metric('Errors'),
    statistic: 'Sum',
    from: 1,
  });
  const throttles = alarm({
    says: `Lambda throttled ${of}: the account has no concurrency left`,
    metric: metric('Throttles'),
    statistic: 'Sum',
    from: 1,
    times: 2,
    periods: 3,
  });
  const duration = alarm({
    says: `${of} takes over ${100 * LATE_SHARE} % of its timeout of ${timeoutSeconds} s`,
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
  const metric = (name: string) => metricOf('AWS/ApiGateway', name, { ApiId: { Ref: 'HttpApi' } });
  return [
    [
      'ApiErrorsAlarm',
      alarm({
        says: 'The HTTP API answered five requests with 5xx in each of two 5-minute periods out of three',
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
        says: `1 % of answers take over ${LATE_ANSWER_MS / 1000} s; the gateway times out after 30 s`,
        metric: metric('Latency'),
        statistic: 'p99',
        from: LATE_ANSWER_MS,
        times: 3,
        periods: 3,
      }),
    ],
  ];
}

function queueAlarms({ service, stage, jobName, batchName }: MonitoringRequest): Alarm[] {
  const of = (name: string) => ({ Job: jobName, Function: name });
  return [
    [
      'DeadLetterAgeAlarm',
      alarm({
        says: 'A dead letter has waited for 15 minutes: the dead-letter function does not take it',
        metric: metricOf('AWS/SQS', 'ApproximateAgeOfOldestMessage', {
          QueueName: { 'Fn::GetAtt': ['DeadLetterQueue', 'QueueName'] },
        }),
        statistic: 'Maximum',
        from: 900,
      }),
    ],
    [
      'DeadLetteredAlarm',
      combined(
        'SUM',
        {
          says: `${MANY_DEAD_LETTERS} records became dead letters within an hour, which points to a common cause`,
          statistic: 'Sum',
          from: MANY_DEAD_LETTERS,
          seconds: 3600,
        },
        [batchName, `${service}-${stage}-dead-letter`].map((name) =>
          metricOf(OURS, 'DeadLettered', of(name)),
        ),
      ),
    ],
    ...AWAY.map(([name, code, says]): Alarm => {
      const metric = metricOf(OURS, `Failures_${code}`, of(batchName));
      return [name, alarm({ says, metric, statistic: 'Sum', from: 1, times: 2, periods: 3 })];
    }),
  ];
}

/** The reasons why records wait, by the code with which they return. */
/** Minutes of a whole CPU. Without credits a node has a tenth (micro) or a fifth (small) of each. */
const FEW_CREDITS = 30;

const AWAY = [
  [
    'ResultsAwayAlarm',
    'results_unavailable',
    'Results cannot be saved: Redis or the table is away, or S3 for large ones; records wait',
  ],
  ['ModelAwayAlarm', 'model_unavailable', 'No model can be opened; records wait'],
  ['PayloadsAwayAlarm', 'queue_unavailable', 'Large records cannot be read: S3 is away; they wait'],
] as const;

/** An alarm on several metrics together. */
function combined(
  how: 'MAX' | 'MIN' | 'SUM',
  rule: Omit<Rule, 'metric'>,
  metrics: readonly ReturnType<typeof metricOf>[],
): Readonly<Record<string, unknown>> {
  const { Statistic: _, Period, ...rest }: Readonly<Record<string, unknown>> = alarm({ ...rule, metric: {} });
  const name = metrics[0]?.MetricName;
  const whole = { Id: 'all', Expression: `${how}(METRICS())`, Label: name, ReturnData: true };
  const parts = metrics.map((Metric, i) => ({
    Id: `part${i + 1}`,
    MetricStat: { Metric, Period, Stat: rule.statistic },
    ReturnData: false,
  }));
  return { ...rest, Metrics: [whole, ...parts] };
}

function redisAlarms({
  redisNodes,
  redisNodeType,
}: Pick<MonitoringRequest, 'redisNodes' | 'redisNodeType'>): Alarm[] {
  if (redisNodes === 0) return [];
  const on = (says: string, name: string, statistic: string, from: number, isLeast = false) => {
    const metrics = Array.from({ length: redisNodes }, (_, i) =>
      metricOf('AWS/ElastiCache', name, { CacheClusterId: redisNode(i + 1) }),
    );
    const rule = { says, statistic, from, isLeast, times: 2, periods: 3 };
    const [metric, ...others] = metrics;
    if (metric && others.length === 0) return alarm({ ...rule, metric });
    // The worst of all nodes: which of them is the primary changes with a failover.
    return combined(isLeast ? 'MIN' : 'MAX', rule, metrics);
  };
  return [
    ['RedisEvictionsAlarm', on('Redis evicted results before they expired', 'Evictions', 'Sum', 1)],
    [
      'RedisConnectionsAlarm',
      on(
        'Redis has more connections than the functions can open',
        'CurrConnections',
        'Maximum',
        MANY_CONNECTIONS,
      ),
    ],
    ['RedisCpuAlarm', on('The CPU of Redis is over 90 % busy', 'EngineCPUUtilization', 'Average', 90)],
    ...(redisNodeType.startsWith('cache.t')
      ? [
          [
            'RedisCreditsAlarm',
            on('Redis has nearly used up its CPU credits', 'CPUCreditBalance', 'Minimum', FEW_CREDITS, true),
          ] as const,
        ]
      : []),
  ];
}
