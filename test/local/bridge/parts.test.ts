/** The parts of a bridge: records of entries, its lease, its pauses and what it works on together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { StreamConsumer } from '../../../lib/redis/stream.ts';
import { Gatherer } from '../../../local/bridge/gatherer.ts';
import { Lease } from '../../../local/bridge/lease.ts';
import { longer, stopsWithin } from '../../../local/bridge/pause.ts';
import { countOf, recordOf } from '../../../local/bridge/record.ts';

const entry = (id: string, fields: Readonly<Record<string, string | Buffer>>) => ({
  id,
  fields: new Map(Object.entries(fields).map(([name, value]) => [name, Buffer.from(value)])),
});

test('a record has the fields of its entry, and an identity that sorts as the ids do', () => {
  const ids = ['5-0', '5-10', '5-9', '1700000000000-1', '1700000000000-123456'];
  const identities = ids.map((id) => recordOf(entry(id, { uri: 'u', data: 'd' })).identity);
  assert.deepEqual(identities, [
    'stream-0000000000005-000000',
    'stream-0000000000005-000010',
    'stream-0000000000005-000009',
    'stream-1700000000000-000001',
    'stream-1700000000000-123456',
  ]);
  const record = recordOf(entry('1-1', { uri: 'é', data: 'd', serde: 'stream', other: 'x' }));
  assert.deepEqual([record.uri, record.message], ['é', '{"uri":"é","data":"d","serde":"stream"}']);
  assert.equal(
    recordOf(entry('1-1', { uri: 'u', data: 'd' })).message,
    '{"uri":"u","data":"d","serde":"arrow"}',
  );
  for (const [fields, code, message] of [
    [{ data: 'd' }, 'bad_request', /^uri: /],
    [{ uri: 'u' }, 'bad_request', /^data: expected a text, got nothing$/],
    [{ uri: Buffer.of(0xff), data: 'd' }, 'bad_request', /^uri: expected a text in UTF-8$/],
    [
      { uri: 'u', data: Buffer.alloc(LIMITS.payloadBytes + 1, 'x') },
      'too_large',
      new RegExp(`^data: ${LIMITS.payloadBytes + 1} bytes are over`),
    ],
  ] as const)
    assert.throws(() => recordOf(entry('1-1', fields)), { code, message });
  assert.deepEqual([0, 1, 2].map(countOf), ['0 records', '1 record', '2 records']);
});

test('a pause doubles up to ten seconds, and ends with the bridge', async () => {
  assert.deepEqual([100, 4_999, 5_000, 5_001, 10_000].map(longer), [200, 9_998, 10_000, 10_000, 10_000]);
  const stop = new AbortController();
  assert.equal(await stopsWithin(1, stop.signal), false);
  const waiting = stopsWithin(60_000, stop.signal);
  stop.abort();
  assert.equal(await waiting, true);
  assert.equal(await stopsWithin(1, stop.signal), true);
});

test('what comes meanwhile is worked on together, 256 at a time', async () => {
  const worked: number[] = [];
  const gatherer = new Gatherer<number>(async (items) => void worked.push(items.length));
  await gatherer.idle();
  for (let i = 0; i < 300; i++) gatherer.add(i);
  assert.deepEqual(worked, []);
  await gatherer.idle();
  assert.deepEqual(worked, [256, 44]);
  gatherer.add(1);
  await gatherer.idle();
  assert.deepEqual(worked, [256, 44, 1]);
});

test('a lease is safe for half of its time, and taken from a holder that was silent for the whole', async (t) => {
  let nowMs = 10_000;
  t.mock.method(performance, 'now', () => nowMs);
  let other = '';
  const asked: string[] = [];
  const released: string[] = [];
  const stream: Partial<StreamConsumer> = {
    hold: async (holder, beat, silent) => {
      asked.push(`${holder} ${beat.length} ${silent}`);
      return other;
    },
    release: async (holder) => {
      released.push(holder);
      throw new Error('away');
    },
  };
  const open = (silentMs: number) => new Lease(stream as StreamConsumer, 'me', silentMs);
  assert.deepEqual([open(999).everyMs, open(1_000).everyMs, open(4_000).everyMs], [250, 250, 1_000]);

  const lease = open(4_000);
  assert.equal(lease.isSafe, false);
  assert.equal(await lease.renew(), true);
  for (const [ms, isSafe] of [
    [11_999, true],
    [12_000, false],
  ] as const) {
    nowMs = ms;
    assert.equal(lease.isSafe, isSafe);
  }
  lease.assume(nowMs);
  assert.equal(lease.isSafe, true);
  await lease.release();
  assert.deepEqual([lease.isSafe, released], [false, ['me']]);

  const second = open(4_000);
  other = 'other 1';
  for (const [ms, said, silent] of [
    [20_000, 'other 1', ''],
    [23_999, 'other 1', ''],
    [24_000, 'other 2', 'other 1'],
    [27_999, 'other 2', ''],
    [28_000, 'other 2', 'other 2'],
  ] as const) {
    [nowMs, other] = [ms, said];
    assert.equal(await second.renew(), false);
    assert.equal(asked.at(-1), `me 36 ${silent}`, String(ms));
  }
  assert.equal(second.isSafe, false);
});
