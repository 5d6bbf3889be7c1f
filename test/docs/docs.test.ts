/** The documents say what the code does: methods, error texts and links. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { indexOf, wordsOf } from '../../docs/reference/generate/llms.ts';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SOURCES = [
  'lib',
  'functions',
  'sdk',
  'onnx-import',
  'release',
  'local',
  'embedded-redis',
  'cli',
  'infra',
];

const OUTSIDE = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'examples/README.md',
  'examples/digits/README.md',
  'examples/worker-python/README.md',
  'examples/worker-onnx/README.md',
  'examples/decentralized/README.md',
];
/** By what a reader wants: to learn, to do, to check what was done, to look up, to understand. */
const FOLDERS = ['tutorial', 'how-to', 'tasks', 'reference', 'explanation'];
const MOST_WORDS = 2_500;

const documents = new Map<string, string>();

before(async () => {
  const docs = (await readdir(join(ROOT, 'docs'), { recursive: true })).filter((name) =>
    name.endsWith('.md'),
  );
  for (const path of [...docs.map((name) => `docs/${name}`), ...OUTSIDE])
    documents.set(path, await readFile(join(ROOT, path), 'utf8'));
});

const REPLACED: readonly string[] = ['constructor', 'toInputs', 'assertTenant', 'send', 'post'];

function section(document: string, heading: string): string {
  const text = documents.get(document) ?? '';
  const start = text.indexOf(`\n## ${heading}\n`);
  assert.notEqual(start, -1, `${document} has no section ${heading}`);
  const end = text.indexOf('\n## ', start + 1);
  return text.slice(start, end === -1 ? undefined : end);
}

