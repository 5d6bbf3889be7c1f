/**
 * Upgrade in place: today's code runs on what the previous landed version left in Redis, S3 and SQS, and must answer as that
 * version does itself. keep.ts makes the data and records the answers.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as code from './code.ts';
import { JOB_NAMES } from './jobs.ts';
import { readKept } from './kept.ts';
import { QUESTIONS } from './questions.ts';
import { recordsOf } from './stored.ts';
import { openWorld, type World } from './world.ts';

/** Answers that this version changed on purpose, by question. Empty it when keep.ts has kept the version that changed them. */
const CHANGED: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {};

const { stored, answers, commit } = await readKept();
let world: World;

before(async () => {
  world = await openWorld(code);
});
after(() => world?.close());

/** A recorded answer with what this version answers otherwise on purpose. */
function changed(name: string, answer: unknown): unknown {
  for (const key of Object.keys(CHANGED[name] ?? {})) {
    assert.ok(key in (answer as object), `${name} has no answer to ${key}`);
  }
  return CHANGED[name] ? { ...(answer as object), ...CHANGED[name] } : answer;
}

for (const { name, title, ask } of QUESTIONS) {
  test(title, async () => {
    await world.restore(stored);
    const answer: unknown = JSON.parse(JSON.stringify(await ask(world, stored)));
    assert.ok(name in answers, `${commit} has no answer to ${name}`);
    assert.deepEqual(answer, changed(name, answers[name]));
  });
}

test('the stored data hold every kind of key, object and message that a version writes', () => {
  const kinds = new Set(stored.redis.map(({ key }) => key.replace(/_(line|kinds|top|text)(:.*)?$/s, '')));
  assert.deepEqual([...kinds].sort(), [
    'cluster-serving',
    'cluster-serving-held',
    'cluster-serving-index',
    'cluster-serving-metrics',
    'cluster-serving-newest',
    'cluster-serving-seen',
    'cluster-serving-state',
    'cluster-serving-tokens',
  ]);
  const fields = new Set(stored.redis.flatMap((one) => (one.type === 'hash' ? Object.keys(one.fields) : [])));
  for (const field of ['status', 'value', 'error', 'outputs', 'exact', 'model', 'finishedAt', 'identity'])
    assert.ok(fields.has(field), `no result has the field ${field}`);
  for (const field of ['payload', 'last', 'pending', 'runs', 'done', 'running', 'left', 'since'])
    assert.ok(fields.has(field), `no key has the field ${field}`);
  const statuses = stored.redis.flatMap((one) => (one.type === 'hash' ? [one.fields['status']] : []));
  for (const status of ['cancelled', 'failed', 'succeeded'])
    assert.ok(statuses.includes(status), `no result is ${status}`);
  const objects = new Set(
    stored.objects.map(({ key }) => key.replace(/^(\w+)\/\w+\/(\w+(?=\/)|.*$).*/s, '$1 $2')),
  );
  for (const kind of ['models current.json', 'models manifests', 'models versions', 'models text.onnx'])
    assert.ok(objects.has(kind), `no object is of the kind ${kind}`);
  const messages = stored.events.flatMap(recordsOf);
  const deliveries = messages.map(({ attributes }) => attributes.ApproximateReceiveCount);
  assert.deepEqual([...new Set(deliveries)].sort(), ['1', '2', '3', '5']);
  for (const mark of ['"serde":"safetensors"', '"serde":"stream"', '"serde":"arrow"', '"pointer":'])
    assert.ok(
      messages.some(({ body }) => body.includes(mark)),
      `no message has ${mark}`,
    );
});

test('the recorded answers agree with numbers computed by hand', () => {
  const { answers: queried } = answers['query'] as {
    answers: Record<string, { result: { outputs: Record<string, string> }; status: string }>;
  };
  const expected = Array.from({ length: 12 }, (_, i) => (3 * i) / 2 + 1).join(' ');
  assert.equal(queried['line: dense']?.result.outputs['y'], `float32 [3,2,2] ${expected}`);
  const large = 3n * (2n ** 55n + 1n);
  assert.equal(queried['kinds: kinds']?.result.outputs['int64'], `int64 [3] 0 ${2n ** 55n + 1n} ${large}`);
  assert.equal(queried['text: words']?.result.outputs['same'], 'string [2] "grüße" "a|b"');
  const { 'line: get dense': got } = answers['requests'] as Record<string, { body: string }>;
  assert.match(
    got?.body ?? '',
    /"data":\[1\.0,2\.5,4\.0,5\.5,7\.0,8\.5,10\.0,11\.5,13\.0,14\.5,16\.0,17\.5\]/,
  );
  assert.deepEqual(
    JOB_NAMES.filter((job) => !Object.keys(queried).some((name) => name.startsWith(`${job}: `))),
    [],
  );
});
