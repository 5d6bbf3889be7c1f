import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inputs, Outcome } from '../../lib/contract/values.ts';
import { ServingError } from '../../lib/errors.ts';
import { runSuspects } from '../../lib/pipeline/suspects.ts';
import { keepTime, runTime } from '../../lib/pipeline/time.ts';

type Kind = 'good' | 'endless' | 'deadly' | 'slow';

const FULL_MS = 27_000;
const SLOW_MS = 16_000;
const START_MS = 300;

/** A world with a clock of its own: records by kind, and a process that runs them. */
function world() {
  let nowMs = 0;
  const kinds = new Map<Inputs, Kind>();
  const runs: number[] = [];
  const record = (kind: Kind): Inputs => {
    const made: Inputs = new Map();
    kinds.set(made, kind);
    return made;
  };
  const run = async (records: readonly Inputs[], limitMs: number): Promise<Outcome[]> => {
    runs.push(records.length);
    const what = records.map((each) => kinds.get(each));
    const needMs = START_MS + what.filter((kind) => kind === 'slow').length * SLOW_MS;
    if (what.includes('deadly')) {
      nowMs += START_MS;
      throw new ServingError('model_failed', 'died');
    }
    if (what.includes('endless') || needMs > limitMs) {
      nowMs += limitMs;
      throw new ServingError('timeout', 'late');
    }
    nowMs += needMs;
    return records.map(() => ({ ok: true, outputs: [] }));
  };
  const time = { remainingMs: () => FULL_MS - nowMs, fullMs: FULL_MS };
  /** Ends no later than the function. */
  const verdicts = async (records: readonly Kind[], tries: number) => {
    nowMs = 0;
    const outcomes = await runSuspects(records.map(record), run, time, tries);
    assert.ok(nowMs <= FULL_MS);
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

test('of ten records with three endless ones the seven succeed before five tries are over, and two of the three are found', async () => {
  const { verdicts } = world();
  let waiting: Kind[] = 'endless good endless good good endless good good good good'.split(' ') as Kind[];
  const succeeded: Kind[] = [];
  const failed: Kind[] = [];
  // The first of five deliveries ended with the function.
  for (let tries = 2; tries <= 5; tries++) {
    const found = await verdicts(waiting, tries);
    const now = waiting;
    succeeded.push(...now.filter((_, i) => found[i] === 'ok'));
    failed.push(...now.filter((_, i) => found[i] === 'model_failed'));
    waiting = now.filter((_, i) => found[i] === 'timeout');
  }
  assert.deepEqual(succeeded, Array(7).fill('good'));
  // The third ran out of tries: the dead letters give it its outcome.
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

test('a model that cannot be opened decides nothing about any record', async () => {
  const unavailable = new ServingError('model_unavailable', 'gone');
  const time = { remainingMs: () => FULL_MS, fullMs: FULL_MS };
  await assert.rejects(
    runSuspects([new Map(), new Map()], () => Promise.reject(unavailable), time, 3),
    unavailable,
  );
});

test('a step is not begun when the longest so far would not end in time', () => {
  let leftMs = 1000;
  const isOver = keepTime(() => leftMs);
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
    [runTime(left(3_000)).fullMs, runTime(left(30_000)).fullMs, runTime(left(900_000)).fullMs],
    [2_700, 27_000, 897_000],
  );
  assert.equal(runTime(left(100)).remainingMs(), 90);
});
