/** Dead letters of this version and of earlier ones, which are under `parked/` and say `tries`, as one list. */
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
const today = (id: string) =>
  encodeDeadLetter({
    messageId: id,
    sentAt: 0,
    identity: id,
    replays: 0,
    attempts: 5,
    body: body(id),
  });
const former = (id: string) =>
  JSON.stringify({ messageId: id, sentAt: 0, tries: 3, body: body(`former ${id}`) });

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
    putToday: (id: string) => put(`dead-letters/job/${id}.json`, today(id)),
    putFormer: (id: string) => put(`parked/job/${id}.json`, former(id)),
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

test('dead letters under both prefixes are listed in order, once each, from any id on', async (t) => {
  const { deadLetters, putToday, putFormer } = await open(t);
  for (const id of ['b', 'd', 'both']) await putToday(id);
  for (const id of ['a', 'c', 'both', 'e']) await putFormer(id);
  const all = await listed(deadLetters);
  assert.deepEqual(idsOf(all), ['a', 'b', 'both', 'c', 'd', 'e']);
  for (const [i, id] of idsOf(all).entries())
    assert.deepEqual(idsOf(await listed(deadLetters, id)), idsOf(all.slice(i + 1)));
  const heads = await deadLetters.heads(all);
  assert.deepEqual(
    heads.map((head) => [head?.uri, head?.attempts]),
    [
      ['former a', 3],
      ['b', 5],
      ['both', 5],
      ['former c', 3],
      ['d', 5],
      ['former e', 3],
    ],
  );
  const messages = await deadLetters.messages(['a', 'b', 'both', 'none']);
  assert.deepEqual(
    messages.map((message) => (message instanceof ServingError ? message : message?.attempts)),
    [3, 5, 5, undefined],
  );
});

test('a listing reads at most 4 kB of each file, and finds the uri of a message of 1 MiB there', async (t) => {
  const { s3, deadLetters, put, putToday } = await open(t);
  await putToday('small');
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
    [today('small').length, 4_096],
  );
});

test('two lists of several pages each become one in order', async (t) => {
  const { deadLetters, putToday, putFormer } = await open(t);
  const id = (i: number) => `m-${String(i).padStart(5, '0')}`;
  const ids = Array.from({ length: 2_300 }, (_, i) => id(i));
  // Half a page of one lies within the first page of the other.
  const isToday = (i: number) => i % 3 === 0 || i > 2_000;
  for (let from = 0; from < ids.length; from += 100)
    await Promise.all(
      ids.slice(from, from + 100).map((one, i) => (isToday(from + i) ? putToday(one) : putFormer(one))),
    );
  assert.deepEqual(idsOf(await listed(deadLetters)), ids);
});

test('what is removed is gone from both prefixes', async (t) => {
  const { deadLetters, putToday, putFormer, keys } = await open(t);
  for (const id of ['a', 'both', 'kept']) await putToday(id);
  for (const id of ['b', 'both', 'kept-too']) await putFormer(id);
  await deadLetters.remove(['a', 'b', 'both']);
  assert.deepEqual(await keys(), ['dead-letters/job/kept.json', 'parked/job/kept-too.json']);
  await deadLetters.removeWithPayloads(await listed(deadLetters));
  assert.deepEqual(await keys(), []);
});
