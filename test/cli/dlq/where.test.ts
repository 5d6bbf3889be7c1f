import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertRedis, parseWhere } from '../../../cli/dlq/where.ts';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const HOUR = 3_600_000;
const entry = (archivedAt: number, id = 'a') => ({
  id,
  key: `dead-letters/job/${id}.json`,
  bytes: 1,
  archivedAt,
});

test('since is the first moment that counts and until the first that does not', () => {
  const where = parseWhere(['since=2h', 'until=1h'], NOW);
  const moments = [NOW - 2 * HOUR - 1, NOW - 2 * HOUR, NOW - HOUR - 1, NOW - HOUR];
  assert.deepEqual(
    moments.map((at) => where.entry(entry(at))),
    [false, true, true, false],
  );
});

test('only the ids that are given are found', () => {
  const where = parseWhere([], NOW, ['a', 'b']);
  assert.deepEqual(
    ['a', 'b', 'c'].map((id) => where.entry(entry(NOW, id))),
    [true, true, false],
  );
});

test('uri=none finds messages without a uri, a star those that begin so, anything else exactly that', () => {
  const found = (pattern: string, ...uris: (string | undefined)[]) =>
    uris.map((uri) => parseWhere([`uri=${pattern}`], NOW).uri?.(uri));
  assert.deepEqual(found('none', undefined, 'none'), [true, false]);
  assert.deepEqual(found('day1/*', 'day1/a', 'day2/a', undefined), [true, false, false]);
  assert.deepEqual(found('a', 'a', 'ab'), [true, false]);
});

test('a condition that is unknown, empty, given twice or no time is refused', () => {
  for (const texts of [['size=1'], ['uri='], ['uri=a', 'uri=b'], ['since=yesterday']]) {
    assert.throws(() => parseWhere(texts, NOW), { code: 'bad_config' }, texts.join());
  }
});

test('a code can be asked for only where the results are known', () => {
  const where = parseWhere(['code=internal'], NOW);
  assert.throws(() => assertRedis(where, undefined), { code: 'bad_config' });
  assertRedis(where, { outcomes: async () => [] });
  assertRedis(parseWhere([], NOW), undefined);
});
