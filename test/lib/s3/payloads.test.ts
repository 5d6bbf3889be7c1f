/** How much of what an event points at is in memory at once. S3 and the clock stand in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { chunksOf, type Delivered, type Message, type Payloads } from '../../../lib/pipeline/chunks.ts';
import type { Deadline } from '../../../lib/pipeline/deadline.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { PayloadStore } from '../../../lib/s3/payloads.ts';

const MiB = 1024 * 1024;
const TOGETHER = 2 * LIMITS.payloadBytes;

/** An S3 whose objects have `sizes` bytes, generated while they are read, and the requests it got at the same time. */
function store(sizes: Readonly<Record<string, number>>) {
  const seen = { asked: [] as string[], reads: 0, mostReads: 0, bytes: 0, mostBytes: 0 };
  const s3 = {
    async send({ input: { Key, Range } }: { input: { Key: string; Range: string } }) {
      const name = Key.slice('payloads/job/'.length);
      seen.asked.push(name);
      seen.mostReads = Math.max(seen.mostReads, ++seen.reads);
      await new Promise((resolve) => setImmediate(resolve));
      seen.reads--;
      const size = sizes[name];
      if (size === undefined) throw Object.assign(new Error('not there'), { name: 'NoSuchKey' });
      if (size < 0) throw Object.assign(new Error('no'), { name: 'AccessDenied' });
      const bytes = Math.min(size, Number(Range.replace('bytes=0-', '')) + 1);
      seen.bytes += bytes;
      seen.mostBytes = Math.max(seen.mostBytes, seen.bytes);
      return { Body: [Buffer.alloc(bytes, 'x')] };
    },
  } as unknown as S3Client;
  return { reader: new PayloadStore(s3, 'bucket', 'job'), seen };
}

const pointer = (name: string, bytes?: number) => encodePointer(`uri-${name}`, `payloads/job/${name}`, bytes);

const delivered = (bodies: readonly string[], attempts = '1') =>
  bodies.map((body, i) => ({
    messageId: `m-${i}`,
    attributes: { ApproximateReceiveCount: attempts },
    body,
  }));

const ENDLESS = { remainingMs: () => 60_000, fullMs: 60_000 };

/** Runs each chunk of an event; @returns the messages there was no time for, with the reason. */
async function runParts(
  records: readonly Delivered[],
  load: Payloads['resolve'],
  runPart: (part: readonly Message[]) => Promise<void>,
  deadline: Deadline,
) {
  const late: { id: string; error: ServingError }[] = [];
  for await (const chunk of chunksOf(records, { resolve: load }, deadline)) {
    const untimely = chunk.flatMap(({ id, body }) =>
      body instanceof ServingError && body.code === 'timeout' ? [{ id, error: body }] : [],
    );
    if (untimely.length === 0) await runPart(chunk);
    late.push(...untimely);
  }
  return late;
}

/** Runs an event; a part's payloads are let go when it has run. */
async function run(bodies: readonly string[], sizes: Readonly<Record<string, number>>, time = ENDLESS) {
  const { reader, seen } = store(sizes);
  const parts: (readonly Message[])[] = [];
  const late = await runParts(
    delivered(bodies),
    (left) => reader.resolve(left),
    async (part) => {
      parts.push(
        part.map((message) => ({ ...message, body: typeof message.body === 'string' ? '' : message.body })),
      );
      seen.bytes = 0;
    },
    time,
  );
  return { parts, late, seen };
}

const idsOf = (parts: readonly (readonly Message[])[]) => parts.flat().map(({ id }) => id);

for (const [how, said] of [
  ['say their size', true],
  ['do not say their size', false],
] as const) {
  test(`of 40 payloads of 10 MiB whose pointers ${how} never more than 64 MiB are in memory, and their order is kept`, async () => {
    const names = Array.from({ length: 40 }, (_, i) => `p${i}`);
    const sizes = Object.fromEntries(names.map((name) => [name, 10 * MiB]));
    const { parts, late, seen } = await run(
      names.map((name) => pointer(name, said ? 10 * MiB : undefined)),
      sizes,
    );
    assert.ok(seen.mostBytes <= TOGETHER, `${seen.mostBytes} bytes at once`);
    assert.deepEqual(
      idsOf(parts),
      names.map((_, i) => `m-${i}`),
    );
    assert.deepEqual([seen.asked, late], [names, []]);
    assert.ok(parts.length >= 7 && parts.length <= 14, `${parts.length} parts`);
  });
}

test('two payloads of the largest size make a part, a third one does not fit', async () => {
  const sizes = { a: LIMITS.payloadBytes, b: LIMITS.payloadBytes, c: LIMITS.payloadBytes };
  const { parts, seen } = await run([pointer('a'), pointer('b'), pointer('c')], sizes);
  assert.deepEqual(
    parts.map((part) => part.length),
    [2, 1],
  );
  assert.equal(seen.mostBytes, TOGETHER);
});