for (const [heading, queue] of [
  ['InputQueue', InputQueue],
  ['OutputQueue', OutputQueue],
] as const) {
  test(`docs/reference/sdk.md lists every method of ${heading}, and no other`, () => {
    // Its calls are in the class that it shares with cluster-serving/http, beside what a subclass replaces.
    const base = Object.getPrototypeOf(queue.prototype) as object;
    const methods = Object.entries(Object.getOwnPropertyDescriptors(base)).flatMap(([name, { value }]) =>
      typeof value === 'function' && !REPLACED.includes(name) ? [name] : [],
    );
    const rows = [...section('docs/reference/sdk.md', heading).matchAll(/^\| `(\w+)\(/gm)].map(
      ([, name]) => name,
    );
    assert.deepEqual(new Set(rows), new Set(methods));
  });
}

test('every error text of docs/how-to/debug.md is in the code', async () => {
  const texts: string[] = [];
  for (const folder of SOURCES) {
    const names = await readdir(join(ROOT, folder), { recursive: true });
    for (const name of names.filter((each) => /\.(ts|mjs|cjs)$/.test(each)))
      texts.push(await readFile(join(ROOT, folder, name), 'utf8'));
  }
  // A message is built of literals; what stands between them is named in it, or numbers, or "…" in the document.
  const code = texts
    .join('\n')
    .replaceAll(/\$\{[^}]*\}/g, '\u0000')
    .replaceAll("\\'", "'");
  const rows = [...(documents.get('docs/how-to/debug.md') ?? '').matchAll(/^\| (`.*?`) \| /gm)];
  const told = rows.flatMap(([, cell = '']) => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text));
  assert.ok(told.length > 20);
  for (const text of told) {
    // Parts that come from values: quoted, bracketed, numbers, paths, and omissions of the document.
    const pieces = text
      .split(/…|"[^"]*"|\[[^\]]*\]|(?<!\w)\d[\d,]*|\/\S+|<[^>]*>/)
      .map((piece) => piece.trim());
    const windows = pieces.flatMap((piece) => windowsOf(piece, 3));
    assert.ok(
      windows.some((window) => code.includes(window)),
      `docs/how-to/debug.md: no message says ${JSON.stringify(text)}`,
    );
  }
});

/** Some three words in a row must be in the code literally; the others may come from values. */
function windowsOf(text: string, count: number): string[] {
  const words = text.split(' ');
  if (words.length <= count) return text.length > 5 ? [text] : [];
  return words.slice(count - 1).map((_, i) => words.slice(i, i + count).join(' '));
}

test('every link between the documents leads to a file and a heading that are there', () => {
  let checked = 0;
  for (const path of documents.keys()) {
    for (const { file, anchor } of linksOf(path)) {
      assert.ok(existsSync(join(ROOT, file)), `${path}: ${file}`);
      if (anchor !== undefined) assert.ok(anchorsOf(file).includes(anchor), `${path}: ${file}#${anchor}`);
      checked++;
    }
  }
  assert.ok(checked > 100);
});

test('every page of docs is in one of the five folders, and links lead to it from README.md', () => {
  const reached = new Set(['README.md']);
  // A set can grow while it is walked through.
  for (const path of reached)
    for (const { file } of linksOf(path)) if (documents.has(file)) reached.add(file);
  const pages = [...documents.keys()].filter((path) => path.startsWith('docs/') && path !== 'docs/README.md');
  assert.ok(pages.length > 15);
  for (const page of pages) {
    assert.ok(reached.has(page), `${page}: no link leads to it`);
    assert.ok(
      FOLDERS.includes(page.split('/')[1] as string),
      `${page}: expected a folder of ${FOLDERS.join(', ')}`,
    );
  }
});

test('a page of docs has at most 2,500 words, or is a reference that begins with an index', () => {
  for (const [path, text] of documents) {
    if (!path.startsWith('docs/') || wordsOf(text) <= MOST_WORDS) continue;
    assert.match(path, /^docs\/reference\//, `${path}: ${wordsOf(text)} words`);
    const [beginning = ''] = text.split('\n## ');
    assert.ok(beginning.includes(indexOf(text)), `${path}: no index before its first section`);
  }
});

test('words are counted outside of code and of the targets of links', () => {
  assert.equal(wordsOf('# A title\n\nSee [the page](a/long/target.md) | now.\n```sh\nnpm run it\n```\n'), 6);
});

test('what docs/explanation/when-not-to-use.md says was measured is in docs/explanation/performance.md', () => {
  const measured = section('docs/explanation/when-not-to-use.md', 'What was measured');
  const numbers = [
    ...measured.matchAll(
      /[\d,.]+ ms(?= here| there| and| after|:)|\b\d+(?= requests a second)|\b\d+,\d{3}\b/g,
    ),
  ];
  assert.ok(numbers.length >= 8, String(numbers));
  for (const [number] of numbers)
    assert.ok(documents.get('docs/explanation/performance.md')?.includes(number), number);
});

test('every page of docs that a source file names is there', async () => {
  for (const folder of [...SOURCES, 'bench', 'test']) {
    for (const name of await readdir(join(ROOT, folder), { recursive: true })) {
      if (!/\.(ts|mjs|cjs|yml|md)$/.test(name) || /node_modules|\.installed/.test(name)) continue;
      const text = await readFile(join(ROOT, folder, name), 'utf8');
      for (const [page] of text.matchAll(/(?<![\w/.])docs\/[\w/-]+\.md/g))
        assert.ok(documents.has(page), `${folder}/${name} names ${page}`);
    }
  }
});

function linksOf(path: string): { file: string; anchor: string | undefined }[] {
  const text = (documents.get(path) ?? '').replaceAll(/^```[\s\S]*?^```$/gm, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => {
    if (/^(https?:|mailto:)/.test(target)) return [];
    const [file = '', anchor] = target.split('#');
    return [{ file: file === '' ? path : join(dirname(path), file), anchor }];
  });
}

function anchorsOf(path: string): string[] {
  const text = documents.get(path) ?? '';
  const named = [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id);
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
  return [...named, ...headings];
}
