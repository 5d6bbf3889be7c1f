/** How the bridge reads its stream: how much, when it claims what others read, and what it warns of, without a Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReplyError } from 'ioredis';
import { ServingError } from '../../../lib/contract/errors.ts';
import { FIRST, type StreamConsumer, type StreamEntry } from '../../../lib/redis/stream.ts';
import type { Lease } from '../../../local/bridge/lease.ts';
import { Mover } from '../../../local/bridge/mover.ts';

const refused = (word: string) =>
  new ServingError('results_unavailable', `Redis: ${word}`, { cause: new ReplyError(word) as Error });
const away = new ServingError('results_unavailable', 'Redis: away');
const entry = (id: number, bytes = 1): StreamEntry => ({
  id: `${id}-0`,
  fields: new Map([
    ['uri', Buffer.from(`u${id}`)],
    ['data', Buffer.alloc(bytes, 'x')],
  ]),
});

type Step = readonly StreamEntry[] | Error;
interface Script {
  /** The results of the reads; the bridge is stopped in the read after them. */
  readonly reads: readonly Step[];
  readonly claims?: readonly Step[];
  readonly renews?: readonly (boolean | Error)[];
  readonly once?: boolean;
  readonly claimAfterMs?: number;
  readonly everyMs?: number;
}

function open({
  reads,
  claims = [],
  renews = [],
  once = false,
  claimAfterMs = 60_000,
  everyMs = 60_000,
}: Script) {
  const seen: string[] = [];
  const stop = new AbortController();
  const [toRead, toClaim, toRenew] = [[...reads], [...claims], [...renews]];
  const next = (steps: Step[]) => {
    const step = steps.shift() ?? [];
    if (step instanceof Error) throw step;
    return step;
  };
  const stream: Partial<StreamConsumer> = {
    read: async (count, blockMs) => {
      seen.push(`read ${count} ${blockMs}`);
      if (toRead.length === 0) stop.abort();
      return next(toRead) as StreamEntry[];
    },
    claim: async (cursor, count, idleMs) => {
      seen.push(`claim ${cursor} ${count} ${idleMs}`);
      const entries = next(toClaim) as StreamEntry[];
      return { next: toClaim.length > 0 && entries.length > 0 ? `${entries.length}-1` : FIRST, entries };
    },
    forgetConsumers: async (idleMs) => void seen.push(`forget ${idleMs}`),
    createGroup: async (from) => void seen.push(`create ${from}`),
    length: async () => 0,
    remove: async () => undefined,
  };
  const lease: Partial<Lease> = {
    everyMs,
    isSafe: true,
    renew: async () => {
      const step = toRenew.shift() ?? true;
      if (step instanceof Error) throw step;
      return step;
    },
    assume: () => void seen.push('assume'),
    release: async () => void seen.push('release'),
  };
  const warned: string[] = [];
  const sent: string[] = [];
  const options = {
    redisUrl: '',
    stream: 's',
    once,
    claimAfterMs,
    send: async ({ uri }: { uri: string }) => void sent.push(uri),
    warn: (message: string) => void warned.push(message),
  };
  const consumer = stream as StreamConsumer;
  const mover = new Mover({ reader: consumer, stream: consumer }, lease as Lease, options, stop.signal);
  return { mover, seen, warned, sent, stop };
}

test('reads begin with eight entries, double up to 64, and have about 16 MiB', async () => {
  const MiB = 1024 * 1024;
  const small = (count: number) => Array.from({ length: count }, (_, i) => entry(i));
  const reads = [small(1), small(1), small(1), small(1), [entry(1, 8 * MiB)], [entry(2, 20 * MiB)], small(1)];
  const { mover, seen } = open({ reads });
  await mover.run();
  const counts = seen.filter((one) => one.startsWith('read')).map((one) => one.split(' ')[1]);
  assert.deepEqual(counts, ['8', '16', '32', '64', '64', '1', '1', '2']);
});

test('what others read is claimed at the start, page by page, and after a failure, which is warned of once', async () => {
  const { mover, seen, warned, sent } = open({
    reads: [[entry(3)], away, away, [entry(4)]],
    claims: [[entry(1)], [entry(2)]],
  });
  assert.deepEqual(await mover.run(), { enqueued: 4, dead: 0 });
  assert.deepEqual(sent.toSorted(), ['u1', 'u2', 'u3', 'u4']);
  assert.deepEqual(seen, [
    'claim 0-0 8 0',
    'claim 1-1 16 0',
    'forget 60000',
    'read 32 1000',
    'read 64 1000',
    'claim 0-0 64 0',
    'forget 60000',
    'read 64 1000',
    'claim 0-0 64 0',
    'forget 60000',
    'read 64 1000',
    'read 64 1000',
    'release',
  ]);
  assert.deepEqual(warned, ['stream s: Redis: away; it is tried again']);
});

test('what is old is claimed each time its age has passed', async () => {
  const { mover, seen } = open({ reads: [[entry(1)], [entry(2)]], claimAfterMs: 0 });
  await mover.run();
  assert.deepEqual(
    seen.filter((one) => one.startsWith('claim')),
    ['claim 0-0 8 0', 'claim 0-0 16 0', 'claim 0-0 32 0'],
  );
});

test('what Redis refuses each time is warned of once', async () => {
  const no = refused('NOPERM no permissions');
  const { mover, seen, warned } = open({
    reads: [[entry(1)], [entry(2)], [entry(3)]],
    claims: [no, no, no],
    renews: [no, no, no],
    claimAfterMs: 0,
    everyMs: 0,
  });
  assert.deepEqual(await mover.run(), { enqueued: 3, dead: 0 });
  assert.deepEqual(warned, [
    'stream s: the bridge cannot keep other bridges away: Redis: NOPERM no permissions',
    'stream s: what other bridges read cannot be taken over: Redis: NOPERM no permissions',
  ]);
  assert.ok(seen.filter((one) => one === 'assume').length >= 3);
});

test('a stream that is gone is made again without a word, and an error for good ends the bridge', async () => {
  const gone = open({ reads: [refused('NOGROUP No such key'), [entry(1)]] });
  assert.deepEqual(await gone.mover.run(), { enqueued: 1, dead: 0 });
  assert.ok(gone.seen.includes('create 0'));
  assert.deepEqual(gone.warned, []);
  const wrong = open({ reads: [new ServingError('bad_config', 'wrong')] });
  await assert.rejects(wrong.mover.run(), { code: 'bad_config', message: 'wrong' });
  assert.equal(wrong.seen.at(-1), 'release');
});

test('with once a bridge waits for nothing and ends with the stream, also while another holds it', async () => {
  const alone = open({ reads: [[entry(1)], [], []], once: true });
  assert.deepEqual(await alone.mover.run(), { enqueued: 1, dead: 0 });
  assert.deepEqual(alone.seen.slice(2), ['read 8 1', 'read 16 1', 'release']);
  const beside = open({ reads: [], renews: [false], once: true, everyMs: 1 });
  assert.deepEqual(await beside.mover.run(), { enqueued: 0, dead: 0 });
  assert.deepEqual(beside.seen, ['release']);
});

test('a bridge waits no longer than its lease needs it', async () => {
  const { mover, seen } = open({ reads: [[entry(1)]], everyMs: 250.5 });
  await mover.run();
  assert.ok(seen.includes('read 8 250'));
});
