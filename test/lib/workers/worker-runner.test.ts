/** What a batch of records becomes by what its process does with it, without a process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import type { RunFailed, RunResult } from '../../../lib/workers/messages.ts';
import type { Pool } from '../../../lib/workers/pool.ts';
import { WorkerEnded, type WorkerProcess } from '../../../lib/workers/process.ts';
import { type WorkerFacts, WorkerRunner } from '../../../lib/workers/worker-runner.ts';
import { TestClock } from '../../support/clock.ts';

type Answer = Pick<RunResult, 'outcomes'> | Pick<RunFailed, 'failed'> | Error;
const fault = (kind: RunFailed['failed']['kind']): Answer => ({
  failed: { kind, type: 'ValueError', message: 'bad item' },
});

const record = (value: unknown): Inputs => new Map([['x', { kind: 'json', value }]]);

/** @param answers what becomes of each batch in turn; what follows is given back as it came */
function scene(answers: readonly Answer[], facts: Partial<WorkerFacts> = {}) {
  const clock = new TestClock();
  const batches: unknown[][] = [];
  const seen: unknown[] = [];
  const killed: string[] = [];
  const next = answers.values();
  const process = {
    async run(items: readonly unknown[]) {
      batches.push([...items]);
      clock.leap(7);
      const answer = next.next().value ?? { outcomes: items.map((value) => ({ value })) };
      if (answer instanceof Error) throw answer;
      return { type: 'result', id: 1, statistics: { s: [1] }, ...answer };
    },
    kill: (why: string) => void killed.push(why),
  } as unknown as WorkerProcess;
  const pool = {
    use: (work: (process: WorkerProcess) => Promise<unknown>) => work(process),
    free: 3,
    close: async () => void seen.push('closed'),
  } as unknown as Pool<WorkerProcess>;
  const runner = new WorkerRunner({
    version: 'v',
    pool,
    facts: () => ({ transferProto: 'obj', imageAs: 'bytes', retryAlone: true, ...facts }),
    predictTimeoutMs: 100,
    clock,
    runEnded: ({ records, tookMs, samples }) => seen.push([records, tookMs, samples]),
  });
  const run = async (values: readonly unknown[], isOver?: () => boolean) =>
    (await runner.run(values.map(record), isOver && { isOver })).map(said);
  return { runner, pool, clock, batches, seen, killed, run };
}

const said = (outcome: Outcome) =>
  outcome.ok ? outcome.value : `${outcome.error.code}: ${outcome.error.message}`;

const FAILED = 'model_failed: ValueError: bad item';
const ENDED = "model_failed: the worker's process ended (exit code 1)";
const LATE = 'timeout: the function had no time left for this record';
const hadBatch = new WorkerEnded('exit code 1');
const hadNone = new WorkerEnded('exit code 1', false);

const fiveOf = <T>(one: T): T[] => Array.from({ length: 5 }, () => one);

test('a batch is run together, and again one by one where that may help', async () => {
  const ab = ['a', 'b'];
  for (const [what, answers, facts, values, expected, batches] of [
    ['it succeeds', [], {}, ab, ab, [ab]],
    ['it raises', [fault('raised')], {}, ab, ab, [ab, ['a'], ['b']]],
    [
      'it raises, and one of it alone',
      [fault('raised'), fault('raised')],
      {},
      ab,
      [FAILED, 'b'],
      [ab, ['a'], ['b']],
    ],
    ['it raises alone', [fault('raised')], {}, ['a'], [FAILED], [['a']]],
    [
      'it raises, and may not be asked again',
      [fault('raised')],
      { retryAlone: false },
      ab,
      [FAILED, FAILED],
      [ab],
    ],
    ['it has another length', [fault('length')], {}, ab, [FAILED, FAILED], [ab]],
    ['it is no list', [fault('shape')], {}, ab, [FAILED, FAILED], [ab]],
    ['its process ends', [hadBatch], {}, ab, ab, [ab, ['a'], ['b']]],
    ['its process ends alone', [hadBatch], {}, ['a'], [ENDED], [['a']]],
    ['its process had ended', [hadNone, hadNone], {}, ['a'], ['a'], [['a'], ['a'], ['a']]],
    ['its processes had ended five times', fiveOf(hadNone), {}, ['a'], [ENDED], fiveOf(['a'])],
    ['an item cannot be sent', [new TypeError('items[0]')], {}, ab, ab, [ab, ['a'], ['b']]],
    [
      'the only item cannot be sent',
      [new RangeError('too large')],
      {},
      ['a'],
      ['model_failed: too large'],
      [['a']],
    ],
    [
      'an item failed',
      [{ outcomes: [{ error: { type: 'KeyError', message: '' } }, { value: 1 }] }],
      {},
      ab,
      ['model_failed: KeyError', 1],
      [ab],
    ],
    ['there is none', [], {}, [], [], []],
  ] as [string, Answer[], Partial<WorkerFacts>, unknown[], unknown[], unknown[]][]) {
    const { run, batches: ran, clock } = scene(answers, facts);
    assert.deepEqual(await run(values), expected, what);
    assert.deepEqual(ran, batches, what);
    assert.equal(clock.pending, 0, what);
  }
});

test('an error of the service itself is no outcome', async () => {
  const { run } = scene([new Error('the pool is broken')]);
  await assert.rejects(run(['a']), /the pool is broken/);
});

test('an item that cannot be read fails alone, before its batch', async () => {
  const { runner, batches } = scene([], { transferProto: 'npy' });
  const outcomes = await runner.run([record('text'), record([1, 2])]);
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.ok ? outcome.outputs[0]?.data : outcome.error.code)),
    ['bad_input', Float32Array.of(1, 2)],
  );
  assert.equal(batches[0]?.length, 1);
});

test('what has no time left is not begun, also of a batch that runs one by one', async () => {
  const never = scene([]);
  assert.deepEqual(await never.run(['a', 'b'], () => true), [LATE, LATE]);
  assert.deepEqual([never.batches, never.seen], [[], []]);
  const late = scene([fault('raised')]);
  assert.deepEqual(await late.run(['a', 'b', 'c'], () => late.batches.length >= 2), ['a', LATE, LATE]);
  assert.deepEqual(late.batches, [['a', 'b', 'c'], ['a']]);
});

test('each answered batch is counted with its size, time and statistics, and a run has a limit', async () => {
  const { run, seen, runner, pool, clock, killed } = scene([fault('raised'), hadBatch]);
  await run(['a', 'b']);
  assert.deepEqual(seen, [
    [2, 7, { s: [1] }],
    [1, 7, { s: [1] }],
  ]);
  const use = pool.use.bind(pool);
  pool.use = (work) =>
    use(async (process) =>
      work({ kill: (why: string) => process.kill(why), run: () => new Promise(() => undefined) } as never),
    );
  void run(['endless']);
  await clock.advance(99);
  assert.deepEqual(killed, []);
  await clock.advance(1);
  assert.deepEqual(killed, ['predict did not end within 100 ms']);
  const onFree = () => undefined;
  runner.onFree = onFree;
  await runner.close();
  assert.deepEqual([runner.version, runner.free, pool.onFree, seen.at(-1)], ['v', 3, onFree, 'closed']);
});
