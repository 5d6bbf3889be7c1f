/** Notices that are not delivered: with a clock, and queues that keep their messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import type { Notice } from '../../../lib/contract/notice.ts';
import { deliverer } from '../../../lib/notify/deliver.ts';
import { type NotifierDeps, notifyTargets } from '../../../lib/notify/notifier.ts';
import { encodeObjectEvent, encodeParcel, type Parcel } from '../../../lib/notify/parcels.ts';
import type { Delivery } from '../../../lib/notify/webhook.ts';
import { SECRET } from '../../support/receiver.ts';

const noticeOf = (n: number, target = 'shop'): Notice => ({ id: `msg_${n}`, target, body: `{"n":${n}}` });
const KEY = `outbox/job/${'0'.repeat(64)}.json`;

function world(
  answer: (notice: Notice) => Delivery,
  objects: ReadonlyMap<string, readonly Notice[]> = new Map(),
) {
  const outbox = new Map(objects);
  const paused = new Set<string>();
  const called: string[] = [];
  const later: { parcel: Parcel; seconds: number }[] = [];
  const messages: string[] = [];
  const given: Parcel[] = [];
  const clock = { ms: 1_000_000 };
  const writtenAt = clock.ms;
  const deps: NotifierDeps = {
    outbox: {
      read: async (key) => outbox.get(key),
      remove: async (keys) => keys.forEach((key) => outbox.delete(key)),
      async *pages() {
        yield [...outbox.keys()].map((key) => ({ key, modifiedAt: writtenAt }));
      },
    },
    pauses: {
      isPaused: async (target) => paused.has(target),
      pause: async (target) => void paused.add(target),
    },
    async deliver(notice) {
      called.push(notice.id);
      return answer(notice);
    },
    sendLater: async (text, seconds) => {
      messages.push(text);
      later.push({ parcel: JSON.parse(text) as Parcel, seconds });
    },
    giveUp: async (text) => void given.push(JSON.parse(text) as Parcel),
    now: () => clock.ms,
    random: () => 1,
  };
  const run = (
    bodies: readonly string[],
    leftMs = 60_000,
    own: Partial<NotifierDeps> = {},
    sentAt = clock.ms,
  ) =>
    notifyTargets({ ...deps, ...own })(
      {
        Records: bodies.map((body, i) => ({
          messageId: `m${i}`,
          body,
          attributes: { SentTimestamp: sentAt },
        })),
      } as unknown as SQSEvent,
      { getRemainingTimeInMillis: () => leftMs },
    );
  return { outbox, paused, called, later, messages, given, clock, run };
}

const idsOf = ({ batchItemFailures }: { batchItemFailures: { itemIdentifier: string }[] }) =>
  batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);

test('each notice of an object is delivered once, and the object is removed', async () => {
  const notices = Array.from({ length: 50 }, (_, i) => noticeOf(i));
  const { run, called, outbox, later } = world(() => ({ ok: true }), new Map([[KEY, notices]]));
  assert.deepEqual(idsOf(await run([encodeObjectEvent(KEY)])), []);
  assert.deepEqual(called.toSorted(), notices.map(({ id }) => id).toSorted());
  assert.equal(outbox.size + later.length, 0);
  // The event of S3 comes twice.
  assert.deepEqual(idsOf(await run([encodeObjectEvent(KEY)])), []);
  assert.equal(called.length, 50);
});

const LOOK = '{"look":"outbox"}';

test('an object whose event was lost is put into the queue once it is there for ten minutes, and its notices are delivered', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const { run, called, outbox, messages, clock } = world(
    () => ({ ok: true }),
    new Map([[KEY, [noticeOf(1)]]]),
  );
  assert.deepEqual(idsOf(await run([LOOK])), []);
  assert.deepEqual(messages, []);
  clock.ms += 600_001;
  assert.deepEqual(idsOf(await run([LOOK])), []);
  assert.deepEqual(messages, [encodeObjectEvent(KEY)]);
  assert.deepEqual(called, []);
  await run(messages);
  assert.deepEqual([called, outbox.size], [['msg_1'], 0]);
  // The event of S3 comes after all.
  await run([encodeObjectEvent(KEY)]);
  assert.deepEqual(called, ['msg_1']);
});

test('a look reports 1,000 objects at most, and one that waited for over ten minutes itself reports none', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const objects = Array.from({ length: 1500 }, (_, i) => [`outbox/job/${i}.json`, [noticeOf(i)]] as const);
  const { run, messages, clock } = world(() => ({ ok: true }), new Map(objects));
  const sentAt = clock.ms;
  clock.ms += 600_001;
  await run([LOOK], 60_000, {}, sentAt);
  assert.equal(messages.length, 0);
  await run([LOOK]);
  assert.equal(new Set(messages).size, 1000);
});

test('a look that S3 or the queue does not serve comes again', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const { run, clock } = world(() => ({ ok: true }), new Map([[KEY, [noticeOf(1)]]]));
  clock.ms += 600_001;
  const away = { sendLater: () => Promise.reject(new Error('SQS is away')) };
  assert.deepEqual(idsOf(await run([LOOK], 60_000, away)), ['m0']);
});

test('a failed notice comes again after longer and longer, at most 15 minutes, for a day, and is then given up', async () => {
  const { run, later, given, clock } = world(() => ({ ok: false, reason: 'it answered 500' }));
  const began = clock.ms;
  const waits: number[] = [];
  let next = encodeParcel({ notice: noticeOf(1), attempt: 0 });
  for (;;) {
    await run([next]);
    const last = later.pop();
    if (!last) break;
    waits.push(last.seconds);
    clock.ms += last.seconds * 1000;
    next = encodeParcel(last.parcel);
  }
  assert.deepEqual(waits.slice(0, 7), [5, 15, 45, 135, 405, 900, 900]);
  assert.ok(waits.every((seconds) => seconds <= 900));
  assert.ok(clock.ms - began >= 86_400_000 && clock.ms - began < 86_400_000 + 1_000_000);
  assert.equal(given.length, 1);
  assert.deepEqual(given[0]?.notice, noticeOf(1));
  assert.equal(given[0]?.reason, 'it answered 500');
});

test('a receiver says when to try again, within 15 minutes', async () => {
  for (const [asked, seconds] of [
    [60, 60],
    [1, 5],
    [86_400, 900],
  ] as const) {
    const { run, later } = world(() => ({ ok: false, reason: 'busy', retryAfterSeconds: asked }));
    await run([encodeParcel({ notice: noticeOf(1), attempt: 0 })]);
    assert.equal(later[0]?.seconds, seconds);
  }
});

test('410 pauses the target: its notices are given up without a call, and those of others are delivered', async () => {
  const { run, called, given, paused } = world(({ target }) =>
    target === 'shop' ? { ok: false, reason: 'it answered 410', isGone: true } : { ok: true },
  );
  await run([encodeParcel({ notice: noticeOf(1), attempt: 0 })]);
  assert.deepEqual([...paused], ['shop']);
  await run([2, 3].map((n) => encodeParcel({ notice: noticeOf(n, n === 2 ? 'shop' : 'crm'), attempt: 0 })));
  assert.deepEqual(called, ['msg_1', 'msg_3']);
  assert.deepEqual(
    given.map(({ notice, reason }) => [notice.id, reason]),
    [
      ['msg_1', 'it answered 410'],
      ['msg_2', 'the target is paused'],
    ],
  );
});

test('a target that does not answer is called five times in an event, and the rest of its notices come again', async () => {
  const notices = Array.from({ length: 200 }, (_, i) => noticeOf(i, i % 2 === 0 ? 'shop' : 'crm'));
  const { run, called, later, outbox } = world(
    ({ target }) => (target === 'shop' ? { ok: false, reason: 'no answer', isAway: true } : { ok: true }),
    new Map([[KEY, notices]]),
  );
  assert.deepEqual(idsOf(await run([encodeObjectEvent(KEY)])), []);
  assert.equal(outbox.size, 0);
  assert.equal(later.length, 100);
  const calls = called.filter((id) => Number(id.slice(4)) % 2 === 0).length;
  // As many as were under way when the fifth failed may be more.
  assert.ok(calls >= 5 && calls <= 5 + 16, `${calls} calls`);
  assert.equal(called.length - calls, 100);
});

test('what no time is left for is put into the queue as it is', async () => {
  const { run, called, later } = world(() => ({ ok: true }), new Map([[KEY, [noticeOf(1), noticeOf(2)]]]));
  assert.deepEqual(idsOf(await run([encodeObjectEvent(KEY)], 9_000)), []);
  assert.deepEqual(called, []);
  assert.deepEqual(
    later.map(({ parcel, seconds }) => [parcel.notice.id, parcel.attempt, seconds]),
    [
      ['msg_1', 0, 0],
      ['msg_2', 0, 0],
    ],
  );
});

test('where not even the queue takes what is left, the message comes again and its object stays', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const { run, outbox } = world(() => ({ ok: false, reason: 'no' }), new Map([[KEY, [noticeOf(1)]]]));
  const away = { sendLater: () => Promise.reject(new Error('SQS is away')) };
  const answer = await run(
    [encodeObjectEvent(KEY), encodeParcel({ notice: noticeOf(2), attempt: 0 })],
    60_000,
    away,
  );
  assert.deepEqual(idsOf(answer), ['m0', 'm1']);
  assert.equal(outbox.size, 1);
});

test('messages that are none come again, until SQS moves them; the test of S3 is done', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const { run } = world(() => ({ ok: true }));
  const bodies = [
    'no JSON',
    '{}',
    'null',
    '{"notice":{"id":1}}',
    '{"Records":[{}]}',
    '{"Event":"s3:TestEvent"}',
  ];
  assert.deepEqual(idsOf(await run(bodies)), ['m0', 'm1', 'm2', 'm3', 'm4']);
});

test('a notice for a target that the config does not have is given up at once; one whose secret cannot be read comes again', async () => {
  let calls = 0;
  const deliver = deliverer({
    targets: { shop: { url: 'https://shop.example/', secret: '/shop' } },
    webhooks: { send: async () => ({ ok: (calls++, true) }) },
    sendToAws: () => assert.fail('no target is of AWS'),
    readSecret: async () => (calls === 0 ? Promise.reject(new Error('AccessDenied')) : SECRET),
    now: () => 0,
  });
  assert.deepEqual(await deliver(noticeOf(1, '__proto__')), {
    ok: false,
    isFinal: true,
    reason: "no target __proto__ in the job's config.yaml",
  });
  assert.deepEqual(await deliver(noticeOf(1)), { ok: false, reason: 'AccessDenied' });
  calls = 1;
  assert.deepEqual(await deliver(noticeOf(1)), { ok: true });
});
