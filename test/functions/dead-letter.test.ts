import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { deadLetter } from '../../functions/dead-letter.ts';
import type { FinishedRecord } from '../../lib/pipeline/decode.ts';

type Deps = Parameters<typeof deadLetter>[0];

function world({ unsaved = [], refused = [] }: { unsaved?: string[]; refused?: string[] } = {}) {
  const archived = new Map<string, string>();
  const saved: FinishedRecord[] = [];
  const deps: Deps = {
    archive: async (id, message) => {
      if (refused.includes(id)) throw new Error('S3 is away');
      archived.set(id, message);
    },
    sink: {
      async save(finished) {
        saved.push(...finished);
        return finished.map(({ id }) => id).filter((id) => unsaved.includes(id));
      },
    },
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
