/**
 * The promises of the alarms and the dashboard of a stack with `monitoring=full`. An alarm on a metric or dimension
 * that does not exist never fires, so every name is compared with its resource or with the metrics of
 * lib/observe/emf.ts.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { isErrorCode } from '../../lib/contract/errors.ts';
import { propertiesOf, referencesOf, resourcesOf, type Template } from '../support/template.ts';

/** The metrics that we use in each namespace, and the dimension that finds them. */
const KNOWN: Readonly<Record<string, { readonly by: string; readonly metrics: readonly string[] }>> = {
  'AWS/Lambda': {
    by: 'FunctionName',
    metrics: ['Invocations', 'Errors', 'Throttles', 'Duration', 'ConcurrentExecutions'],
  },
  'AWS/ApiGateway': { by: 'ApiId', metrics: ['Count', '4xx', '5xx', 'Latency'] },
  'AWS/SQS': {
    by: 'QueueName',
    metrics: [
      'ApproximateAgeOfOldestMessage',
      'ApproximateNumberOfMessagesVisible',
      'ApproximateNumberOfMessagesNotVisible',
      'NumberOfMessagesSent',
    ],
  },
  'AWS/ElastiCache': {
    by: 'CacheClusterId',
    metrics: [
      'DatabaseMemoryUsagePercentage',
      'EngineCPUUtilization',
      'CPUCreditBalance',
      'CurrConnections',
      'Evictions',
    ],
  },
};

interface Metric {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Dimensions: readonly { readonly Name: string; readonly Value: unknown }[];
}
type Alarm = Readonly<Record<string, unknown>>;

/** Returns the metric of an alarm, or the metrics of an alarm on the worst of several. */
function metricsOf(alarm: Alarm): Metric[] {
  const queries = alarm['Metrics'] as
    | readonly { readonly MetricStat?: { readonly Metric: Metric } }[]
    | undefined;
  if (!queries) return [alarm as unknown as Metric];
  return queries.flatMap(({ MetricStat }) => (MetricStat ? [MetricStat.Metric] : []));
}

/** @param service with which the names of functions begin, without stage */
const isAlarm = (name: string) => name.endsWith('Alarm');

/** The resources of a stack with redis=serverless that one with redis=node has not. */
async function ofOtherStacks(): Promise<string[]> {
  const names = async (kind: string) => {
    const file = new URL(`../../infra/stack/${kind}.yml`, import.meta.url);
    return [...(await readFile(file, 'utf8')).matchAll(/^ {2}(\w+):\n {4}Type:/gm)].map(
      ([, name]) => name as string,
    );
  };
  const ofNode = await names('redis/node');
  const ofServerless = (await names('redis/serverless')).filter((name) => !ofNode.includes(name));
  // As monitoring=full adds for each function.
  const ofFunctions = ['Errors', 'Throttles', 'Duration'].flatMap((kind) => [
    `Notifier${kind}Alarm`,
    `Trials${kind}Alarm`,
    `Throttle${kind}Alarm`,
  ]);
  const parts = await Promise.all(
    ['redis/dynamodb', 'notify/on', 'trials/on', 'priority/on', 'budget/on'].map(names),
  );
  return [...ofServerless, ...parts.flat(), ...ofFunctions];
}

