import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import { deadlineCheck, deadlineOf } from '../../../lib/pipeline/deadline.ts';
import { runRedelivered } from '../../../lib/pipeline/poison-isolation.ts';

type Kind = 'good' | 'endless' | 'deadly' | 'slow';

const FULL_MS = 27_000;
const SLOW_MS = 16_000;
const START_MS = 300;
/** Time of a run without a fault. */
const QUICK_MS = 15;

interface Limits {
  readonly fullMs?: number;
  /** When the process with its model is ready. */
  readonly startMs?: number;
  readonly slowMs?: number;
}

/** A world with a clock of its own: records by kind, and a process that runs them until one of them ends it. */
function world({ fullMs = FULL_MS, startMs = START_MS, slowMs = SLOW_MS }: Limits = {}) {
  let nowMs = 0;
  let isReady = false;
  const kinds = new Map<Inputs, Kind>();
  const runs: number[] = [];
  const record = (kind: Kind): Inputs => {
    const made: Inputs = new Map();
    kinds.set(made, kind);
    return made;
  };
  const took = (ms: number, limitMs: number, code: 'timeout' | 'model_failed' = 'timeout') => {
    isReady = false;
    nowMs += Math.min(ms, limitMs);
    throw new ServingError(code, code === 'timeout' ? 'late' : 'died');
  };
  const run = async (records: readonly Inputs[], limitMs: number): Promise<Outcome[]> => {
    if (records.length > 0) runs.push(records.length);
    const what = records.map((each) => kinds.get(each));
    const openMs = isReady ? 0 : startMs;
    const needMs = openMs + QUICK_MS + what.filter((kind) => kind === 'slow').length * slowMs;
    if (openMs > limitMs || what.includes('endless')) return took(Infinity, limitMs);
    if (what.includes('deadly')) return took(openMs, limitMs, 'model_failed');
    if (needMs > limitMs) return took(needMs, limitMs);
    isReady = true;
    nowMs += needMs;
    return records.map(() => ({ ok: true, outputs: [] }));
  };
  const time = { remainingMs: () => fullMs - nowMs, fullMs };
  /** Ends no later than the function. */
  const verdicts = async (records: readonly Kind[], attempts: number) => {
    nowMs = 0;
    const outcomes = await runRedelivered(records.map(record), run, time, attempts);
    assert.ok(nowMs <= fullMs);
    return outcomes.map((outcome) => (outcome.ok ? 'ok' : outcome.error.code));
  };
  return { verdicts, runs };
}

test('ten records without a fault run at once', async () => {
  const { verdicts, runs } = world();
  assert.deepEqual(await verdicts(Array<Kind>(10).fill('good'), 2), Array(10).fill('ok'));
  assert.deepEqual(runs, [10]);
});

test('one endless record of ten comes again, the nine get their results, wherever it stands', async () => {
  for (let at = 0; at < 10; at++) {
    const records = Array<Kind>(10).fill('good').with(at, 'endless');
    const { verdicts } = world();
    assert.deepEqual(await verdicts(records, 2), Array(10).fill('ok').with(at, 'timeout'));
  }
});

test('of ten records with three endless ones the seven succeed before five attempts are over, and two of the three are found', async () => {
  const { verdicts } = world();
  let waiting: Kind[] = 'endless good endless good good endless good good good good'.split(' ') as Kind[];
  const succeeded: Kind[] = [];
  const failed: Kind[] = [];
  // The first of five deliveries ended with the function.
  for (let attempts = 2; attempts <= 5; attempts++) {
    const found = await verdicts(waiting, attempts);
    const now = waiting;
    succeeded.push(...now.filter((_, i) => found[i] === 'ok'));
    failed.push(...now.filter((_, i) => found[i] === 'model_failed'));
    waiting = now.filter((_, i) => found[i] === 'timeout');
  }
  assert.deepEqual(succeeded, Array(7).fill('good'));
  // The third ran out of attempts: the dead letters give it its outcome.
  assert.deepEqual([failed, waiting], [['endless', 'endless'], ['endless']]);
});

test('a record that ends the process fails at once, its neighbours succeed', async () => {
  const { verdicts } = world();
  assert.deepEqual(await verdicts(['good', 'deadly', 'good'], 2), ['ok', 'model_failed', 'ok']);
});

