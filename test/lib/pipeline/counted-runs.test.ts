/** Which deliveries of a record count, and its outcome after too many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, ServingError } from '../../../lib/contract/errors.ts';
import type { Outcome, Runner } from '../../../lib/contract/values.ts';
import { type CountedRecord, type RunCounts, runCounted } from '../../../lib/pipeline/counted-runs.ts';
import type { Deadline } from '../../../lib/pipeline/deadline.ts';
import type { QueuedRecord } from '../../../lib/pipeline/decode.ts';
import { enqueued } from '../../support/enqueue.ts';

const FULL_MS = 27_000;
const OK: Outcome = { ok: true, outputs: [] };
const fails = (code: ErrorCode): Outcome => ({ ok: false, error: new ServingError(code, code) });

/** Counts in memory; `steps` lists what was asked, in order. */
function counter(most: number, before: Readonly<Record<string, number | ServingError>> = {}) {
  const counts = new Map<string, number | ServingError>(Object.entries(before));
  const steps: string[] = [];
  const uris = (records: readonly CountedRecord[]) => records.map(({ uri }) => uri);
  const add = (records: readonly CountedRecord[], change: number) => {
    for (const uri of uris(records)) counts.set(uri, Number(counts.get(uri) ?? 0) + change);
  };
  const runs: RunCounts = {
    most,
    async read(records) {
      return uris(records).map((uri) => counts.get(uri) ?? 0);
    },
    async begin(records) {
      steps.push(`count ${uris(records).join()}`);
      add(records, 1);
    },
    async takeBack(records) {
      steps.push(`take back ${uris(records).join()}`);
      add(records, -1);
    },
  };
  return { runs, counts, steps };
}

function queued(...uris: string[]): QueuedRecord[] {
  return uris.map((uri) => ({
    id: `m-${uri}`,
    uri,
    enqueue: enqueued(uri),
    attempts: 40,
    inputs: new Map([['uri', { kind: 'text', text: uri }]]),
  }));
}

const textsOf = (records: Parameters<Runner['run']>[0]) =>
  records.map((inputs) => {
    const value = inputs.get('uri');
    return value?.kind === 'text' ? value.text : '';
  });

/** An isolated runner: `run` answers or throws for the uris, or undefined for the default. */
function isolated(steps: string[], run: (uris: readonly string[]) => Outcome[] | undefined): Runner {
  return {
    version: 'v',
    run: async () => assert.fail('not isolated'),
    async runIsolated(records) {
      const uris = textsOf(records);
      const ran = run(uris) ?? uris.map(() => OK);
      if (uris.length > 0) steps.push(`run ${uris.join()}`);
      return ran;
    },
    close: async () => undefined,
  };
}

const plenty: Deadline = { remainingMs: () => FULL_MS, fullMs: FULL_MS };
const told = (outcomes: readonly Outcome[]) =>
  outcomes.map((outcome) => (outcome.ok ? 'ok' : outcome.error.code));

test('records are counted before they run, once in a delivery, and taken back when their runs have ended', async () => {
  const { runs, steps } = counter(5);
  const died = () => {
    throw new ServingError('model_failed', 'died');
  };
  const runner = isolated(steps, (uris) => (uris.length > 1 ? died() : undefined));
  const records = queued('a', 'b');
  const { outcomes, settle } = await runCounted(records, runner, plenty, runs);
  assert.deepEqual(told(outcomes), ['ok', 'ok']);
  assert.deepEqual(steps, ['count a,b', 'run a', 'run b']);
  await settle();
  assert.equal(steps.at(-1), 'take back a,b');
});

test('a delivery in which the process does not get ready counts for no record', async () => {
  for (const code of ['timeout', 'model_failed'] as const) {
    const { runs, steps } = counter(5);
    const runner = isolated(steps, () => {
      throw new ServingError(code, 'not ready');
    });
    const { outcomes } = await runCounted(queued('a', 'b'), runner, plenty, runs);
    assert.ok(outcomes.every((outcome) => !outcome.ok && outcome.error.retryable));
    assert.deepEqual(steps, []);
  }
});

test('a record for which no time is left is not counted, and its neighbour that ran is', async () => {
  let leftMs = FULL_MS;
  const { runs, steps } = counter(5, { a: 1, b: 1 });
  const runner = isolated(steps, ([uri]) => {
    if (uri !== 'a') return undefined;
    leftMs = 20;
    throw new ServingError('timeout', 'endless');
  });
  const deadline = { remainingMs: () => leftMs, fullMs: FULL_MS * 2 };
  const { outcomes, settle } = await runCounted(queued('a', 'b'), runner, deadline, runs);
  await settle();
  assert.deepEqual(told(outcomes), ['timeout', 'timeout']);
  assert.deepEqual(steps, ['count a']);
});

