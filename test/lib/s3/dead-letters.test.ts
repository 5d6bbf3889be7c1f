/** Dead letters are listed page by page, read by their first bytes, and removed. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { encodeDeadLetter } from '../../../lib/codecs/dead-letter.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { type DeadLetterEntry, DeadLetters } from '../../../lib/s3/dead-letters.ts';
import { putText } from '../../../lib/s3/objects.ts';
import { listPages } from '../../../lib/s3/pages.ts';
import { startAws } from '../../../local/aws/aws.ts';

const BUCKET = 'bucket';
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const body = (uri: string) => `{"uri":"${uri}","data":""}`;
const letterOf = (id: string) =>
  encodeDeadLetter({
    messageId: id,
    sentAt: 0,
    identity: id,
    replays: 0,
    attempts: 5,
    body: body(id),
  });

async function open(t: TestContext) {
  const aws = await startAws({ port: 0, log: quiet });
  t.after(() => aws.close());
  await aws.createBucket(BUCKET);
  const deadLetters = new DeadLetters(aws.s3, BUCKET, 'job');
  const put = (key: string, text: string) => putText(aws.s3, { bucket: BUCKET, key }, text);
  return {
    s3: aws.s3,
    deadLetters,
    put,
    putLetter: (id: string) => put(`dead-letters/job/${id}.json`, letterOf(id)),
    keys: async () => {
      const keys: string[] = [];
      for await (const page of listPages(aws.s3, BUCKET, '')) keys.push(...page.map(({ key }) => key));
      return keys;
    },
  };
}

async function listed(deadLetters: DeadLetters, after?: string): Promise<DeadLetterEntry[]> {
  const entries: DeadLetterEntry[] = [];
  for await (const page of deadLetters.pages(after)) entries.push(...page);
  return entries;
}

const idsOf = (entries: readonly DeadLetterEntry[]) => entries.map(({ id }) => id);

test('dead letters are listed in order, from any id on', async (t) => {
  const { deadLetters, putLetter } = await open(t);
  for (const id of ['b', 'd', 'a', 'c']) await putLetter(id);
  const all = await listed(deadLetters);
  assert.deepEqual(idsOf(all), ['a', 'b', 'c', 'd']);
  for (const [i, id] of idsOf(all).entries())
    assert.deepEqual(idsOf(await listed(deadLetters, id)), idsOf(all.slice(i + 1)));
  const heads = await deadLetters.heads(all);
  assert.deepEqual(
    heads.map((head) => [head?.uri, head?.attempts]),
    ['a', 'b', 'c', 'd'].map((uri) => [uri, 5]),
  );
  const messages = await deadLetters.messages(['a', 'none', 'b']);
  assert.deepEqual(
    messages.map((message) => (message instanceof ServingError ? message : message?.attempts)),
    [5, undefined, 5],
  );
});

test('a listing reads at most 4 kB of each file, and finds the uri of a message of 1 MiB there', async (t) => {
  const { s3, deadLetters, put, putLetter } = await open(t);
  await putLetter('small');
  const message = JSON.stringify({ uri: 'large', data: 'x'.repeat(1_000_000) });
  const letter = { messageId: 'large', sentAt: 7, identity: 'large', replays: 0, attempts: 5, body: message };
  await put('dead-letters/job/large.json', encodeDeadLetter(letter));
  const read: number[] = [];
  s3.middlewareStack.add(
    (next) => async (args) => {
      const reply = await next(args);
      if ('ContentLength' in reply.output) read.push(Number(reply.output.ContentLength));
      return reply;
    },
    { step: 'initialize' },
  );
  const heads = await deadLetters.heads(await listed(deadLetters));
  assert.deepEqual(
    heads.map((head) => [head?.uri, head?.sentAt]),
    [
      ['large', 7],
      ['small', 0],
    ],
  );
  assert.deepEqual(
    read.sort((one, other) => one - other),
    [letterOf('small').length, 4_096],
  );
});

test('a list of several pages is in order', async (t) => {
  const { deadLetters, putLetter } = await open(t);
  const ids = Array.from({ length: 2_300 }, (_, i) => `m-${String(i).padStart(5, '0')}`);
  for (let from = 0; from < ids.length; from += 100)
    await Promise.all(ids.slice(from, from + 100).map(putLetter));
  assert.deepEqual(idsOf(await listed(deadLetters)), ids);
});

test('what is removed is gone, and nothing else', async (t) => {
  const { deadLetters, putLetter, keys } = await open(t);
  for (const id of ['a', 'b', 'kept']) await putLetter(id);
  await deadLetters.remove(['a', 'b']);
  assert.deepEqual(await keys(), ['dead-letters/job/kept.json']);
  await deadLetters.removeWithPayloads(await listed(deadLetters));
  assert.deepEqual(await keys(), []);
});
