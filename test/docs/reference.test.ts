/** docs/reference says what the code says, because docs/reference/generate writes it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { commentsIn, numberIn, numbersIn, sentences } from '../../docs/reference/generate/comments.ts';
import { errorsTable } from '../../docs/reference/generate/errors.ts';
import { fileOf, MODULES, PAGES, withBlocks } from '../../docs/reference/generate/main.ts';
import { variablesTable } from '../../docs/reference/generate/settings.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { SETTINGS } from '../../lib/config/schema.ts';
import { ERRORS, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';

const sourceOf = (path: string) => readFile(fileOf(path), 'utf8');

for (const [path, blocks] of Object.entries(PAGES)) {
  test(`${path} is what \`npm run docs\` writes`, async () => {
    const page = await sourceOf(path);
    assert.equal(withBlocks(page, await blocks()), page);
  });
}

for (const [path, text] of Object.entries(MODULES)) {
  test(`${path} is what \`npm run docs\` writes`, async () => {
    assert.equal(await sourceOf(path), text());
  });
}

test('a block that is out of date is replaced, and the text around it stays', () => {
  const page = (text: string) =>
    `# Page\n<!-- generated: a -->\n${text}\n<!-- end of generated text -->\nThe end\n`;
  assert.equal(withBlocks(page('old\nlines'), { a: 'new' }), page('new'));
});

test('a page without the markers of a block is refused', () => {
  assert.throws(() => withBlocks('# Page\n', { a: 'new' }), /no block <!-- generated: a -->/);
  assert.throws(() => withBlocks('<!-- generated: a -->\nold\n', { a: 'new' }), /no block/);
});

test('the error reference has a row for every code, with its status, whether to try again, and the fixed message', async () => {
  const rows = errorsTable(await sourceOf('lib/contract/errors.ts'))
    .split('\n')
    .slice(2);
  const read = rows.map((row) => row.split(' | ').map((cell) => cell.replace(/^\| /, '')));
  assert.deepEqual(
    read.map(([code, status, again, message]) => [code, status, again, message]),
    (Object.keys(ERRORS) as (keyof typeof ERRORS)[]).map((code) => {
      const error = new ServingError(code, 'private');
      const isShown = error.publicMessage === 'private';
      const message = isShown ? 'says what is wrong' : `always "${error.publicMessage}"`;
      return [`\`${code}\``, String(error.status), error.retryable ? 'yes' : 'no', message];
    }),
  );
});

test('an error code without a sentence on what to do is refused', async () => {
  const source = await sourceOf('lib/contract/errors.ts');
  const planted = source.replace('Nothing has to be done. ', '');
  assert.notEqual(planted, source);
  assert.throws(() => errorsTable(planted), /cancelled needs a sentence on what to do/);
});

test('the limits reference has a row for every limit, with its value', async () => {
  const page = await sourceOf('docs/reference/limits.md');
  const MiB = 1024 * 1024;
  for (const [name, value] of Object.entries(LIMITS)) {
    const number = value.toLocaleString('en-US');
    const bytes = value % MiB === 0 ? `${value / MiB} MiB` : `${number} bytes`;
    assert.ok(page.includes(`| \`${name}\` | ${name.endsWith('Bytes') ? bytes : number} |`), name);
  }
});

test('every setting has its default in DEFAULT_JOB or in words, and not in both', () => {
  for (const [path, { byDefault }] of SETTINGS) {
    const value = path.split('.').reduce<unknown>((at, key) => Object(at)[key], DEFAULT_JOB);
    assert.equal(value === undefined, byDefault !== undefined, path);
  }
});

test('a variable of a function that no comment names is refused', async () => {
  const source = await sourceOf('lib/config/environment.ts');
  assert.throws(
    () => variablesTable(source.replaceAll(': CLUSTER_SERVING_BUCKET.', '.')),
    /CLUSTER_SERVING_BUCKET/,
  );
});

test('comments are found by the path of their property, over several lines, and only those', () => {
  const source = `
export interface Job {
  /** The first. */
  readonly first?: string;
  readonly silent: number;
  readonly group: {
    /**
     * Two lines
     * of text.
     */
    readonly inner: number;
  };
  /** Behind the group. */
  readonly last: number;
}
/** Of another declaration. */
`;
  assert.deepEqual(
    [...commentsIn(source, 'export interface Job')],
    [
      ['first', 'The first.'],
      ['group.inner', 'Two lines of text.'],
      ['last', 'Behind the group.'],
    ],
  );
  assert.throws(() => commentsIn(source, 'interface None'), /no declaration/);
});

test('a constant has its number and the comment above it; one without is refused', () => {
  const source =
    '/** Bytes of a file. Refused. */\nexport const MAX = 3 * 1_024;\n\nconst BARE = 1;\n/** What. Then. */\nconst POWER = 2 ** 4;\n';
  assert.deepEqual(numberIn(source, 'MAX'), { value: 3072, comment: 'Bytes of a file. Refused.' });
  assert.throws(() => numberIn(source, 'BARE'), /BARE: expected a comment/);
  assert.throws(() => numberIn(source, 'POWER'), /POWER: expected a comment above a product/);
  assert.throws(() => numberIn(source, 'GONE'), /GONE: expected/);
});

test('every constant with a comment and a number is found, and no other', () => {
  const source =
    '/** One. */\nconst FIRST = 2;\n// Two.\nconst BARE = 3;\n/** Three. */\nconst TEXT = "4";\n/**\n * Four. More.\n */\nexport const LAST = 5 * 2;\n';
  assert.deepEqual(numbersIn(source), [
    { name: 'FIRST', value: 2, comment: 'One.' },
    { name: 'LAST', value: 10, comment: 'Four. More.' },
  ]);
});

test('the first sentence ends at a full stop before a capital letter, not within a name or a number', () => {
  assert.deepEqual(sentences('Up to 0.5 of config.yaml. Then more. And more.'), [
    'Up to 0.5 of config.yaml',
    'Then more. And more.',
  ]);
  assert.deepEqual(sentences('One sentence.'), ['One sentence', '']);
});
