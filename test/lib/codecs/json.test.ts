import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseText } from '../../../lib/codecs/json.ts';

/** Long enough, and with enough brackets, that the depth is looked at before it is parsed. */
const many = (item: string) => `[${Array<string>(250_000).fill(item).join(',')}]`;

test('hundreds of thousands of arrays or objects side by side are no depth', () => {
  for (const item of ['[]', '{}', '{"a":[]}']) {
    assert.equal((parseText(many(item)) as unknown[]).length, 250_000, item);
  }
});

test('brackets and escaped quotes within a text are no depth', () => {
  const text = JSON.stringify({ brackets: '['.repeat(200_000), quoted: '"['.repeat(200_000), end: '\\' });
  assert.ok(text.length > (1024 * 1024) / 2);
  const padded = `${text.slice(0, -1)},"pad":"${'x'.repeat(1024 * 1024)}"}`;
  assert.equal((parseText(padded) as { quoted: string }).quoted.length, 400_000);
});

test('a large text is refused when it is nested deeper than any tensor, also behind many texts', () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  const texts = many('"a[b"').slice(0, -1);
  assert.throws(() => parseText(`${texts},${deep}]`), { code: 'too_large' });
});
