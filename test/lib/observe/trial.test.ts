/** The counts of a canary's trial, and when they are delivered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { badInput, badModel, ServingError } from '../../../lib/contract/errors.ts';
import type { CanaryShare, Inputs, Outcome, Runner } from '../../../lib/contract/values.ts';
import { trialSums } from '../../../lib/metrics/trial.ts';
import { TrialWatch } from '../../../lib/observe/trial.ts';

const CANARY: CanaryShare = { version: 'b', share: 0.1, since: '2026-11-29T00:00:00.000Z' };
const RECORDS: readonly Inputs[] = [new Map(), new Map(), new Map()];
const OK: Outcome = { ok: true, outputs: [] };
const failed = (error: ServingError): Outcome => ({ ok: false, error });

function watchOf() {
  const clock = { ms: 0 };
  const delivered: (readonly [trial: string, counts: ReadonlyMap<string, number>])[] = [];
  const store = { isAway: false };
  const watch = new TrialWatch({
    now: () => clock.ms,
    async deliver(trial, counts) {
      if (store.isAway) throw new ServingError('results_unavailable', 'away');
      delivered.push([trial, counts]);
    },
  });
  const sums = () => {
    const all = new Map<string, number>();
    for (const [, counts] of delivered)
      for (const [name, count] of counts) all.set(name, (all.get(name) ?? 0) + count);
    return trialSums(all);
  };
  return { clock, delivered, store, watch, sums };
}

function runnerOf(version: string, run: Runner['run'], more: Partial<Runner> = {}): Runner {
  return { version, run, close: async () => undefined, ...more };
}

test('records of the queue count one by one, a request counts once, and only requests are timed', async () => {
  const { clock, watch, sums } = watchOf();
  const outcomes = [OK, failed(badInput('x')), OK];
  const both = async (version: string) => {
    const runner = watch.counted(
      runnerOf(version, async () => {
        clock.ms += 40;
        return outcomes;
      }),
      CANARY,
    );
    assert.deepEqual(await runner.run(RECORDS), outcomes);
    assert.deepEqual(await runner.run(RECORDS, { failFast: true }), outcomes);
  };
  await both('a');
  await both('b');
  await watch.flush();
  const { serving, canary } = sums();
  for (const side of [serving, canary]) {
    assert.equal(side.answers, 2);
    assert.deepEqual(side.failures, new Map([['bad_input', 2]]));
    assert.deepEqual([...side.buckets.values()], [1]);
  }
});

test('what throws counts for each of its records, or once for a request, and goes on', async () => {
  const { watch, sums } = watchOf();
  const error = new ServingError('model_failed', 'x');
  const isolated = async () => {
    throw error;
  };
  const runner = watch.counted(
    runnerOf(
      'b',
      async () => {
        throw error;
      },
      { runIsolated: isolated },
    ),
    CANARY,
  );
  await assert.rejects(runner.run(RECORDS), error);
  await assert.rejects(runner.run(RECORDS, { failFast: true }), error);
  await assert.rejects(Promise.resolve(runner.runIsolated?.(RECORDS, 1)), error);
  await watch.flush();
  assert.deepEqual(sums().canary.failures, new Map([['model_failed', 7]]));
});

test('a client that left, and one that is limited, count for no version', async () => {
  const { watch, sums } = watchOf();
  const codes = ['cancelled', 'rate_limited', 'timeout'] as const;
  const run = async () => codes.map((code) => failed(new ServingError(code, code)));
  await watch.counted(runnerOf('b', run), CANARY).run(RECORDS);
  await watch.flush();
  assert.deepEqual(sums().canary, { answers: 0, failures: new Map([['timeout', 1]]), buckets: new Map() });
});

test('an opening is delivered before it, and its end with the next answer', async () => {
  const { watch, delivered, sums } = watchOf();
  await watch.opening(CANARY);
  assert.equal(delivered.length, 1);
  watch.opened(CANARY, badModel('x'));
  await watch.flush();
  await watch.opening(CANARY);
  watch.opened(CANARY);
  await watch.flush();
  assert.deepEqual(sums().openings, { began: 2, opened: 1, refused: 1 });
});

test('it is delivered at most once a second, kept while the store is away, and dropped with its trial', async () => {
  const { clock, watch, delivered, store, sums } = watchOf();
  const runner = watch.counted(
    runnerOf('b', async () => [OK]),
    CANARY,
  );
  await runner.run(RECORDS);
  await watch.flush();
  await runner.run(RECORDS);
  assert.equal(watch.flush(), undefined);
  clock.ms = 1_000;
  store.isAway = true;
  await watch.flush();
  assert.equal(watch.flush(), undefined, 'not at each answer');
  clock.ms = 40_000;
  store.isAway = false;
  await watch.flush();
  assert.equal(sums().canary.answers, 2);
  await runner.run(RECORDS);
  await watch
    .counted(
      runnerOf('c', async () => [OK]),
      { ...CANARY, version: 'c' },
    )
    .run(RECORDS);
  clock.ms = 80_000;
  await watch.flush();
  const [trial, counts] = delivered.at(-1) ?? assert.fail();
  assert.match(trial, /^c /);
  assert.deepEqual(counts, new Map([['canary|answers', 1]]));
});

test('models with the same canary since the same moment are counted apart, and delivered together', async () => {
  const { watch, delivered } = watchOf();
  const counts = new Map<string | undefined, number>([
    [undefined, 1],
    ['fraud', 2],
    ['twin', 3],
  ]);
  for (const [model, answers] of counts) {
    const of = model === undefined ? watch : watch.ofModel(model);
    const runner = of.counted(
      runnerOf('b', async (records) => records.map(() => OK)),
      CANARY,
    );
    for (let i = 0; i < answers; i++) await runner.run([new Map()]);
  }
  await watch.flush();
  assert.deepEqual(
    delivered.map(([trial, counted]) => [trial, counted.get('canary|answers')]),
    [
      [`b ${CANARY.since}`, 1],
      [`b ${CANARY.since} fraud`, 2],
      [`b ${CANARY.since} twin`, 3],
    ],
  );
  assert.equal(watch.flush(), undefined);
});
