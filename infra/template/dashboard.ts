/**
 * The CloudWatch dashboard of a deployment. Its body is one Fn::Sub text: CloudFormation replaces every `${...}` in it.
 */
import { type MonitoringRequest, OURS, type Resource, redisNode, watchedFunctions } from './watched.ts';

/** A metric of a widget: namespace, name, dimensions as names and values, then how to draw it. */
type Line = readonly unknown[];

interface Widget {
  readonly title: string;
  readonly lines: readonly Line[];
}

export function dashboard(request: MonitoringRequest): Resource {
  const { service, stage } = request;
  const widgets = [...functionWidgets(request), ...serviceWidgets(request), ...ourWidgets(request)];
  const placed = widgets.map(({ title, lines }, i) => ({
    type: 'metric',
    x: 8 * (i % 3),
    y: 6 * Math.floor(i / 3),
    width: 8,
    height: 6,
    properties: { title, region: '${AWS::Region}', view: 'timeSeries', period: 60, metrics: lines },
  }));
  return {
    Type: 'AWS::CloudWatch::Dashboard',
    Properties: {
      DashboardName: `${service}-${stage}`,
      DashboardBody: { 'Fn::Sub': JSON.stringify({ widgets: placed }) },
    },
  };
}

function functionWidgets(request: MonitoringRequest): Widget[] {
  const functions = watchedFunctions(request).map(({ logicalName }) => `\${${logicalName}LambdaFunction}`);
  const each = (title: string, name: string, stat: string): Widget => ({
    title,
    lines: functions.map((name_) => ['AWS/Lambda', name, 'FunctionName', name_, { stat }]),
  });
  return [
    each('Invocations', 'Invocations', 'Sum'),
    each('Errors of functions', 'Errors', 'Sum'),
    each('Throttles', 'Throttles', 'Sum'),
    each('Duration, p50 (ms)', 'Duration', 'p50'),
    each('Duration, p99 (ms)', 'Duration', 'p99'),
    each('Environments at work', 'ConcurrentExecutions', 'Maximum'),
  ];
}

function serviceWidgets({ redisNodes }: MonitoringRequest): Widget[] {
  const api = (name: string, stat: string): Line => ['AWS/ApiGateway', name, 'ApiId', '${HttpApi}', { stat }];
  const queue = (name: string, logicalName: string, stat: string): Line => {
    return ['AWS/SQS', name, 'QueueName', `\${${logicalName}.QueueName}`, { stat }];
  };
  return [
    { title: 'HTTP API: requests', lines: [api('Count', 'Sum'), api('4xx', 'Sum'), api('5xx', 'Sum')] },
    { title: 'HTTP API: latency (ms)', lines: [api('Latency', 'p50'), api('Latency', 'p99')] },
    {
      title: 'Queue: records',
      lines: [
        queue('NumberOfMessagesSent', 'Queue', 'Sum'),
        queue('ApproximateNumberOfMessagesVisible', 'Queue', 'Maximum'),
        queue('ApproximateNumberOfMessagesNotVisible', 'Queue', 'Maximum'),
        queue('ApproximateNumberOfMessagesVisible', 'DeadLetterQueue', 'Maximum'),
      ],
    },
    { title: 'Queue: oldest (s)', lines: [queue('ApproximateAgeOfOldestMessage', 'Queue', 'Maximum')] },
    ...redisWidgets(redisNodes),
  ];
}

function redisWidgets(redisNodes: number): Widget[] {
  if (redisNodes === 0) return [];
  const redis = (name: string, stat: string): Line[] =>
    Array.from({ length: redisNodes }, (_, i) => {
      const id = redisNode(i + 1)['Fn::Sub'];
      return ['AWS/ElastiCache', name, 'CacheClusterId', id, { stat }];
    });
  return [
    { title: 'Redis: memory (%)', lines: redis('DatabaseMemoryUsagePercentage', 'Maximum') },
    { title: 'Redis: CPU (%)', lines: redis('EngineCPUUtilization', 'Average') },
    {
      title: 'Redis: connections, evictions',
      lines: [...redis('CurrConnections', 'Maximum'), ...redis('Evictions', 'Sum')],
    },
  ];
}

function ourWidgets({ service, stage, jobName, batchName }: MonitoringRequest): Widget[] {
  const ours = (name: string, of: string, stat: string): Line => {
    return [
      OURS,
      name,
      'Job',
      jobName,
      'Function',
      of === 'batch' ? batchName : `${service}-${stage}-${of}`,
      { stat, label: `${of} ${name}` },
    ];
  };
  const both = (name: string, stat: string) => [ours(name, 'predict', stat), ours(name, 'batch', stat)];
  return [
    { title: 'Rows', lines: both('Rows', 'Sum') },
    {
      title: 'Batch size',
      lines: [ours('BatchSize', 'batch', 'Average'), ours('BatchSize', 'batch', 'Maximum')],
    },
    { title: 'Inference (ms)', lines: [...both('InferenceTime', 'p50'), ...both('InferenceTime', 'p99')] },
    {
      title: 'Age of records at the model (ms)',
      lines: [ours('QueueAge', 'batch', 'p50'), ours('QueueAge', 'batch', 'p99')],
    },
    { title: 'Cold starts', lines: [...both('ColdStarts', 'Sum'), ours('ColdStarts', 'predictions', 'Sum')] },
    { title: 'Opening of models and connections (ms)', lines: both('LoadTime', 'Maximum') },
    {
      title: 'Failures',
      lines: [
        ...['predict', 'batch', 'submit', 'predictions'].map((of) => ours('Failures', of, 'Sum')),
        ...['batch', 'dead-letter'].map((of) => ours('DeadLettered', of, 'Sum')),
      ],
    },
  ];
}
