/** No part of the product grows unnoticed: each has a budget of lines, which is raised only with a reason in the docs. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

interface Budget {
  readonly folders: readonly string[];
  /** Folders below them that have a budget of their own. */
  readonly without?: readonly string[];
  /** Most lines of TypeScript, as `wc -l` counts them, without tests. */
  readonly lines: number;
  /** What was planned. More needs a sentence in docs/explanation/architecture.md with a folder's name and the number. */
  readonly planned: number;
}

/** What only workers and their clients need. */
const WORKERS = ['lib/workers', 'lib/codecs/values', 'lib/http/worker'];

/** What only models of texts need. */
const TEXTS = ['lib/text', 'convert/text'];

/** What a service says of itself: OpenAPI, and figures for Prometheus. */
const DESCRIPTION = ['lib/openapi', 'lib/metrics/exposition', 'local/description', 'cli/openapi'];

/** Protocols of other servers and their clients. */
const PROTOCOLS = [
  'lib/http/open-inference',
  'lib/codecs/open-inference',
  'lib/http/tensorflow-serving',
  'lib/codecs/tensorflow-serving',
  'local/grpc',
];

const BUDGETS: readonly Budget[] = [
  {
    folders: ['functions', 'lib'],
    without: [...WORKERS, 'lib/text', 'lib/trace', ...DESCRIPTION, ...PROTOCOLS, 'lib/codecs/image'],
    lines: 19_185,
    planned: 11_620,
  },
  { folders: ['lib/trace'], lines: 515, planned: 350 },
  { folders: WORKERS, lines: 3_500, planned: 3_500 },
  { folders: TEXTS, lines: 2_600, planned: 2_600 },
  { folders: DESCRIPTION, lines: 2_250, planned: 1_910 },
  // 1,880 lines of them, of the Open Inference Protocol, JPEG and PNG, are older than the plan for the others.
  { folders: PROTOCOLS, lines: 2_800, planned: 2_250 },
  { folders: ['lib/codecs/image'], lines: 2_870, planned: 2_130 },
  { folders: ['sdk'], lines: 3_390, planned: 1_500 },
  {
    folders: ['local'],
    without: [
      'local/bridge',
      'local/console',
      'local/decentral',
      'local/description',
      'local/grpc',
      'local/worker',
    ],
    lines: 5_340,
    planned: 4_500,
  },
  { folders: ['local/bridge'], lines: 290, planned: 290 },
  { folders: ['local/worker'], lines: 1_330, planned: 350 },
  { folders: ['cli/wkr', 'local/decentral'], lines: 1_800, planned: 900 },
  // The page, and what serves it; the description of the API is in lib/http.
  { folders: ['console', 'local/console', 'cli/console'], lines: 3_900, planned: 3_000 },
  { folders: ['embedded-redis'], lines: 3_300, planned: 3_300 },
  {
    folders: ['cli'],
    without: ['cli/console', 'cli/init', 'cli/openapi', 'cli/wkr'],
    lines: 6_500,
    planned: 5_500,
  },
  { folders: ['cli/init'], lines: 600, planned: 600 },
  { folders: ['infra'], lines: 5_930, planned: 3_500 },
  { folders: ['bench'], lines: 5_930, planned: 5_500 },
  { folders: ['convert/tensorflow'], lines: 11_290, planned: 10_500 },
  { folders: ['convert/caffe'], lines: 3_270, planned: 3_600 },
  { folders: ['convert/pytorch'], lines: 8_970, planned: 4_500 },
  { folders: ['convert/openvino'], lines: 4_430, planned: 2_400 },
  { folders: ['convert/bigdl'], lines: 2_960, planned: 2_200 },
  { folders: ['convert/trees'], lines: 1_310, planned: 1_130 },
  {
    folders: ['convert'],
    without: [
      'convert/tensorflow',
      'convert/caffe',
      'convert/bigdl',
      'convert/openvino',
      'convert/pytorch',
      'convert/trees',
      'convert/text',
    ],
    lines: 13_170,
    planned: 4_500,
  },
];

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ARCHITECTURE = 'docs/explanation/architecture.md';

async function linesOf({ folders, without = [] }: Budget): Promise<number> {
  let lines = 0;
  for (const folder of folders) {
    const names = await readdir(join(ROOT, folder), { recursive: true }).catch(() => []);
    const sources = names
      .map((name) => `${folder}/${name}`)
      .filter((path) => /\.tsx?$/.test(path) && !path.endsWith('.test.ts') && !path.includes('node_modules/'))
      .filter((path) => !without.some((other) => path.startsWith(`${other}/`)));
    for (const path of sources) lines += (await readFile(join(ROOT, path), 'utf8')).split('\n').length - 1;
  }
  return lines;
}

/** The folders of budgets above the plan that no sentence of the text explains. */
function unexplained(budgets: readonly Budget[], text: string): string[] {
  const sentences = text.replaceAll(/\s+/g, ' ').split(/(?<=[.:]) /);
  return budgets
    .filter(({ lines, planned }) => lines > planned)
    .filter(({ folders, lines }) => {
      const number = lines.toLocaleString('en-US');
      return !sentences.some(
        (sentence) =>
          sentence.includes(number) && folders.some((folder) => sentence.includes(`\`${folder}\``)),
      );
    })
    .map(({ folders }) => folders.join(' and '));
}

for (const budget of BUDGETS) {
  const { folders, without = [], lines: most } = budget;
  const rest = without.length > 0 ? ` without ${without.join(' and ')}` : '';
  test(`${folders.join(' and ')}${rest} keep to ${most} lines`, async () => {
    const lines = await linesOf(budget);
    assert.ok(lines > 0);
    assert.ok(
      lines <= most,
      `${lines} lines, ${lines - most} over the budget: delete what is dead or written twice, or raise the budget with a sentence in ${ARCHITECTURE}`,
    );
  });
}

test('a budget above the plan is explained in docs/explanation/architecture.md', async () => {
  assert.deepEqual(unexplained(BUDGETS, await readFile(join(ROOT, ARCHITECTURE), 'utf8')), []);
});

test('a budget above the plan needs a sentence with its folder and its number', () => {
  const budgets = [{ folders: ['a', 'b'], lines: 1_200, planned: 1_000 }];
  const needed = ['a and b'];
  assert.deepEqual(unexplained(budgets, ''), needed);
  assert.deepEqual(unexplained(budgets, '`a` has 1,300 lines.'), needed);
  assert.deepEqual(unexplained(budgets, 'The folder `a` is large. It has 1,200 lines.'), needed);
  assert.deepEqual(unexplained(budgets, 'The folder `c` has 1,200 lines.'), needed);
  assert.deepEqual(unexplained(budgets, 'The folder `b` has\n1,200 lines.'), []);
  assert.deepEqual(unexplained([{ folders: ['a'], lines: 1_000, planned: 1_000 }], ''), []);
});

test('every workspace has a budget', async () => {
  const { workspaces } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    workspaces: readonly string[];
  };
  const held = BUDGETS.flatMap(({ folders }) => folders);
  assert.deepEqual(
    workspaces.filter((folder) => !held.includes(folder)),
    [],
  );
});