export function monitoringTests(template: () => Template, service: string): void {
  const alarms = () => resourcesOf(template(), 'AWS::CloudWatch::Alarm');
  const functions = () => resourcesOf(template(), 'AWS::Lambda::Function');

  test('each function has an alarm for errors, for throttles and for a run near its time-out', () => {
    for (const [logicalName, { FunctionName, Timeout }] of functions()) {
      const watched = alarms().filter(([, alarm]) =>
        metricsOf(alarm).some(({ Dimensions }) => referencesOf(Dimensions).includes(logicalName)),
      );
      const names = watched.flatMap(([, alarm]) => metricsOf(alarm).map(({ MetricName }) => MetricName));
      for (const name of ['Errors', 'Throttles', 'Duration'])
        assert.equal(names.filter((found) => found === name).length, 1, `${String(FunctionName)} ${name}`);
      const late = watched.find(([, alarm]) => alarm['MetricName'] === 'Duration')?.[1];
      assert.equal(late?.['Threshold'], 0.9 * Number(Timeout) * 1000, String(FunctionName));
    }
  });

  test('queue, dead letters, HTTP API and Redis have the alarms that docs/how-to/runbook.md promises', () => {
    const names = alarms().map(([name]) => name);
    for (const name of [
      'QueueAgeAlarm',
      'DeadLetterAlarm',
      'DeadLetterAgeAlarm',
      'DeadLetteredAlarm',
      'ResultsAwayAlarm',
      'ModelAwayAlarm',
      'PayloadsAwayAlarm',
      'ApiErrorsAlarm',
      'ApiLatencyAlarm',
      'RedisMemoryAlarm',
      'RedisEvictionsAlarm',
      'RedisConnectionsAlarm',
      'RedisCpuAlarm',
      'RedisCreditsAlarm',
    ])
      assert.ok(names.includes(name), name);
  });

  test('an alarm looks at a metric that exists, of a resource of this stack', () => {
    for (const [name, alarm] of alarms()) {
      for (const { Namespace, MetricName, Dimensions } of metricsOf(alarm)) {
        if (Namespace === 'ClusterServing') continue;
        assert.ok(KNOWN[Namespace]?.metrics.includes(MetricName), `${name}: ${Namespace} ${MetricName}`);
        assert.deepEqual(
          Dimensions.map(({ Name }) => Name),
          [KNOWN[Namespace]?.by],
          name,
        );
        assert.ok(referencesOf(Dimensions).length > 0, name);
      }
    }
  });

  test('an alarm on our own metrics looks where the function writes them', async () => {
    const source = await readFile(new URL('../../lib/observe/emf.ts', import.meta.url), 'utf8');
    for (const [name, alarm] of alarms()) {
      for (const { Namespace, MetricName, Dimensions } of metricsOf(alarm)) {
        if (Namespace !== 'ClusterServing') continue;
        const [, code] = /^Failures_(\w+)$/.exec(MetricName) ?? [];
        if (code === undefined) assert.match(source, new RegExp(`^ {2}${MetricName}: \\{ unit`, 'm'), name);
        else assert.ok(isErrorCode(code), name);
        const { Job, Function: functionName } = Object.fromEntries(
          Dimensions.map(({ Name, Value }) => [Name, Value]),
        );
        const found = functions().find(([, { FunctionName }]) => FunctionName === functionName);
        assert.ok(found, `${name}: no function ${String(functionName)}`);
        const { Variables } = found[1]['Environment'] as { Variables: Record<string, string> };
        assert.equal(JSON.parse(Variables['CLUSTER_SERVING_CONFIG'] as string).jobName, Job, name);
      }
    }
  });

  test('an alarm about Redis looks at each of its nodes, for any may become the primary', () => {
    const nodes = Number(propertiesOf(template(), 'Redis')['NumCacheClusters']);
    for (const [name, metric] of [
      ['RedisEvictionsAlarm', 'Evictions'],
      ['RedisConnectionsAlarm', 'CurrConnections'],
      ['RedisCpuAlarm', 'EngineCPUUtilization'],
      ['RedisCreditsAlarm', 'CPUCreditBalance'],
    ] as const) {
      const metrics = metricsOf(propertiesOf(template(), name));
      assert.ok(
        metrics.every(({ MetricName }) => MetricName === metric),
        name,
      );
      const values = metrics.map(({ Dimensions }) => Dimensions[0]?.Value);
      assert.deepEqual(
        values,
        Array.from({ length: nodes }, (_, i) => ({ 'Fn::Sub': `\${Redis}-00${i + 1}` })),
      );
    }
  });

  test('as many metrics are watched as docs/explanation/costs.md says are billed: 30, and 4 for each node of Redis', () => {
    const nodes = Number(propertiesOf(template(), 'Redis')['NumCacheClusters']);
    assert.equal(alarms().flatMap(([, alarm]) => metricsOf(alarm)).length, 30 + 4 * nodes);
  });

  test('every alarm tells the topic, both when it turns red and when it is over', () => {
    for (const [name, { AlarmActions, OKActions }] of alarms())
      assert.deepEqual([AlarmActions, OKActions], [[{ Ref: 'AlarmTopic' }], [{ Ref: 'AlarmTopic' }]], name);
  });

  test('every alarm is silent where there is no data, and says in a sentence what it means', () => {
    for (const [name, { TreatMissingData, AlarmDescription }] of alarms()) {
      assert.equal(TreatMissingData, 'notBreaching', name);
      assert.ok(String(AlarmDescription).length > 20, name);
    }
  });

  test('every alarm has an entry in docs/how-to/runbook.md with a command to look with, and no entry is without its alarm', async () => {
    const text = await readFile(new URL('../../docs/how-to/runbook.md', import.meta.url), 'utf8');
    const entries = new Map(
      text
        .split(/^## /m)
        .slice(1)
        .flatMap((entry) => {
          const [title = ''] = entry.split('\n');
          return [...title.matchAll(/`(\w+Alarm)`/g)].map(([, name]) => [name as string, entry] as const);
        }),
    );
    const all = [...alarms().map(([name]) => name), ...(await ofOtherStacks()).filter(isAlarm)];
    assert.deepEqual([...entries.keys()].sort(), all.sort());
    for (const [name, entry] of entries) {
      assert.match(entry, /```sh\n/, `${name} has no command`);
      for (const part of ['**Means**', '**Look**', '**Usual causes**', '**Fix**'])
        assert.ok(entry.includes(part), `${name}: no ${part}`);
    }
  });

  test('the commands of docs/how-to/runbook.md are a shell’s, and every resource, output and function they name is there', async (t) => {
    const text = await readFile(new URL('../../docs/how-to/runbook.md', import.meta.url), 'utf8');
    const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block]) => block as string);
    assert.ok(blocks.length > 10);
    const resources = [...Object.keys(template().Resources), ...(await ofOtherStacks())];
    for (const [, name] of text.matchAll(/\$\(resource (\w+)\)/g))
      assert.ok(resources.includes(name as string), name);
    for (const [, name] of text.matchAll(/\$\(output (\w+)\)/g))
      assert.ok(Object.hasOwn(template().Outputs, name as string), name);
    const names = [
      ...functions().map(([, { FunctionName }]) => String(FunctionName)),
      `${service}-prod-notifier`,
      `${service}-prod-trials`,
      `${service}-prod-throttle`,
    ];
    for (const [, name] of text.matchAll(/(?:\$STACK-|^(?:errors|query) )([a-z-]+)/gm))
      assert.ok(names.includes(`${service}-prod-${name}`), name);
    const { error, status, stderr } = spawnSync('bash', ['-n'], {
      input: blocks.join('\n'),
      encoding: 'utf8',
    });
    if (error) return t.skip('no bash on this machine');
    assert.equal(status, 0, stderr);
  });

  test('the dashboard shows functions, API, queue, Redis and our metrics, each by a name of this stack', () => {
    const { DashboardBody, DashboardName } = propertiesOf(template(), 'Dashboard');
    assert.equal(DashboardName, `${service}-prod`);
    const { widgets } = JSON.parse((DashboardBody as { 'Fn::Sub': string })['Fn::Sub']) as {
      widgets: readonly { readonly properties: { readonly metrics: readonly (readonly unknown[])[] } }[];
    };
    const lines = widgets.flatMap(({ properties }) => properties.metrics);
    const namespaces = new Set(lines.map(([namespace]) => namespace));
    assert.deepEqual(namespaces, new Set([...Object.keys(KNOWN), 'ClusterServing']));
    const names = new Set(functions().map(([, { FunctionName }]) => FunctionName));
    for (const [namespace, metric, dimension, value, ...more] of lines) {
      if (namespace === 'ClusterServing') {
        assert.ok(names.has(more[1]), JSON.stringify(more));
        continue;
      }
      const known = KNOWN[String(namespace)];
      assert.ok(known?.metrics.includes(String(metric)), String(metric));
      assert.equal(dimension, known?.by);
      assert.match(String(value), /^\$\{/);
    }
    // Every name in Fn::Sub must exist; the general test of references checks it too.
    assert.ok(referencesOf(DashboardBody).every((name) => Object.hasOwn(template().Resources, name)));
  });
}
