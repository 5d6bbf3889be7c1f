/**
 * Upgrade in place from ae017ae: today's code runs on what that version left in Redis, S3 and SQS (stored/) and must
 * answer as ae017ae does itself. make-stored.ts makes the data and records the answers.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { JOB_NAMES } from './jobs.ts';
import { ADDED, CHANGED, newCode, RENAMED } from './new-code.ts';
import { QUESTIONS } from './questions.ts';
import { readAnswers, readStored, recordsOf } from './stored.ts';
import { openWorld, type World } from './world.ts';

const stored = await readStored();
const answers = await readAnswers();
let world: World;

before(async () => {
  world = await openWorld(newCode);
});
after(() => world?.close());

/** An answer of ae017ae with the names of today. */
function renamed(answer: unknown): unknown {
  if (typeof answer === 'string') {
    const words = Object.entries(RENAMED);
    return words.reduce((text, [old, now]) => text.replaceAll(`"${old}"`, `"${now}"`), wordOf(answer));
  }
  if (Array.isArray(answer)) return answer.map(renamed);
  if (typeof answer !== 'object' || answer === null) return answer;
  return Object.fromEntries(Object.entries(answer).map(([key, value]) => [wordOf(key), renamed(value)]));
}

function wordOf(word: string): string {
  return RENAMED[word] ?? word;
}

/** An answer of today without what ae017ae did not say yet. */
function withoutAdded(answer: unknown): unknown {
  if (typeof answer === 'string') return ADDED.reduce((text, added) => text.replaceAll(added, ''), answer);
  if (Array.isArray(answer)) return answer.map(withoutAdded);
  if (typeof answer !== 'object' || answer === null) return answer;
  return Object.fromEntries(Object.entries(answer).map(([key, value]) => [key, withoutAdded(value)]));
}

/** A recorded answer with its only tie in the order of today: equal values by their index. */
function ranked(answer: unknown): unknown {
  if (typeof answer === 'string') return answer.replaceAll('[[2,10.0],[1,10.0]]', '[[1,10.0],[2,10.0]]');
  if (Array.isArray(answer)) {
    return JSON.stringify(answer) === '[[2,10],[1,10]]' ? answer.toReversed() : answer.map(ranked);
  }
  if (typeof answer !== 'object' || answer === null) return answer;
  return Object.fromEntries(Object.entries(answer).map(([key, value]) => [key, ranked(value)]));
}

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
    const answer = withoutAdded(JSON.parse(JSON.stringify(await ask(world, stored))));
    assert.ok(name in answers, `no recorded answer to ${name}; run make-stored.ts`);
    assert.deepEqual(answer, changed(name, ranked(renamed(answers[name]))));
  });
}

test('the stored data hold every kind of key, object and message that ae017ae writes', () => {
  const kinds = new Set(stored.redis.map(({ key }) => key.replace(/_(line|kinds|top|text)(:.*)?$/s, '')));
  assert.deepEqual([...kinds].sort(), [
    'cluster-serving',
    'cluster-serving-held',
    'cluster-serving-index',
    'cluster-serving-metrics',
    'cluster-serving-seen',
    'cluster-serving-state',
    'cluster-serving-tokens',
  ]);
  const fields = new Set(stored.redis.flatMap((one) => (one.type === 'hash' ? Object.keys(one.fields) : [])));
  for (const field of [
    'status',
    'value',
    'error',
    'outputs',
    'exact',
    'model',
    'finishedAt',
    'message',
    'until',
  ])
    assert.ok(fields.has(field), `no result has the field ${field}`);
  for (const field of ['payload', 'claims', 'tokens', 'done', 'running', 'left', 'since'])
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
