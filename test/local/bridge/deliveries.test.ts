/** The fate of an entry of the stream, by the error with which its sending, its removal or its listing ends. */
import assert from 'node:assert/strict';
import { syncBuiltinESMExports } from 'node:module';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ReplyError } from 'ioredis';
import { type ErrorCode, ServingError } from '../../../lib/contract/errors.ts';
import type { DeadEntry, StreamConsumer, StreamEntry } from '../../../lib/redis/stream.ts';
import { Deliveries, isRefusal } from '../../../local/bridge/deliveries.ts';

const redisError = (cause?: Error) =>
  new ServingError('results_unavailable', `Redis: ${cause?.message ?? 'away'}`, { cause });
const reply = (message: string): Error => new ReplyError(message) as Error;

test('Redis has refused what it answered with an error, except for those of a server that changes', () => {
  for (const message of ['WRONGTYPE Operation against a key', 'NOPERM no permissions', 'ERR unknown command'])
    assert.equal(isRefusal(redisError(reply(message))), true, message);
  for (const word of ['READONLY', 'LOADING', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN'])
    assert.equal(isRefusal(redisError(reply(`${word} it is not ready`))), false, word);
  // No answer came.
  assert.equal(isRefusal(redisError(new Error('connect ECONNREFUSED'))), false);
  assert.equal(isRefusal(redisError()), false);
});

const entryOf = (id: string, uri: string | undefined, bytes = 1): StreamEntry => ({
  id,
  fields: new Map(Object.entries({ ...(uri && { uri: Buffer.from(uri) }), data: Buffer.alloc(bytes, 'x') })),
});

/** @param fail the error of a step and what it is about, or undefined when it succeeds */
function open(t: TestContext, fail: (step: 'send' | 'remove' | 'reject', what: string) => Error | undefined) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  // So that modules that imported it by name have it too.
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.timers.reset();
    syncBuiltinESMExports();
  });
  const seen: string[] = [];
  const [stop, state] = [new AbortController(), { maySend: true }];
  const step = async (name: 'send' | 'remove' | 'reject', what: string) => {
    seen.push(`${name} ${what}`);
    const error = fail(name, what);
    if (error) throw error;
  };
  const stream: Pick<StreamConsumer, 'remove' | 'reject'> = {
    remove: (ids) => step('remove', ids.join()),
    reject: (dead: readonly DeadEntry[]) =>
      step('reject', dead.map(({ entry, reason }) => `${entry.id} ${reason}`).join()),
  };
  const deliveries = new Deliveries({
    stream: stream as StreamConsumer,
    send: ({ uri }) => step('send', uri),
    maySend: () => state.maySend,
    warn: (message) => seen.push(`warn ${message}`),
    onMoved: () => seen.push(`moved ${deliveries.enqueued} ${deliveries.dead}`),
    onFailure: (error) => seen.push(`failure ${error.message}`),
    stop: stop.signal,
  });
  /** Collects events until nothing more happens within `ms`. */
  const after = async (ms = 0) => {
    for (let turn = 0; turn < 9; turn++) await setImmediate();
    if (ms > 0) {
      t.mock.timers.tick(ms);
      for (let turn = 0; turn < 9; turn++) await setImmediate();
    }
    return seen.splice(0);
  };
  return { deliveries, after, state, stop };
}

test('an entry is sent, removed and forgotten, and while it is in memory it takes room', async (t) => {
  const { deliveries, after } = open(t, () => undefined);
  deliveries.take([entryOf('1-0', 'a', 100), entryOf('2-0', 'b')]);
  assert.equal(deliveries.room, 254);
  deliveries.take([entryOf('1-0', 'a')]);
  assert.equal(deliveries.room, 254);
  assert.deepEqual(await after(), ['send a', 'send b', 'remove 1-0,2-0', 'moved 2 0']);
  assert.equal(deliveries.room, 256);
  await deliveries.idle();
  assert.deepEqual([deliveries.enqueued, deliveries.dead, deliveries.hasLeftovers], [2, 0, false]);
});

test('entries of 64 MiB in memory leave no room until one of them has left', async (t) => {
  const { deliveries, after } = open(t, () => undefined);
  deliveries.take([entryOf('1-0', undefined, 64 * 1024 * 1024 - 2)]);
  assert.equal(deliveries.room, 255);
  deliveries.take([entryOf('2-0', undefined)]);
  assert.equal(deliveries.room, 254);
  deliveries.take([entryOf('3-0', undefined)]);
  assert.equal(deliveries.room, 0);
  const left = deliveries.left();
  await after();
  await left;
  assert.equal(deliveries.room, 256);
});

const error = (code: ErrorCode) => new ServingError(code, code);

test('what another attempt cannot change, or five did not, is listed as dead with its reason', async (t) => {
  const errors: Record<string, Error> = {
    a: error('bad_request'),
    b: error('bad_input'),
    c: error('too_large'),
    d: redisError(reply('WRONGTYPE Operation against a key')),
    e: new RangeError('unknown'),
  };
  const { deliveries, after } = open(t, (step, uri) => (step === 'send' ? errors[uri] : undefined));
  deliveries.take(Object.keys(errors).map((uri, i) => entryOf(`${i}-0`, uri)));
  const seen = await after();
  assert.deepEqual(
    seen.filter((each) => each.startsWith('reject')),
    ['reject 0-0 bad_request,1-0 bad_input,2-0 too_large,3-0 Redis: WRONGTYPE Operation against a key'],
  );
  // 100, 200, 400 and 800 ms after each other.
  for (const ms of [100, 200, 400]) {
    assert.deepEqual(await after(ms - 1), []);
    assert.deepEqual(await after(1), ['send e']);
  }
  const [sent, rejected, ...rest] = await after(800);
  assert.deepEqual([sent, rejected?.startsWith('reject 4-0 '), rest], ['send e', true, ['moved 0 5']]);
  assert.equal(deliveries.room, 256);
});

