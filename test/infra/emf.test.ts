import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { observeCall } from '../../lib/compose/observe-handler.ts';
import { observers } from '../../lib/compose/observers.ts';
import { Scope } from '../../lib/compose/scope.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { badInput, ServingError } from '../../lib/contract/errors.ts';
import { logError, logWith } from '../../lib/contract/log.ts';
import { emf } from '../../lib/observe/emf.ts';
import { FAILURES } from '../../lib/observe/failures.ts';
import { together } from '../../lib/observe/together.ts';
import type { Observers } from '../../lib/pipeline/observer.ts';
import { enqueued } from '../support/enqueue.ts';
import { quietObservers } from '../support/observers.ts';

interface Directive {
  readonly Namespace: string;
  readonly Dimensions: readonly (readonly string[])[];
  readonly Metrics: readonly { readonly Name: string; readonly Unit: string }[];
}
type Line = Readonly<Record<string, unknown>> & {
  readonly _aws: { readonly Timestamp: number; readonly CloudWatchMetrics: readonly [Directive] };
};

const IDS = { function_request_id: 'request-1', xray_trace_id: '1-67-89' };
const QUEUE_EVENT = { Records: [{ messageId: 'a' }, { messageId: 'b' }] };

type Invoke = <T>(
  event: unknown,
  ids: Readonly<Record<string, unknown>>,
  work: () => Promise<T>,
) => Promise<T>;

/** The observers of a function, and a call of it. */
function live(options: { readonly isProvisioned?: boolean } = {}) {
  const lines: string[] = [];
  const told = together(
    [
      emf({
        dimensions: { Job: 'serving_stream', Function: 'cluster-serving-dev-batch' },
        isProvisioned: options.isProvisioned ?? false,
        now: Date.now,
        write: (line) => void lines.push(line),
      }),
      FAILURES,
    ],
    () => performance.now(),
  );
  const invocation: Invoke = (event, ids, work) => logWith(ids, () => observeCall(told, event, ids, work));
  return { told, invocation, lines };
}

function timed(told: Observers, step: 'wait' | 'run' | 'write', ...times: readonly number[]): void {
  for (const tookMs of times) told.stepEnded?.({ step, tookMs });
}

const parsed = (lines: readonly string[]) => lines.map((line) => JSON.parse(line) as Line);

/** Lines of JSON on stdout. Everything else passes through, because the test runner uses stdout too. */
function capture(t: TestContext): string[] {
  const lines: string[] = [];
  const write = process.stdout.write.bind(process.stdout);
  t.mock.method(process.stdout, 'write', (text: string | Uint8Array, ...rest: never[]) => {
    if (typeof text !== 'string' || !text.startsWith('{')) return write(text, ...rest);
    lines.push(text);
    return true;
  });
  return lines;
}

/** Names and values of a line's metrics, as CloudWatch reads them. */
function metricsOf(line: Line | undefined): Record<string, unknown> {
  assert.ok(line);
  return Object.fromEntries(line._aws.CloudWatchMetrics[0].Metrics.map(({ Name }) => [Name, line[Name]]));
}

test('an invocation writes one line, with metrics by job and function and the ids to find it by', async () => {
  const { told, invocation, lines } = live();
  await invocation(QUEUE_EVENT, IDS, async () => {
    timed(told, 'wait', 40, 90);
    timed(told, 'run', 5, 7);
    timed(told, 'write', 1000);
    told.chunkServed?.({
      version: 'v',
      finished: [
        { id: 'a', enqueue: enqueued('a'), uri: 'a', outcome: { ok: true, outputs: [] } },
        {
          id: 'b',
          enqueue: enqueued('b'),
          uri: 'b',
          outcome: { ok: false, error: new ServingError('bad_input', 'no') },
        },
      ],
      returned: [],
    });
  });
  assert.equal(lines.length, 1);
  assert.ok(lines[0]?.endsWith('}\n') && lines[0].indexOf('\n') === lines[0].length - 1);
  const [line] = parsed(lines);
  assert.ok(line && Math.abs(line._aws.Timestamp - Date.now()) < 60_000);
  const [{ Namespace, Dimensions, Metrics }] = line._aws.CloudWatchMetrics;
  assert.deepEqual([Namespace, Dimensions], ['ClusterServing', [['Job', 'Function']]]);
  const { Job, Function: name, function_request_id, xray_trace_id } = line;
  assert.deepEqual(
    [Job, name, function_request_id, xray_trace_id],
    ['serving_stream', 'cluster-serving-dev-batch', 'request-1', '1-67-89'],
  );
  assert.deepEqual(metricsOf(line), {
    BatchSize: 2,
    ColdStarts: 1,
    QueueAge: 90,
    InferenceTime: 12,
    Rows: 2,
    Failures: 1,
    Failures_bad_input: 1,
  });
  assert.equal(Metrics.find(({ Name }) => Name === 'QueueAge')?.Unit, 'Milliseconds');
});

