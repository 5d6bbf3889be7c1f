/** Which requests and records are captured, when they are stored, and what is lost. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { readLine } from '../../../lib/codecs/capture/read.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { jsonValue } from '../../../lib/contract/json-numbers.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { Capture, type CapturedLines, isDrawn } from '../../../lib/observe/capture.ts';
import { quietLog } from '../../support/faults/quiet.ts';

const OK: Outcome = { ok: true, outputs: [] };

function environment(
  t: TestContext,
  options: { isFrozen?: boolean; share?: number; failures?: boolean } = {},
) {
  quietLog(t);
  let now = 0;
  let lost = 0;
  const stored: CapturedLines[] = [];
  let answer: () => Promise<void> = async () => undefined;
  const capture = new Capture({
    share: 1,
    include: [],
    leaveOut: [],
    failures: true,
    isFrozen: true,
    ...options,
    now: () => now,
    onLost: (records) => void (lost += records),
    put: async (lines) => {
      await answer();
      stored.push(lines);
    },
  });
  t.after(() => capture.close());
  const request = (
    id: string,
    outcomes: readonly Outcome[] | ServingError = [OK],
    version = 'v1',
    name?: string,
  ) =>
    capture.recordsAnswered(
      {
        source: 'request',
        model: version,
        id: () => id,
        traceId: undefined,
        policy: {},
        records: [new Map([['x', jsonValue(1)]])],
        outcomes,
      },
      name,
    );
  const many = (count: number) => {
    for (let i = 0; i < count; i++) request(`r${i}`);
  };
  return {
    capture,
    stored,
    request,
    many,
    passes: (ms: number) => void (now += ms),
    answersWith: (answering: () => Promise<void>) => void (answer = answering),
    call: (messages?: number) => capture.functionCalled({ ids: {}, messages, bytes: () => 0 }),
    lostSoFar: () => lost,
    ids: () => stored.flatMap(({ lines }) => lines.map((line) => readLine(line).id)),
  };
}

describe('a frozen environment', () => {
  test('stores 32 requests while the next one is served, and only the answer of that one waits', async (t) => {
    const { call, many, capture, ids, answersWith } = environment(t);
    const blocked = Promise.withResolvers<void>();
    answersWith(() => blocked.promise);
    call();
    many(32);
    assert.equal(capture.flush(), undefined);
    call();
    const flushed = capture.flush();
    assert.ok(flushed);
    assert.deepEqual(ids(), []);
    blocked.resolve();
    await flushed;
    assert.equal(ids().length, 32);
    call();
    assert.equal(capture.flush(), undefined);
  });

  test('stores a few once they are a minute old, at the next call', async (t) => {
    const { call, many, passes, ids } = environment(t);
    many(3);
    passes(59_999);
    call();
    await turn();
    assert.deepEqual(ids(), []);
    passes(1);
    call();
    await turn();
    assert.deepEqual(ids(), ['r0', 'r1', 'r2']);
  });

  test('holds 64 requests at most while they cannot be stored: the others are lost, and counted', async (t) => {
    const { call, many, answersWith, stored, request } = environment(t);
    const blocked = Promise.withResolvers<void>();
    answersWith(() => blocked.promise);
    many(32);
    call();
    many(40);
    blocked.resolve();
    await turn();
    request('later');
    many(31);
    call();
    await turn();
    assert.deepEqual(
      stored.map(({ lines, lost }) => [lines.length, lost]),
      [
        [32, 0],
        [64, 8],
      ],
    );
  });

  test('lets an event of the queue wait until its records are stored', async (t) => {
    const { call, many, capture, ids } = environment(t);
    call(100);
    many(100);
    await capture.flush();
    assert.equal(ids().length, 100);
    call(2);
    many(2);
    assert.equal(capture.flush(), undefined);
  });

  test('loses what S3 refuses, says so, and goes on', async (t) => {
    const { call, many, answersWith, stored, lostSoFar } = environment(t);
    answersWith(() => Promise.reject(new Error('AccessDenied')));
    call(40);
    many(40);
    call();
    await turn();
    answersWith(async () => undefined);
    many(32);
    call();
    await turn();
    assert.deepEqual(
      stored.map(({ lines, lost }) => [lines.length, lost]),
      [[32, 40]],
    );
    assert.equal(lostSoFar(), 40);
  });

  test('never stores the lines of two versions together', async (t) => {
    const { capture, request, stored } = environment(t);
    request('a', [OK], 'v1');
    request('b', [OK], 'v2');
    request('c', [OK], 'v1');
    await capture.close();
    assert.deepEqual(
      stored.map(({ version, lines }) => [version, lines.length]),
      [
        ['v1', 2],
        ['v2', 1],
      ],
    );
  });
});

test('a process that is never frozen stores 32 at once, and all when it closes', async (t) => {
  const { capture, many, ids } = environment(t, { isFrozen: false });
  many(32);
  await turn();
  assert.equal(ids().length, 32);
  many(5);
  await capture.close();
  assert.equal(ids().length, 37);
});

test('failures are captured by their code, and neither those that come again nor those of clients that left', async (t) => {
  const failed = (code: 'bad_input' | 'timeout' | 'cancelled') =>
    new ServingError(code, 'the value "secret" is wrong');
  const { capture, request, stored } = environment(t);
  request('bad', failed('bad_input'));
  request('late', failed('timeout'));
  request('left', failed('cancelled'));
  request('bad record', [{ ok: false, error: failed('bad_input') }]);
  await capture.close();
  const lines = stored.flatMap((one) => one.lines);
  assert.deepEqual(
    lines.map((line) => [readLine(line).id, readLine(line).error]),
    [
      ['bad', 'bad_input'],
      ['bad record', 'bad_input'],
    ],
  );
  assert.ok(!lines.join().includes('secret'));
  const without = environment(t, { failures: false });
  without.request('bad', failed('bad_input'));
  await without.capture.close();
  assert.deepEqual(without.ids(), []);
});

test('the same share of ids is drawn everywhere, and each id always or never', () => {
  const ids = Array.from({ length: 20_000 }, (_, i) => `uri-${i}`);
  const drawn = ids.filter((id) => isDrawn(id, 0.05));
  assert.ok(Math.abs(drawn.length - 1_000) < 150, `${drawn.length}`);
  assert.deepEqual(
    drawn,
    ids.filter((id) => isDrawn(id, 0.05)),
  );
  assert.ok(drawn.every((id) => isDrawn(id, 0.06)));
  assert.ok(ids.every((id) => isDrawn(id, 1)));
});

test('models whose versions have the same name are stored apart, and the limit of what is held is that of all', async (t) => {
  const { capture, request, stored, call, lostSoFar } = environment(t);
  for (const name of [undefined, 'a', 'b'])
    for (let i = 0; i < 20; i++) request(`${name}-${i}`, [OK], 'v1', name);
  call();
  await capture.flush();
  const found = stored.map(({ model, version, lines }) => ({ model, version, lines: lines.length }));
  assert.deepEqual(
    found,
    [undefined, 'a', 'b'].map((model) => ({ model, version: 'v1', lines: 20 })),
  );
  for (const { model, lines } of stored)
    assert.ok(lines.every((line) => readLine(line).id.startsWith(`${model}-`)));
  assert.equal(lostSoFar(), 0);
  for (let i = 0; i < 80; i++) request(`r${i}`, [OK], 'v1', `m${i}`);
  assert.equal(lostSoFar(), 16);
});