test('an outage is warned of once, and of the next one again; entries of another uri are sent meanwhile', async (t) => {
  const down = new Set(['a', 'b']);
  const { deliveries, after } = open(t, (step, uri) =>
    step === 'send' && down.has(uri) ? error('queue_unavailable') : undefined,
  );
  deliveries.take([entryOf('1-0', 'a'), entryOf('2-0', 'a'), entryOf('3-0', 'b'), entryOf('4-0', 'c')]);
  const warning = 'warn queue_unavailable; it is tried again';
  assert.deepEqual(await after(), ['send a', 'send b', 'send c', warning, 'remove 4-0', 'moved 1 0']);
  assert.deepEqual(await after(100), ['send a', 'send b']);
  down.clear();
  assert.deepEqual(await after(200), ['send a', 'send b', 'send a', 'remove 1-0,3-0,2-0', 'moved 4 0']);
  down.add('a');
  deliveries.take([entryOf('5-0', 'a')]);
  assert.deepEqual(await after(), ['send a', warning]);
});

test('an outage that ends with a dead entry is over', async (t) => {
  let errors = [error('queue_unavailable'), error('bad_input'), error('queue_unavailable')];
  const { deliveries, after } = open(t, (step) => (step === 'send' ? errors.shift() : undefined));
  const warning = 'warn queue_unavailable; it is tried again';
  deliveries.take([entryOf('1-0', 'a')]);
  assert.deepEqual(await after(), ['send a', warning]);
  assert.deepEqual(await after(100), ['send a', 'reject 1-0 bad_input', 'moved 0 1']);
  deliveries.take([entryOf('2-0', 'a')]);
  assert.deepEqual(await after(), ['send a', warning]);
  errors = [];
});

test("an error that is neither a record's nor an outage ends the bridge, and the entry stays in the stream", async (t) => {
  const { deliveries, after } = open(t, () => error('bad_config'));
  deliveries.take([entryOf('1-0', 'a')]);
  assert.deepEqual(await after(), ['send a', 'failure bad_config']);
  assert.equal(deliveries.room, 256);
});

test('while another bridge may have taken over nothing is sent, and after it has what waited is left to it', async (t) => {
  const { deliveries, after, state } = open(t, () => undefined);
  state.maySend = false;
  deliveries.take([entryOf('1-0', 'a')]);
  assert.deepEqual(await after(50), []);
  state.maySend = true;
  assert.deepEqual(await after(50), ['send a', 'remove 1-0', 'moved 1 0']);
  state.maySend = false;
  deliveries.take([entryOf('2-0', 'a')]);
  deliveries.abandon();
  assert.equal(deliveries.hasLeftovers, true);
  state.maySend = true;
  assert.deepEqual(await after(50), []);
  assert.equal(deliveries.room, 256);
  deliveries.take([entryOf('2-0', 'a')]);
  assert.deepEqual(await after(), ['send a', 'remove 2-0', 'moved 2 0']);
});

for (const [step, message, entry] of [
  ['remove', 'entries that the queue has cannot be removed', entryOf('1-0', 'a')],
  [
    'reject',
    'entries that cannot be read cannot be listed, and stay in the stream',
    entryOf('1-0', undefined),
  ],
] as const) {
  const calls = (all: readonly string[]) =>
    all.map((each) => each.split(' ')[0]).filter((each) => each !== 'send');

  test(`what Redis refuses to ${step} stays, with one warning until it succeeds, and is not sent again`, async (t) => {
    let refusal: Error | undefined = redisError(reply('NOPERM no'));
    const { deliveries, after } = open(t, (each) => (each === step ? refusal : undefined));
    deliveries.take([entry]);
    const first = await after();
    assert.deepEqual(calls(first), [step, 'warn']);
    assert.equal(first.at(-1), `warn ${message}: Redis: NOPERM no`);
    assert.equal(deliveries.hasLeftovers, true);
    deliveries.take([entry]);
    const again = await after();
    assert.deepEqual([again.length, calls(again)], [1, [step]]);
    refusal = undefined;
    deliveries.take([entry]);
    assert.deepEqual(calls(await after()), [step, 'moved']);
    assert.equal(deliveries.enqueued + deliveries.dead, 1);
    // Nothing is known of it any more, and of another refusal is warned again.
    refusal = redisError(reply('NOPERM no'));
    deliveries.take([entry]);
    const second = await after();
    assert.deepEqual([second.length, calls(second)], [first.length, [step, 'warn']]);
  });

  test(`what fails to ${step} while Redis does not answer is repeated until it succeeds or the bridge stops`, async (t) => {
    let away = [redisError(), redisError(reply('READONLY it is a replica'))];
    const { deliveries, after, stop } = open(t, (each) => (each === step ? away.shift() : undefined));
    deliveries.take([entry]);
    assert.deepEqual(calls(await after()), [step]);
    assert.deepEqual(calls(await after(99)), []);
    assert.deepEqual(calls(await after(1)), [step]);
    assert.deepEqual(calls(await after(200)), [step, 'moved']);
    assert.equal(deliveries.hasLeftovers, false);
    away = [redisError()];
    deliveries.take([entryOf('2-0', entry.fields.has('uri') ? 'a' : undefined)]);
    assert.deepEqual(calls(await after()), [step]);
    stop.abort();
    assert.deepEqual(calls(await after()), ['warn']);
    assert.equal(deliveries.hasLeftovers, true);
    await deliveries.idle();
  });
}
