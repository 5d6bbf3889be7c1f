/** A user's own code stands at the run stage: it implements `run` and nothing of binding, batching or endpoints. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { predict } from '../../../functions/predict.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { type ErrorCode, ServingError, withUri } from '../../../lib/contract/errors.ts';
import { logError } from '../../../lib/contract/log.ts';
import type {
  Inputs,
  Model,
  NamedTensor,
  Outcome,
  Runner,
  TensorSpec,
} from '../../../lib/contract/values.ts';
import { emf } from '../../../lib/observe/emf.ts';
import { FAILURES } from '../../../lib/observe/failures.ts';
import { DeliveredTimers } from '../../../lib/observe/timers.ts';
import { together } from '../../../lib/observe/together.ts';
import type { FinishedRecord } from '../../../lib/pipeline/decode.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { type Sink, serveRequest } from '../../../lib/pipeline/serve.ts';
import { enqueued } from '../../support/enqueue.ts';
import { quietObservers } from '../../support/observers.ts';

/** Doubles the input "x" of each record; a negative one is a failure of its record. */
const code: Runner = {
  version: 'code-1',
  async run(records) {
    return records.map((record): Outcome => {
      const x = numberOf(record);
      if (x < 0) return { ok: false, error: new ServingError('model_failed', `${x} is negative`) };
      const y = { name: 'y', dtype: 'float32' as const, shape: [1], data: Float32Array.of(2 * x) };
      return { ok: true, outputs: [y] };
    });
  },
  close: async () => undefined,
};

function numberOf(record: Inputs): number {
  const value = record.get('x');
  if (value?.kind === 'json') return Number(value.value);
  assert.ok(value?.kind === 'tensor');
  return Number(value.tensor.data[0]);
}

function deps(runner: Runner = code) {
  const saved: FinishedRecord[] = [];
  const sink: Sink = {
    async save(finished) {
      saved.push(...finished);
      return [];
    },
  };
  const model: Model = { use: (work) => work(runner) };
  const running = { begin: () => async () => undefined };
  const payloads = { resolve: async (bodies: readonly string[]) => [...bodies] };
  const rest = { observers: quietObservers(), now: Date.now, filter: undefined };
  return { saved, sink, model, running, payloads, ...rest };
}

async function post(instances: readonly unknown[], runner = code) {
  const answer = await predict(deps(runner))({
    rawPath: '/predict',
    headers: {},
    requestContext: { http: { method: 'POST' } },
    body: JSON.stringify({ instances }),
  } as unknown as APIGatewayProxyEventV2);
  return { status: answer.statusCode, body: JSON.parse(answer.body as string) as Record<string, unknown> };
}

