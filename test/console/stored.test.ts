/** A page of dead letters: how many, in which order, and the reason of each. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { Replay, type ReplayPlace } from '../../local/console/replay.ts';
import { deadLetterPage } from '../../local/console/stored.ts';

interface Head {
  readonly id: string;
  readonly uri?: string;
  readonly archivedAt: number;
  readonly attempts: number;
  readonly bytes: number;
  readonly readable: boolean;
}
const head = (id: number, more: Partial<Head> = {}): Head => ({
  id: `id-${id}`,
  uri: `u${id}`,
  archivedAt: id * 1_000,
  attempts: 3,
  bytes: 7,
  readable: true,
  ...more,
});

type Outcome = { readonly status: string; readonly code?: string; readonly message?: string } | undefined;

/** @param pages heads, or undefined for those that are gone */
function place(
  pages: readonly (readonly (Head | undefined)[])[],
  outcomes?: Readonly<Record<string, Outcome>>,
) {
  const asked: unknown[] = [];
  const deadLetters = {
    pages: async function* (after: string | undefined) {
      asked.push(after);
      yield* pages;
    },
    heads: async (entries: readonly (Head | undefined)[]) => {
      asked.push(entries.length);
      return entries;
    },
  };
  const results = outcomes && {
    outcomes: async (uris: readonly string[]) => {
      asked.push(uris);
      return uris.map((uri) => outcomes[uri]);
    },
  };
  return { asked, place: { deadLetters, results } as unknown as ReplayPlace };
}

const many = (count: number, from = 1) => Array.from({ length: count }, (_, i) => head(i + from));

test('a page has fifty letters, the newest first, and says where the next one begins', async () => {
  for (const [pages, shown, next, heads] of [
    [[many(50)], 50, undefined, [50]],
    [[many(51)], 50, 'id-50', [51]],
    [[many(60)], 50, 'id-50', [51]],
    [[many(30), many(30, 31)], 50, 'id-50', [30, 21]],
    [[many(30), [undefined, ...many(20, 31)]], 50, undefined, [30, 21]],
    [[many(51), many(9, 60)], 50, 'id-50', [51]],
    [[[]], 0, undefined, [0]],
  ] as const) {
    const { asked, place: from } = place(pages);
    const page = await deadLetterPage(from, 'after');
    assert.deepEqual([page.letters.length, page.next, asked], [shown, next, ['after', ...heads]]);
    assert.equal(page.letters[0]?.id, shown === 0 ? undefined : `id-${shown}`);
  }
});

test('the reason of a letter is the error of its uri, or its state, where there is one', async () => {
  const letters = [head(1), head(2), head(3), head(4), { ...head(5, { readable: false }), uri: undefined }];
  const outcomes: Readonly<Record<string, Outcome>> = {
    u1: { status: 'failed', code: 'model_failed', message: 'why' },
    u2: { status: 'failed', code: 'timeout' },
    u3: { status: 'succeeded' },
  };
  const { asked, place: from } = place([letters as Head[]], outcomes);
  const { letters: shown } = await deadLetterPage(from, undefined);
  assert.deepEqual(asked.at(-1), ['u1', 'u2', 'u3', 'u4']);
  assert.deepEqual(
    shown.map(({ reason }) => reason),
    ['the file is not a dead letter', 'no result is stored', 'succeeded', 'timeout: ', 'model_failed: why'],
  );
  assert.deepEqual(shown.at(-1), {
    id: 'id-1',
    uri: 'u1',
    archivedAt: '1970-01-01T00:00:01.000Z',
    attempts: 3,
    bytes: 7,
    reason: 'model_failed: why',
  });
  const without = await deadLetterPage(place([[head(1)]]).place, undefined);
  assert.equal(without.letters[0]?.reason, 'the error is in Redis, which is not reached from here');
});

test('dead letters that are gone by now are passed over, and those of a further model are not run here', async () => {
  const messages = [
    undefined,
    { body: '{}', model: 'fraud' },
    new ServingError('bad_request', 'no dead letter'),
  ];
  const failed: unknown[] = [];
  const from = { job: DEFAULT_JOB, deadLetters: { messages: async () => messages } };
  const runner = {
    version: 'v1',
    run: async (records: readonly unknown[]) => (assert.equal(records.length, 0), []),
  };
  const replay = new Replay(from as unknown as ReplayPlace, runner, {
    dryRun: false,
    send: undefined,
    onFailed: ({ id, error }) => void failed.push([id, error.code]),
  });
  await replay.part(['gone', 'other', 'unread']);
  assert.deepEqual(failed, [
    ['other', 'model_unavailable'],
    ['unread', 'bad_request'],
  ]);
  assert.deepEqual(replay.counts, { succeeded: 0, over: 0, failed: 2 });
});