test('of 1,000 small payloads sixteen at most are asked for at a time, and they are one part', async () => {
  const names = Array.from({ length: 1_000 }, (_, i) => `p${i}`);
  const sizes = Object.fromEntries(names.map((name) => [name, 10]));
  const { parts, seen } = await run(
    names.map((name) => pointer(name, 10)),
    sizes,
  );
  assert.deepEqual([parts.length, seen.mostReads], [1, 16]);
});

test('messages that carry their record are one part, and S3 is not asked', async () => {
  const { parts, seen } = await run(Array<string>(10_000).fill('{"uri":"u"}'), {});
  assert.deepEqual([parts.length, seen.asked], [1, []]);
});

test('a payload that is missing, refused or over what its pointer says fails only its own record', async () => {
  const { reader } = store({ a: 10, refused: -1, liar: 11, b: 10 });
  const bodies = [
    pointer('a', 10),
    pointer('gone', 5),
    pointer('refused'),
    pointer('liar', 10),
    'inline',
    pointer('b'),
  ];
  const resolved = await reader.resolve(bodies);
  const codes = resolved.map((body) => (body instanceof ServingError ? [body.code, body.uri] : body));
  assert.deepEqual(codes, [
    'xxxxxxxxxx',
    ['bad_request', 'uri-gone'],
    ['queue_unavailable', 'uri-refused'],
    ['bad_request', 'uri-liar'],
    'inline',
    'xxxxxxxxxx',
  ]);
});

test('a size that makes no sense is as good as none: the payload is read up to its limit', async () => {
  const { reader, seen } = store({ a: 10 });
  for (const bytes of ['10', -1, 1.5, LIMITS.payloadBytes + 1, 2 ** 40, null, {}]) {
    const body = JSON.stringify({ uri: 'u', pointer: 'payloads/job/a', bytes });
    assert.deepEqual(await reader.resolve([body]), ['xxxxxxxxxx']);
  }
  assert.equal(seen.asked.length, 7);
});

test('a part that would not end in time is not read: its records come again', async () => {
  let leftMs = 10_000;
  const time = {
    // Each part takes 4 s: after two of them the third would be too late.
    remainingMs: () => leftMs,
    fullMs: 10_000,
  };
  const { reader, seen } = store({ a: LIMITS.payloadBytes, b: LIMITS.payloadBytes, c: 1, d: 1 });
  const bodies = ['a', 'b', 'c', 'd'].map((name) => pointer(name, LIMITS.payloadBytes));
  const ran: string[] = [];
  const late = await runParts(
    delivered(bodies),
    async (left) => (await reader.resolve(left)).slice(0, 1),
    async (part) => {
      ran.push(...part.map(({ id }) => id));
      leftMs -= 4_000;
    },
    time,
  );
  assert.deepEqual(ran, ['m-0', 'm-1']);
  assert.deepEqual(
    late.map(({ id, error }) => [id, error.code, error.retryable]),
    [
      ['m-2', 'timeout', true],
      ['m-3', 'timeout', true],
    ],
  );
  assert.ok(seen.asked.length < 8);
});

test('what came back is read and run after what is new, in parts of its own', async () => {
  const { reader } = store({ a: 1, b: 1 });
  const parts: (readonly string[])[] = [];
  const records = [
    ...delivered([pointer('a')], '2'),
    ...delivered([pointer('b')]).map((one) => ({ ...one, messageId: 'new' })),
  ];
  await runParts(
    records,
    (left) => reader.resolve(left),
    async (part) => void parts.push(part.map(({ id }) => id)),
    ENDLESS,
  );
  assert.deepEqual(parts, [['new'], ['m-0']]);
});

test('of an object no more is asked for than its pointer says, and a byte to see that there is more', async () => {
  const { reader, seen } = store({ a: 1_000 });
  const [read] = await reader.resolve([pointer('a', 10)]);
  assert.ok(read instanceof ServingError);
  assert.equal(seen.bytes, 11);
});

test('a record of more than 32 MiB is refused before S3 is asked', async () => {
  const sent: number[] = [];
  const s3 = {
    async send({ input }: { input: { Body: string } }) {
      sent.push(input.Body.length);
      return {};
    },
  } as unknown as S3Client;
  const payloads = new PayloadStore(s3, 'bucket', 'job');
  await assert.rejects(payloads.put('x'.repeat(LIMITS.payloadBytes + 1)), { code: 'too_large' });
  assert.match(await payloads.put('x'.repeat(LIMITS.payloadBytes)), /^payloads\/job\//);
  assert.deepEqual(sent, [LIMITS.payloadBytes]);
});