function eventOf(values: readonly number[]): SQSEvent {
  return {
    Records: values.map((x, i) => ({
      messageId: `m-${i}`,
      attributes: { SentTimestamp: '0', ApproximateReceiveCount: '1' },
      body: encodeMessage(
        `record-${i}`,
        new Map([
          ['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(x) } }],
        ]),
      ),
    })),
  } as unknown as SQSEvent;
}

test('POST /predict is answered by it', async () => {
  const { status, body } = await post([{ x: 2 }, { x: 3 }]);
  assert.equal(status, 200);
  assert.deepEqual(body['predictions'], [
    '{value={"data":[4.0],"shape":[1]}}',
    '{value={"data":[6.0],"shape":[1]}}',
  ]);
});

test('POST /predict becomes a record of the queue where the request prefers that, and there is one', async () => {
  const sent: string[] = [];
  const accept = {
    queue: () => ({
      send: async (body: string) => void sent.push((JSON.parse(body) as { uri: string }).uri),
    }),
    payloads: () => assert.fail(),
    settings: { notify: {} },
  };
  for (const [parts, prefer, status] of [
    [{ accept }, 'respond-async', 202],
    [{ accept }, 'wait=1, respond-async', 202],
    [{ accept }, 'wait=1', 200],
    [{}, 'respond-async', 200],
  ] as const) {
    const answer = await predict({ ...deps(), ...parts })({
      rawPath: '/predict',
      headers: { prefer },
      requestContext: { http: { method: 'POST' } },
      body: JSON.stringify({ instances: [{ x: 2 }] }),
    } as unknown as APIGatewayProxyEventV2);
    assert.equal(answer.statusCode, status, prefer);
    const uris = sent.splice(0);
    if (status === 202) assert.deepEqual(uris, [(JSON.parse(answer.body as string) as { uri: string }).uri]);
    else assert.deepEqual(uris, []);
  }
});

test('a request with one failed instance fails with its place, though the code went on behind it', async () => {
  const { status, body } = await post([{ x: 1 }, { x: -1 }, { x: 1 }]);
  assert.equal(status, new ServingError('model_failed', '').status);
  assert.match(String(body['error']), /instances\[1\].*-1 is negative/);
});

test('the queue is answered by it, each record with its own outcome', async () => {
  const parts = deps();
  const event = eventOf([1, -1, 2]);
  assert.deepEqual(await serveEvent(parts)(event), { batchItemFailures: [] });
  assert.deepEqual(Object.fromEntries(parts.saved.map(({ uri, outcome }) => [uri, outcome.ok])), {
    'record-0': true,
    'record-1': false,
    'record-2': true,
  });
});

test('a runner that gives fewer outcomes than records answers none of them, and their messages come again', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const short: Runner = { ...code, run: async (records) => (await code.run(records)).slice(1) };
  assert.equal((await post([{ x: 1 }, { x: 2 }], short)).status, 500);
  const parts = deps(short);
  const { batchItemFailures } = await serveEvent(parts)(eventOf([1, 2]));
  assert.deepEqual(
    [batchItemFailures.map(({ itemIdentifier }) => itemIdentifier), parts.saved],
    [['m-0', 'm-1'], []],
  );
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

/**
 * The measurements of a call, by a clock that stands still unless it is set: timers as [count, ms], and the
 * invocation's metrics.
 */
async function measuring(
  call: (clock: { ms: number }, parts: ReturnType<typeof deps>) => Promise<unknown>,
): Promise<{ readonly timers: Record<string, number[]>; readonly metrics: Record<string, unknown> }> {
  const clock = { ms: 0 };
  const timers: Record<string, number[]> = {};
  const now = () => clock.ms;
  const delivered = new DeliveredTimers({
    deliver: async (taken) => {
      await turn();
      for (const [name, { count, sum }] of taken.take()) timers[name.slice(12)] = [count, sum];
    },
    now,
  });
  let line = '{}';
  const write = (text: string) => void (line = text);
  const metrics = emf({ dimensions: { Job: '', Function: '' }, isProvisioned: true, now: () => 0, write });
  const observers = together([delivered, metrics], now);
  observers.functionCalled?.({ ids: {}, messages: undefined, bytes: () => 0 });
  await call(clock, { ...deps(), observers });
  await observers.flush?.({ leftMs: () => 30_000 });
  observers.functionAnswered?.(undefined);
  const measured = JSON.parse(line) as Record<string, unknown>;
  for (const name of ['_aws', 'Job', 'Function', 'Requests']) Reflect.deleteProperty(measured, name);
  return { timers, metrics: measured };
}

test('each endpoint measures its request, its run and its rows by the clock', async () => {
  const named = (name: string, isText = false): TensorSpec => {
    return { name, dtype: isText ? 'string' : 'float32', shape: ['N', 2].slice(0, isText ? 1 : 2), isText };
  };
  const y: NamedTensor = { name: 'embedding', dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) };
  const tensor = { name: 'x', datatype: 'FP32', shape: [3, 2], data: [1, 2, 3, 4, 5, 6] };
  for (const [path, body, rows, isText] of [
    ['/predict', { instances: [{ x: [1, 2] }, { x: [1, 2] }] }, 2, false],
    ['/predict', { instances: [[1, 2]] }, 1, false],
    ['/v1/embeddings', { input: ['a', 'b', 'c'], model: 'job' }, 3, true],
    ['/v1/models/job:predict', { instances: [[1, 2]] }, 1, false],
    ['/v2/models/job/infer', { inputs: [tensor] }, 3, false],
    ['/encode_json', [1, 2], 1, false],
  ] as const) {
    const { timers, metrics } = await measuring(async (clock, parts) => {
      const run: Runner['run'] = async (records) => {
        assert.equal(clock.ms, 3, `${path} runs once it has its token`);
        clock.ms += 2_000;
        const whole = { ...y, shape: [rows, 2], data: new Float32Array(2 * rows) };
        return records.map(() => ({ ok: true, outputs: [path.includes('models') ? whole : y] }));
      };
      const outputs = [named('embedding')];
      const runner = { ...code, inputs: [named(isText ? 'text' : 'x', isText)], outputs, run };
      const limiter = { acquire: () => turn().then(() => void (clock.ms += 3)) };
      const model: Model = { use: (work) => work(runner) };
      const answer = await predict({ ...parts, model, limiter, jobName: 'job' })({
        rawPath: path,
        headers: { 'content-type': 'application/json' },
        requestContext: { http: { method: 'POST', path } },
        body: JSON.stringify(body),
      } as unknown as APIGatewayProxyEventV2);
      assert.equal(answer.statusCode, 200, `${path}: ${answer.body}`);
    });
    const isWorker = path === '/encode_json';
    const predicted = isWorker ? {} : { 'request.predict': [1, 2_000] };
    assert.deepEqual(timers, { 'request.overall': [1, 2_003], ...predicted }, path);
    assert.deepEqual(metrics, { Rows: rows, ...(isWorker ? {} : { InferenceTime: 2_000 }) }, path);
  }
});

test('the queue measures how long each message waited, its run and its save by the clock', async () => {
  const { timers, metrics } = await measuring(async (clock, parts) => {
    const run: Runner['run'] = (records) => ((clock.ms += 2_000), code.run(records));
    const model: Model = { use: (work) => work({ ...code, run }) };
    const sink: Sink = { save: async () => ((clock.ms += 50), []) };
    const { Records } = eventOf([1, 2, 3]);
    const sent = ['9000', '9900', '10001'];
    for (const [i, { attributes }] of Records.entries()) attributes.SentTimestamp = sent[i] as string;
    await serveEvent({ ...parts, model, sink, now: () => 10_000 })({ Records });
  });
  assert.deepEqual(timers, {
    'redis.wait': [3, 1_100],
    'request.predict': [1, 2_000],
    'redis.put': [1, 50],
  });
  assert.deepEqual(metrics, { QueueAge: 1_000, InferenceTime: 2_000, Rows: 3 });
});

test('timers are delivered with an event of which nothing can be saved, and not with one there was no time for', async () => {
  const away: Runner = {
    ...code,
    run: async (records) =>
      records.map(() => ({ ok: false, error: new ServingError('model_unavailable', 'away') })),
  };
  const saves: number[] = [];
  for (const leftMs of [30_000, 0]) {
    const parts = deps(away);
    const sink = { save: async ({ length }: readonly FinishedRecord[]) => (saves.push(length), []) };
    await serveEvent({ ...parts, sink })(eventOf([1]), { getRemainingTimeInMillis: () => leftMs });
  }
  assert.deepEqual(saves, [0]);
});

/** Fails each record with the code that its number stands for. */
function failing(...codes: (ErrorCode | undefined)[]): Runner {
  return {
    ...code,
    run: async (records) =>
      records.map((record): Outcome => {
        const error = codes[numberOf(record)];
        return error ? { ok: false, error: new ServingError(error, 'no') } : { ok: true, outputs: [] };
      }),
  };
}

test('exactly the records whose failure may pass come again, the others are saved', async () => {
  const parts = deps(failing('model_unavailable', 'bad_input', undefined, 'timeout'));
  const { batchItemFailures } = await serveEvent(parts)(eventOf([0, 1, 2, 3]));
  assert.deepEqual(
    batchItemFailures.map(({ itemIdentifier }) => itemIdentifier),
    ['m-0', 'm-3'],
  );
  assert.deepEqual(
    parts.saved.map(({ uri }) => uri),
    ['record-1', 'record-2'],
  );
});

test('a record that is done is saved although there was no time for the one beside it', async () => {
  const parts = deps(failing('timeout', undefined));
  const { batchItemFailures } = await serveEvent(parts)(eventOf([0, 1]));
  assert.deepEqual([batchItemFailures.length, parts.saved.length], [1, 1]);
});

test('messages whose results could not be saved come again', async () => {
  const parts = deps();
  const sink = { save: async (finished: readonly FinishedRecord[]) => finished.slice(1).map(({ id }) => id) };
  const { batchItemFailures } = await serveEvent({ ...parts, sink })(eventOf([1, 2, 3]));
  assert.deepEqual(
    batchItemFailures.map(({ itemIdentifier }) => itemIdentifier),
    ['m-1', 'm-2'],
  );
});

test('a record runs in an isolated process from its second delivery on, and not at its first', async () => {
  for (const [count, expected] of [
    ['1', 'shared'],
    ['2', 'isolated'],
    ['3', 'isolated'],
  ] as const) {
    const used = new Set<string>();
    const runner: Runner = {
      ...code,
      run: (records) => (used.add('shared'), code.run(records)),
      runIsolated: (records) => (used.add('isolated'), code.run(records)),
    };
    const event = eventOf([1, 2]);
    for (const { attributes } of event.Records) attributes.ApproximateReceiveCount = count;
    await serveEvent(deps(runner))(event);
    assert.deepEqual([...used], [expected], `delivery ${count}`);
  }
});

test('a request fails at its first failure, with its index, for any behavior of the run stage', async () => {
  const runner = failing('bad_input', undefined);
  const records = [1, 0, 0].map((value): Inputs => new Map([['x', { kind: 'json', value }]]));
  await assert.rejects(serveRequest(records, runner, {}), {
    code: 'bad_input',
    message: 'instances[1]: no',
  });
});

test('the log names the version in which a request failed, also where the error is put into other words', async (t) => {
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (text: string) => lines.push(text));
  const RECORD: Inputs[] = [new Map([['x', { kind: 'json', value: 0 }]])];
  const failed = (runner: Runner) => serveRequest(RECORD, runner, {}).catch((error: unknown) => error);
  const thrown = { ...code, version: 'v2', run: () => Promise.reject(new Error('down')) };
  logError(await failed({ ...failing('model_failed'), version: 'v1' }));
  logError(await failed(thrown));
  logError(withUri(await failed(thrown), 'a'));
  logError(new Error('of no version'));
  t.mock.restoreAll();
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { model_version?: string }).model_version),
    ['v1', 'v2', 'v2', undefined],
  );
});

