/** Events of the queue and requests while a canary takes a share. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { predict } from '../../../functions/predict.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Canary, Model, Outcome, Runner } from '../../../lib/contract/values.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import type { Sink } from '../../../lib/pipeline/serve.ts';
import { quietObservers } from '../../support/observers.ts';

/** Answers with its version. */
function runnerOf(version: string, run?: Runner['run']): Runner {
  const output = { name: 'version', dtype: 'string' as const, shape: [1], data: [version] };
  return {
    version,
    run: run ?? (async (records) => records.map((): Outcome => ({ ok: true, outputs: [output] }))),
    close: async () => undefined,
  };
}

/** Takes the keys that begin with "c". */
function modelOf(serving = runnerOf('a'), canary = runnerOf('b')): Model {
  const takes: Canary['takes'] = (key) => key.startsWith('c');
  return {
    use: (work) => work(serving),
    canary: { takes, model: { version: canary.version, use: (work) => work(canary) } },
  };
}

interface Sent {
  readonly uri: string;
  readonly key?: string;
  readonly tenant?: string;
  readonly attempts?: number;
  readonly body?: string;
}

function eventOf(sent: readonly Sent[]): SQSEvent {
  const tensor = { dtype: 'float32' as const, shape: [1], data: Float32Array.of(1) };
  const Records = sent.map(({ uri, key, tenant, attempts = 1, body }) => ({
    messageId: `m-${uri}`,
    attributes: { SentTimestamp: '0', ApproximateReceiveCount: String(attempts), MessageGroupId: tenant },
    messageAttributes: key === undefined ? {} : { 'canary-key': { stringValue: key } },
    body: body ?? encodeMessage(uri, new Map([['x', { kind: 'tensor', tensor }]])),
  }));
  return { Records } as unknown as SQSEvent;
}

async function serve(event: SQSEvent, model: Model, save?: Sink['save']) {
  const saved = new Map<string, string>();
  const sink: Sink = {
    async save(finished, version) {
      const again = (await save?.(finished, version)) ?? [];
      for (const { uri, id, outcome } of finished) {
        if (again.includes(id)) continue;
        assert.ok(!saved.has(uri), `${uri} is saved once`);
        const [answer] = outcome.ok ? outcome.outputs : [];
        assert.ok(!outcome.ok || answer?.data[0] === version, 'a result names the version that made it');
        saved.set(uri, version);
      }
      return again;
    },
  };
  const parts = {
    model,
    sink,
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies: readonly string[]) => [...bodies] },
    observers: quietObservers(),
    now: Date.now,
  };
  const { batchItemFailures } = await serveEvent(parts)(event);
  return { saved, again: batchItemFailures.map(({ itemIdentifier }) => itemIdentifier) };
}

test('each record is run by its side, and its result names it: by canary-key, else tenant, else uri', async () => {
  const event = eventOf([
    { uri: 'plain' },
    { uri: 'canary' },
    { uri: 'c-but-key', key: 'x' },
    { uri: 'key', key: 'c1' },
    { uri: 'c-but-tenant', tenant: 't' },
    { uri: 'tenant', tenant: 'customer' },
    { uri: 'both', key: 'x', tenant: 'customer' },
    { uri: 'again', attempts: 3 },
    { uri: 'c-again', attempts: 3 },
  ]);
  const { saved, again } = await serve(event, modelOf());
  assert.deepEqual(again, []);
  assert.deepEqual(Object.fromEntries(saved), {
    plain: 'a',
    canary: 'b',
    'c-but-key': 'a',
    key: 'b',
    'c-but-tenant': 'a',
    tenant: 'b',
    both: 'a',
    again: 'a',
    'c-again': 'b',
  });
});

test('an event whose records are all of the canary runs nothing on the other version', async () => {
  const serving = runnerOf('a', async () => assert.fail('it ran'));
  const { saved } = await serve(eventOf([{ uri: 'c1' }, { uri: 'c2' }]), modelOf(serving));
  assert.deepEqual([...saved.values()], ['b', 'b']);
});