test('a slow record that needs more than half the time succeeds once it has all of it', async () => {
  const { verdicts } = world();
  assert.deepEqual(await verdicts(['slow'], 2), ['timeout']);
  assert.deepEqual(await verdicts(['slow'], 3), ['ok']);
  assert.deepEqual(await verdicts(['endless'], 3), ['model_failed']);
});

test('where starting the process takes most of the time, good records get their results at every try', async () => {
  for (const startMs of [500, 800, 1_300]) {
    for (const attempts of [2, 3, 4, 5]) {
      const { verdicts } = world({ fullMs: 1_500, startMs });
      assert.deepEqual(await verdicts(Array<Kind>(3).fill('good'), attempts), Array(3).fill('ok'));
    }
  }
});

test('the start of the process is not the time of a record: one that had less than the function gives comes again', async () => {
  // 2,700 ms less the start: the 2,000 it needs are not there, and on its first delivery they are.
  for (const attempts of [2, 3, 4, 5]) {
    const { verdicts } = world({ fullMs: 2_700, startMs: 900, slowMs: 2_000 });
    assert.deepEqual(await verdicts(['slow'], attempts), ['timeout']);
  }
});

test('a process that is not ready in time decides nothing about any record, nor does one that dies before it is', async () => {
  const { verdicts } = world({ fullMs: 1_000, startMs: 2_000 });
  for (const attempts of [2, 3, 4, 5]) {
    assert.deepEqual(await verdicts(['good', 'endless', 'deadly'], attempts), Array(3).fill('timeout'));
  }
  const died = new ServingError('model_failed', 'the model ended its process (SIGKILL)');
  const time = { remainingMs: () => FULL_MS, fullMs: FULL_MS };
  const outcomes = await runRedelivered([new Map(), new Map()], () => Promise.reject(died), time, 3);
  assert.ok(outcomes.every((outcome) => !outcome.ok && outcome.error.code === 'model_unavailable'));
});

test('a model that cannot be opened decides nothing about any record', async () => {
  const unavailable = new ServingError('model_unavailable', 'gone');
  const time = { remainingMs: () => FULL_MS, fullMs: FULL_MS };
  await assert.rejects(
    runRedelivered([new Map(), new Map()], () => Promise.reject(unavailable), time, 3),
    unavailable,
  );
});

test('a step is not begun when the longest so far would not end in time', () => {
  let leftMs = 1000;
  const isOver = deadlineCheck(() => leftMs);
  const after = (ms: number) => {
    leftMs -= ms;
    return isOver();
  };
  assert.deepEqual(
    [isOver(), after(300), after(100), after(200), after(150)],
    [false, false, false, false, true],
  );
});

test('a tenth of the time, at most three seconds, is kept for saving the results', () => {
  const left = (ms: number) => ({ getRemainingTimeInMillis: () => ms });
  assert.deepEqual(
    [deadlineOf(left(3_000)).fullMs, deadlineOf(left(30_000)).fullMs, deadlineOf(left(900_000)).fullMs],
    [2_700, 27_000, 897_000],
  );
  assert.equal(deadlineOf(left(100)).remainingMs(), 90);
});

test('behind an endless record that does not come first, the others still get their turn', async () => {
  const { verdicts } = world();
  assert.deepEqual(await verdicts(['good', 'endless', 'good'], 3), ['ok', 'timeout', 'ok']);
});

test('after a record that ended the process, the start of the next one is not the time of the next record', async () => {
  const { verdicts } = world({ fullMs: 1_500, startMs: 600 });
  assert.deepEqual(await verdicts(['deadly', 'good'], 3), ['model_failed', 'ok']);
});

test('a record that hardly any time is left for does not run', async () => {
  const { verdicts, runs } = world({ fullMs: 100, startMs: 10 });
  assert.deepEqual(await verdicts(['good', 'good'], 3), ['ok', 'timeout']);
  assert.deepEqual(runs, [1]);
});

test('records whose model goes away while they run together are not run alone: nothing is decided', async () => {
  const gone = new ServingError('model_unavailable', 'gone');
  const time = { remainingMs: () => FULL_MS, fullMs: FULL_MS };
  const runs: number[] = [];
  const run = async (records: readonly Inputs[]): Promise<Outcome[]> => {
    runs.push(records.length);
    if (records.length > 1) throw gone;
    return records.map(() => ({ ok: true, outputs: [] }));
  };
  await assert.rejects(runRedelivered([new Map(), new Map()], run, time, 2), gone);
  assert.deepEqual(runs, [0, 2]);
});
