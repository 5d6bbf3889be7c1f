/** What a batcher does when the callers of its requests leave, or may have left. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ServingError } from '../../../lib/contract/errors.ts';
import type { Caller, Inputs, Outcome, RunPolicy } from '../../../lib/contract/values.ts';
import { AdaptiveScheduler } from '../../../lib/pipeline/batch/adaptive-scheduler.ts';
import { Batcher, type BatcherOptions, type BatchRunner } from '../../../lib/pipeline/batch/batcher.ts';
import { FixedScheduler } from '../../../lib/pipeline/batch/scheduler.ts';
import { settled, TestClock } from '../../support/clock.ts';

/** Runs one batch at a time, which the test ends. */
class Held implements BatchRunner {
  readonly version = 'v';
  readonly batches: string[][] = [];
  onFree: () => void = () => undefined;
  #end: (() => void) | undefined;

  get free(): number {
    return this.#end ? 0 : 1;
  }

  run(records: readonly Inputs[]): Promise<Outcome[]> {
    const names = records.map((inputs) => [...inputs.keys()][0] ?? '');
    this.batches.push(names);
    return new Promise((resolve) => {
      this.#end = () => resolve(names.map((value) => ({ ok: true, outputs: [], value })));
    });
  }

  async end(): Promise<void> {
    const end = this.#end;
    this.#end = undefined;
    end?.();
    await settled();
    await settled();
  }

  async close(): Promise<void> {}
}

const clientOf = (): { presence: Caller['presence']; readonly signal: AbortSignal } => ({
  presence: 'waits',
  signal: new AbortController().signal,
});

function open(options: Partial<BatcherOptions> = {}) {
  const clock = new TestClock();
  const runner = new Held();
  const batcher = new Batcher(runner, { scheduler: new FixedScheduler(4), timeoutMs: 0, clock, ...options });
  const codes: Record<string, string> = {};
  const ask = (caller: Caller, ...names: string[]) => {
    const records = names.map((name): Inputs => new Map([[name, { kind: 'json', value: 0 }]]));
    const policy: RunPolicy = { failFast: true, caller };
    const failed = (error: ServingError) => names.map((): Outcome => ({ ok: false, error }));
    void batcher
      .run(records, policy)
      .catch(failed)
      .then((outcomes) =>
        outcomes.forEach((outcome, i) => {
          codes[names[i] ?? ''] = outcome.ok ? 'ok' : outcome.error.code;
        }),
      );
  };
  return { clock, runner, batcher, ask, codes };
}

test('what has not started of a caller who is gone fails at once, and runs that share it lose nothing', async () => {
  const { runner, batcher, ask, codes } = open({ scheduler: new FixedScheduler(4, 6) });
  const [stays, leaves] = [clientOf(), clientOf()];
  ask(stays, 'first');
  ask(leaves, 'a', 'b', 'c', 'd');
  ask(stays, 'e', 'f');
  await runner.end();
  assert.deepEqual(runner.batches[1], ['a', 'e', 'b', 'f']);
  ask(stays, 'g');
  ask(leaves, 'h', 'i', 'j');
  assert.equal(batcher.refuses(), true);
  leaves.presence = 'gone';
  batcher.review();
  assert.equal(batcher.refuses(), false);
  await settled();
  assert.deepEqual(
    [batcher.waiting, codes],
    [1, { first: 'ok', h: 'cancelled', i: 'cancelled', j: 'cancelled' }],
  );
  await runner.end();
  await runner.end();
  assert.deepEqual(runner.batches, [['first'], ['a', 'e', 'b', 'f'], ['g']]);
  assert.deepEqual(
    [codes['a'], codes['d'], codes['e'], codes['f'], codes['g']],
    ['ok', 'cancelled', 'ok', 'ok', 'ok'],
  );
});

test('a caller who may have left waits beside the others, and is served once it is there', async () => {
  const { runner, batcher, ask, codes } = open({ scheduler: new FixedScheduler(4, 2) });
  const [stays, doubtful] = [clientOf(), clientOf()];
  ask(stays, 'first');
  ask(doubtful, 'a', 'b');
  assert.equal(batcher.refuses(), true);
  doubtful.presence = 'doubtful';
  batcher.review();
  assert.equal(batcher.refuses(), false);
  ask(stays, 'c');
  await runner.end();
  await runner.end();
  assert.deepEqual([runner.batches, batcher.waiting], [[['first'], ['c']], 0]);
  doubtful.presence = 'waits';
  batcher.review();
  await settled();
  await runner.end();
  assert.deepEqual(runner.batches[2], ['a', 'b']);
  assert.deepEqual(codes, { first: 'ok', a: 'ok', b: 'ok', c: 'ok' });
});

test('a caller who was doubtful and is gone fails without a run', async () => {
  const { runner, batcher, ask, codes } = open();
  const caller = clientOf();
  ask(clientOf(), 'first');
  ask(caller, 'a');
  caller.presence = 'doubtful';
  batcher.review();
  await settled();
  caller.presence = 'gone';
  batcher.review();
  await settled();
  assert.deepEqual([codes, runner.batches.length], [{ a: 'cancelled' }, 1]);
});

test('clients that leave while all that arrived is read overload nothing, and those that stay do', async () => {
  for (const leaving of [true, false]) {
    const clock = new TestClock();
    const scheduler = new AdaptiveScheduler({ now: clock.now, batchSize: 4, sharesRuns: true });
    const { runner, batcher, ask, codes } = open({ scheduler, nextTurn: (call) => void setImmediate(call) });
    ask(clientOf(), 'first');
    await settled();
    await settled();
    const clients = Array.from({ length: 600 }, clientOf);
    for (const [i, client] of clients.entries()) ask(client, `r${i}`);
    ask(clientOf(), 'good');
    if (leaving) {
      for (const client of clients) client.presence = 'gone';
      batcher.review();
    }
    for (let turn = 0; turn < 4; turn++) await settled();
    const refused = Object.values(codes).filter((code) => code === 'rate_limited').length;
    assert.equal(refused, leaving ? 0 : 601);
    assert.equal(batcher.waiting, leaving ? 1 : 0);
    for (let batch = 0; batch < 3; batch++) await runner.end();
    await settled();
    assert.equal(codes['good'], leaving ? 'ok' : 'rate_limited');
    assert.equal(batcher.refuses(), false);
  }
});