test('a canary that fails costs its own records alone, and a message that cannot be read is delivered again once', async () => {
  const failing = runnerOf('b', async (records) =>
    records.map((): Outcome => ({ ok: false, error: new ServingError('timeout', 'late') })),
  );
  const event = eventOf([{ uri: 'plain' }, { uri: 'c1' }, { uri: 'torn', body: '{' }]);
  const { saved, again } = await serve(event, modelOf(undefined, failing));
  assert.deepEqual(Object.fromEntries(saved), { plain: 'a' });
  assert.deepEqual(again.toSorted(), ['m-c1', 'm-torn']);
});

test('results of one side that cannot be saved are delivered again, and those of the other are not', async () => {
  const event = eventOf([{ uri: 'plain' }, { uri: 'c1' }, { uri: 'c2' }]);
  const { saved, again } = await serve(event, modelOf(), async (finished, version) =>
    version === 'b' ? finished.map(({ id }) => id) : [],
  );
  assert.deepEqual(Object.fromEntries(saved), { plain: 'a' });
  assert.deepEqual(again, ['m-c1', 'm-c2']);
});

interface Asked {
  readonly model?: Model;
  readonly requestId?: string;
  /** '' for a context without one. */
  readonly awsRequestId?: string;
}

async function ask(
  headers: Readonly<Record<string, string>>,
  method = 'POST',
  path = '/predict',
  { model = modelOf(), requestId = 'of the gateway', awsRequestId = headers['id'] ?? 'request' }: Asked = {},
) {
  const observers = quietObservers();
  const deps = { model, observers, filter: undefined, jobName: 'job', settings: {} };
  const answer = await predict(deps)(
    {
      rawPath: path,
      routeKey: `${method} ${path}`,
      headers,
      requestContext: { http: { method }, requestId },
      body: JSON.stringify({ instances: [{ x: 1 }] }),
    } as unknown as APIGatewayProxyEventV2,
    { getRemainingTimeInMillis: () => 30_000, ...(awsRequestId !== '' && { awsRequestId }) },
  );
  return answer.headers?.['model-version'];
}

test('where the context of the function has no id, the one of the gateway decides', async () => {
  assert.equal(await ask({}, 'POST', '/predict', { awsRequestId: '' }), 'a');
  assert.equal(await ask({}, 'POST', '/predict', { awsRequestId: '', requestId: 'c' }), 'b');
});

test('predict refuses an invalid canary key even without a canary', async () => {
  const model: Model = { version: 'a', use: (work) => modelOf().use(work) };
  assert.equal(await ask({ 'canary-key': 'x' }, 'POST', '/predict', { model }), 'a');
  assert.equal(await ask({ 'canary-key': '' }, 'POST', '/predict', { model }), undefined);
});

test('what is asked about a model is answered by the serving one, whatever the key', async () => {
  const asked: string[] = [];
  const noted = (version: string): Model['use'] => {
    const runner = { ...runnerOf(version), inputs: [], outputs: [] };
    return (work) => (asked.push(version), work(runner));
  };
  const model: Model = {
    version: 'a',
    use: noted('a'),
    canary: { takes: () => true, model: { version: 'b', use: noted('b') } },
  };
  const key = { 'canary-key': 'customer' };
  for (const [method, path] of [
    ['GET', '/v2/models/job'],
    ['GET', '/v1/models/job/metadata'],
    ['POST', '/v2/repository/index'],
  ] as const) {
    asked.length = 0;
    await ask(key, method, path, { model });
    assert.deepEqual(new Set(asked), new Set(['a']), path);
  }
});

test('a request is answered by its side: by the header canary-key, else by its id, and the answer names the version', async () => {
  assert.equal(await ask({}), 'a');
  assert.equal(await ask({ id: 'c-request' }), 'b');
  assert.equal(await ask({ 'canary-key': 'customer' }), 'b');
  assert.equal(await ask({ 'canary-key': 'x', id: 'c-request' }), 'a');
  assert.equal(await ask({ 'canary-key': '', id: 'c-request' }), undefined, 'an empty one is refused');
});