test('an operator reads of what comes again, and of final failures from status 500 on', (t) => {
  const outcome = (name: ErrorCode): Outcome => ({ ok: false, error: new ServingError(name, 'no') });
  const finished = (['bad_config', 'bad_input', 'model_failed'] as const).map((name) => {
    return { id: name, enqueue: enqueued(name), uri: name, outcome: outcome(name) };
  });
  const returned = [{ id: 'm', error: new ServingError('timeout', 'late') }];
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (text: string) => lines.push(text));
  FAILURES.chunkServed?.({ version: 'v', finished, returned });
  t.mock.restoreAll();
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { code: string }).code),
    ['timeout', 'bad_config'],
  );
});

test('a record whose payload cannot be read now comes again, one whose payload is gone fails', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const parts = deps();
  const resolve = async () => [
    new ServingError('queue_unavailable', 'S3 is away', { uri: 'a' }),
    new ServingError('bad_request', 'gone', { uri: 'b' }),
  ];
  const { batchItemFailures } = await serveEvent({ ...parts, payloads: { resolve } })(eventOf([1, 2]));
  assert.deepEqual(
    [batchItemFailures.map(({ itemIdentifier }) => itemIdentifier), parts.saved.map(({ uri }) => uri)],
    [['m-0'], ['b']],
  );
});
