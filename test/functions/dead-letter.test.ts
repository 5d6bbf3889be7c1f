import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { deadLetter } from '../../functions/dead-letter.ts';
import { decodeDeadLetter } from '../../lib/codecs/dead-letter.ts';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import type { FinishedRecord } from '../../lib/pipeline/decode.ts';
import { Replay, type ReplayPlace } from '../../local/console/replay.ts';

type Deps = Parameters<typeof deadLetter>[0];

interface Faults {
  readonly unsaved?: readonly string[];
  readonly refused?: readonly string[];
  /** Those with which Redis fails. */
  readonly lost?: readonly string[];
}

function world({ unsaved = [], refused = [], lost = [] }: Faults = {}) {
  const archived = new Map<string, string>();
  const saved: FinishedRecord[] = [];
  const deps: Deps = {
    archive: async (id, message) => {
      if (refused.includes(id)) throw new Error('S3 is away');
      archived.set(id, message);
    },
    sink: {
      async save(finished) {
        if (finished.some(({ id }) => lost.includes(id))) throw new Error('Redis is away');
        saved.push(...finished);
        return finished.map(({ id }) => id).filter((id) => unsaved.includes(id));
      },
    },
    observers: {},
    attempts: 5,
  };
  return { archived, saved, handle: deadLetter(deps) };
}

const record = (messageId: string, body: string) => ({
  messageId,
  body,
  attributes: { SentTimestamp: '1000', ApproximateReceiveCount: '6' },
});
const event = (...Records: object[]) => ({ Records }) as unknown as SQSEvent;
const idsOf = ({ batchItemFailures }: { batchItemFailures: { itemIdentifier: string }[] }) =>
  batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);

const BODY = '{"uri":"a","data":"","serde":"arrow"}';

test('a dead letter is archived as it was, and its uri fails once', async () => {
  const { archived, saved, handle } = world();
  assert.deepEqual(idsOf(await handle(event(record('m1', BODY)))), []);
  assert.equal((JSON.parse(archived.get('m1') as string) as { body: string }).body, BODY);
  assert.deepEqual(
    saved.map(({ id, uri, outcome }) => [id, uri, outcome.ok]),
    [['m1', 'a', false]],
  );
});

test('a message that SQS gave up has the number of its deliveries; one of a queue with a lower limit that of the setting', async () => {
  const { archived, saved, handle } = world();
  const given = {
    ...record('m2', BODY),
    attributes: { SentTimestamp: '1', ApproximateReceiveCount: '1001' },
  };
  const last = {
    ...record('m3', BODY),
    attributes: { ...given.attributes, ApproximateReceiveCount: '1000' },
  };
  await handle(event(record('m1', BODY), given, last));
  const attempts = [...archived.values()].map((text) => decodeDeadLetter(text).attempts);
  assert.deepEqual(attempts, [5, 1_000, 5]);
  assert.deepEqual(
    saved.map(({ outcome }) => !outcome.ok && outcome.error.message),
    [
      'the record failed 5 times and was archived as m1',
      'the record failed 1000 times and was archived as m2',
      'the record failed 5 times and was archived as m3',
    ],
  );
});

test('a message without a uri is archived, and done', async () => {
  const { archived, saved, handle } = world();
  assert.deepEqual(idsOf(await handle(event(record('m1', 'no JSON')))), []);
  assert.deepEqual([archived.size, saved.length], [1, 0]);
});

test('what could not be archived or saved comes again, and nothing else does', async (t) => {
  t.mock.method(process.stdout, 'write', () => true);
  const { archived, saved, handle } = world({ refused: ['m1'], unsaved: ['m2'] });
  const answer = await handle(event(record('m1', BODY), record('m2', BODY), record('m3', BODY)));
  assert.deepEqual(idsOf(answer), ['m1', 'm2']);
  assert.deepEqual([...archived.keys()], ['m2', 'm3']);
  assert.deepEqual(
    saved.map(({ id }) => id),
    ['m2', 'm3'],
  );
});

test('what could not be archived or saved for an error is logged with its message and trace, and comes again', async (t) => {
  const { saved, handle } = world({ refused: ['m1'], lost: ['m2'] });
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const messageAttributes = { traceparent: { stringValue: `00-${traceId}-b7ad6b7169203331-01` } };
  const lines: Record<string, unknown>[] = [];
  const write = process.stdout.write.bind(process.stdout) as (...given: unknown[]) => boolean;
  // The output of the test runner goes the same way.
  t.mock.method(process.stdout, 'write', (text: unknown, ...rest: unknown[]) => {
    if (!String(text).startsWith('{"level"')) return write(text, ...rest);
    return lines.push(JSON.parse(String(text)) as Record<string, unknown>) > 0;
  });
  const records = ['m1', 'm2', 'm3'].map((id) => ({ ...record(id, BODY), messageAttributes }));
  const answer = await handle(event(...records));
  t.mock.restoreAll();
  assert.deepEqual(idsOf(answer), ['m1', 'm2']);
  assert.deepEqual(
    saved.map(({ id }) => id),
    ['m3'],
  );
  assert.deepEqual(
    lines.map(({ level, messageId, trace_id, stack }) => [
      level,
      messageId,
      trace_id,
      String(stack).match(/\w+ is away/)?.[0],
    ]),
    [
      ['error', 'm1', traceId, 'S3 is away'],
      ['error', 'm2', traceId, 'Redis is away'],
    ],
  );
});

const X = { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(1) } } as const;
const MESSAGE = encodeMessage('a', new Map([['x', X]]));

test('a record that is replayed through the queue is still that of its tenant', async () => {
  const { archived, handle } = world();
  const { attributes, ...tenantless } = record('m1', MESSAGE);
  await handle(event({ ...tenantless, attributes: { ...attributes, MessageGroupId: 'tenant-1' } }));
  const letters = [...archived].map(([, text]) => decodeDeadLetter(text));
  const sent: unknown[] = [];
  const place = {
    job: DEFAULT_JOB,
    deadLetters: { messages: async () => letters, remove: async () => undefined },
    results: undefined,
  };
  const runner = { version: 'v', run: async () => [{ ok: true, outputs: [], value: 1 } as const] };
  const replay = new Replay(place as unknown as ReplayPlace, runner, {
    dryRun: false,
    send: async (_body, { identity }, groupId) => void sent.push([identity, groupId]),
    onFailed: ({ error }) => assert.fail(error),
  });
  await replay.part(['m1']);
  assert.deepEqual(sent, [['m1', 'tenant-1']]);
});