test('two invocations at once keep their metrics apart', async () => {
  const { told, invocation, lines } = live();
  let go: () => void = () => undefined;
  const both = new Promise<void>((resolve) => (go = resolve));
  const run = (rows: number) =>
    invocation({}, { function_request_id: String(rows) }, async () => {
      await both;
      told.rowsRead?.(rows);
    });
  const running = [run(1), run(2)];
  go();
  await Promise.all(running);
  const rows = parsed(lines).map(({ function_request_id, Rows }) => [function_request_id, Rows]);
  assert.deepEqual(Object.fromEntries(rows), {
    1: 1,
    2: 2,
  });
});

test('nothing is written where the deployment wants no metrics', async () => {
  const environment = (variables: Record<string, string>) =>
    readEnvironment({ AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9', ...variables });
  const off = observers(new Scope(environment({ CLUSTER_SERVING_METRICS: 'off' })));
  const on = observers(new Scope(environment({})));
  assert.deepEqual(['functionCalled' in off, 'functionCalled' in on], [false, true]);
});

test('only the first invocation is a cold start, and none is where the environment was kept warm', async () => {
  const cold = live();
  for (let i = 0; i < 2; i++) await cold.invocation({}, IDS, async () => undefined);
  assert.deepEqual(
    parsed(cold.lines).map(({ ColdStarts }) => ColdStarts),
    [1, undefined],
  );
  const warm = live({ isProvisioned: true });
  await warm.invocation({}, IDS, async () => undefined);
  assert.deepEqual(metricsOf(parsed(warm.lines)[0]), { Requests: 1 });
});

test('a call by a schedule does not count as a request, and writes no line when it measured nothing', async () => {
  const scheduled = live({ isProvisioned: true });
  const event = { source: 'aws.events', 'detail-type': 'Scheduled Event' };
  await scheduled.invocation(event, IDS, async () => undefined);
  assert.deepEqual(scheduled.lines, []);
  await scheduled.invocation(event, IDS, async () => scheduled.told.canaryRolledBack?.('v2'));
  assert.deepEqual(metricsOf(parsed(scheduled.lines)[0]), { CanariesRolledBack: 1 });
  const asked = { compared: 8, flips: 2, differ: 3 };
  await scheduled.invocation(event, IDS, async () => scheduled.told.shadowAsked?.(asked));
  assert.deepEqual(metricsOf(parsed(scheduled.lines).at(-1)), {
    ShadowRecords: 8,
    ShadowFlips: 2,
    ShadowDiffers: 3,
  });
});

test('the time of an opening is reported once, by the first invocation that ends after it', async () => {
  const { told, invocation, lines } = live();
  told.functionOpened?.({ tookMs: 700 });
  for (let i = 0; i < 2; i++) await invocation({}, IDS, async () => undefined);
  const times = parsed(lines).map(({ LoadTime }) => LoadTime);
  assert.deepEqual(times, [700, undefined]);
});

test('a failed HTTP answer is one failure of its code; asking for what is not there yet is none', async () => {
  const { invocation, lines } = live();
  const answers = [
    { statusCode: 400, body: '{"error":"no instances","code":"bad_request"}' },
    { statusCode: 500, body: 'not json' },
    { statusCode: 200, body: '{"code":"bad_request"}' },
    { statusCode: 404, body: '{"error":"no result","code":"not_found"}' },
  ];
  for (const answer of answers) assert.equal(await invocation({}, IDS, async () => answer), answer);
  const failures = parsed(lines).map((line) =>
    Object.keys(metricsOf(line)).filter((name) => name.startsWith('Failures')),
  );
  assert.deepEqual(failures, [
    ['Failures', 'Failures_bad_request'],
    ['Failures', 'Failures_internal'],
    [],
    [],
  ]);
});

test('an event that comes back as a whole counts a failure for each of its messages, and throwing writes the line too', async (t) => {
  capture(t);
  const { told, invocation, lines } = live();
  const error = new ServingError('model_unavailable', 'away');
  await invocation(QUEUE_EVENT, IDS, async () => told.eventFailed?.({ error, messages: 2 }));
  await assert.rejects(
    invocation({}, IDS, async () => {
      told.eventFailed?.({ error: new ServingError('timeout', 'late'), messages: 1 });
      throw error;
    }),
    error,
  );
  const [first, second] = parsed(lines);
  assert.equal(first?.['Failures_model_unavailable'], 2);
  assert.equal(second?.['Failures_timeout'], 1);
});

test('what a late request measures after its answer is not counted in the next invocation', async () => {
  const { told, invocation, lines } = live();
  let late: () => void = () => undefined;
  let ended: Promise<void> | undefined;
  await invocation({}, IDS, async () => {
    ended = new Promise<void>((resolve) => (late = resolve)).then(() => told.rowsRead?.(5));
  });
  await invocation({}, IDS, async () => {
    late();
    await ended;
  });
  assert.deepEqual(
    parsed(lines).map(({ Rows }) => Rows),
    [undefined, undefined],
  );
});

test('on a developer’s machine nothing is written', async (t) => {
  const written = capture(t);
  const { predict } = await import('../../functions/predict.ts');
  const runner = { version: 'v', run: async () => [], close: async () => undefined };
  const handler = predict({
    model: { use: (work) => work(runner) },
    filter: undefined,
    observers: quietObservers(),
  });
  const event = {
    rawPath: '/predict',
    requestContext: { http: { method: 'POST', path: '/predict' } },
    headers: { 'content-type': 'application/json' },
    body: '{"instances":[{"x":1}]}',
    isBase64Encoded: false,
  } as unknown as Parameters<typeof handler>[0];
  await handler(event);
  assert.deepEqual(
    written.filter((text) => text.includes('_aws')),
    [],
  );
});

test('every line logged in an invocation carries its ids, also after an await, and a uri where there is one', async (t) => {
  const lines = capture(t);
  const error = new ServingError('internal', 'broken', { uri: 'record-7' });
  await logWith(IDS, async () => {
    await new Promise((resolve) => setImmediate(resolve));
    logError(error, { phase: 'test' });
  });
  logError(error);
  const [inside, outside] = lines
    .filter((line) => line.includes('record-7'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const { level, code, uri, phase, function_request_id, xray_trace_id } = inside ?? {};
  assert.deepEqual(
    { level, code, uri, phase, function_request_id, xray_trace_id },
    { level: 'error', code: 'internal', uri: 'record-7', phase: 'test', ...IDS },
  );
  assert.equal(outside?.['function_request_id'], undefined);
});

test('the trace is read from the environment as it is now, without its parent', () => {
  const variables: Record<string, string> = {};
  const environment = readEnvironment(variables);
  assert.equal(environment.traceId, undefined);
  variables['_X_AMZN_TRACE_ID'] =
    'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1';
  assert.equal(environment.traceId, '1-5759e988-bd862e3fe1be46a994272793');
});

test('a further model has a line of its own, and in a job with more than twenty none has one', async () => {
  const { told, invocation, lines } = live({ isProvisioned: true });
  const ran = (name: string, among: number, isGood = true) =>
    told.recordsRan?.({
      source: 'queue',
      outcomes: [isGood ? { ok: true, outputs: [] } : { ok: false, error: badInput('x') }],
      tookMs: 5,
      further: { name, among },
    });
  await invocation({}, IDS, async () => {
    ran('fraud', 20);
    ran('fraud', 20, false);
    ran('search', 20);
  });
  const [own, ...models] = parsed(lines);
  assert.deepEqual(metricsOf(own), { Requests: 1 });
  const measured = models.map((line) => [line['Job'], line['Model'], line['Function'], metricsOf(line)]);
  assert.deepEqual(measured, [
    ['serving_stream', 'fraud', undefined, { ModelRows: 2, ModelFailures: 1, ModelTime: 10 }],
    ['serving_stream', 'search', undefined, { ModelRows: 1, ModelFailures: 0, ModelTime: 5 }],
  ]);
  lines.length = 0;
  await invocation({}, IDS, async () => ran('fraud', 21));
  assert.equal(lines.length, 1);
});