test('while Redis is away nothing runs and nothing is counted', async () => {
  const away = new ServingError('results_unavailable', 'away');
  const { runs, steps } = counter(5);
  const runner = isolated(steps, () => undefined);
  const throws = async () => {
    throw away;
  };
  await assert.rejects(runCounted(queued('a'), runner, plenty, { ...runs, read: throws }), away);
  await assert.rejects(runCounted(queued('a'), runner, plenty, { ...runs, begin: throws }), away);
  assert.deepEqual(steps, []);
});

test('a record whose count is not known comes again, and its neighbours run', async () => {
  const { runs, steps } = counter(5, { a: new ServingError('results_unavailable', 'its node is away') });
  const { outcomes } = await runCounted(
    queued('a', 'b'),
    isolated(steps, () => undefined),
    plenty,
    runs,
  );
  assert.deepEqual(told(outcomes), ['results_unavailable', 'ok']);
  assert.deepEqual(steps, ['count b', 'run b']);
});

test('a record with as many runs as are allowed is not run, and ends with how many and where it is', async () => {
  const { runs, steps } = counter(5, { a: 5 });
  const { outcomes, settle } = await runCounted(
    queued('a', 'b'),
    isolated(steps, () => undefined),
    plenty,
    runs,
  );
  assert.deepEqual(told(outcomes), ['max_receives_exceeded', 'ok']);
  assert.match(String(!outcomes[0]?.ok && outcomes[0]?.error.message), /failed 5 times .*archived as m-a/);
  await settle();
  assert.deepEqual(steps, ['count b', 'run b', 'take back b']);
});

test('the last allowed run that gets no outcome ends its record at once, with its last failure', async () => {
  const { runs, steps } = counter(5, { a: 3, b: 4 });
  const runner = isolated(steps, ([uri]) => {
    if (uri === undefined) return undefined;
    throw new ServingError('timeout', 'the model did not end');
  });
  const deadline = { remainingMs: () => FULL_MS, fullMs: FULL_MS * 4 };
  const { outcomes, settle } = await runCounted(queued('a', 'b'), runner, deadline, runs);
  await settle();
  assert.deepEqual(told(outcomes), ['timeout', 'max_receives_exceeded']);
  assert.match(String(!outcomes[1]?.ok && outcomes[1]?.error.message), /at last: the model did not end/);
  assert.deepEqual(steps, ['count a', 'count b']);
});

test('with one run allowed a record never shares it', async () => {
  const { runs, steps } = counter(1);
  await runCounted(
    queued('a', 'b'),
    isolated(steps, () => undefined),
    plenty,
    runs,
  );
  assert.deepEqual(steps, ['count a', 'run a', 'count b', 'run b']);
});

test('after an outage with many deliveries records run together, as after one', async () => {
  const { runs, steps } = counter(5);
  await runCounted(
    queued('a', 'b', 'c'),
    isolated(steps, () => undefined),
    plenty,
    runs,
  );
  assert.deepEqual(steps, ['count a,b,c', 'run a,b,c']);
});

test("where processes are the runner's own, waiting for one in vain is taken back, and a run without an outcome is not", async () => {
  const codes: Record<string, ErrorCode> = { late: 'timeout', gone: 'model_unavailable', odd: 'internal' };
  const runner: Runner = {
    version: 'v',
    run: async (records) => textsOf(records).map((uri) => (codes[uri] ? fails(codes[uri]) : OK)),
    close: async () => undefined,
  };
  const { runs, steps } = counter(2, { late: 1 });
  const first = await runCounted(queued('a', 'late', 'gone', 'odd'), runner, plenty, runs);
  assert.deepEqual(told(first.outcomes), ['ok', 'timeout', 'model_unavailable', 'internal']);
  await first.settle();
  const second = await runCounted(queued('late', 'odd'), runner, plenty, runs);
  assert.deepEqual(told(second.outcomes), ['timeout', 'max_receives_exceeded']);
  assert.deepEqual(steps, ['count a,late,gone,odd', 'take back a,late,gone', 'count late,odd']);
});

test('a runner that gives another number of outcomes answers no record', async () => {
  const { runs } = counter(5);
  const runner: Runner = { version: 'v', run: async () => [OK], close: async () => undefined };
  await assert.rejects(runCounted(queued('a', 'b'), runner, plenty, runs), { code: 'internal' });
});
