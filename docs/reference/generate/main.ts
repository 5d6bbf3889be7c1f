/**
 * Writes what the code defines into the pages of docs, between markers, and the defaults of settings into a
 * module for functions: `npm run docs`. A test fails when one of them is out of date.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { COMMANDS, HELP } from '../../../cli/main.ts';
import { WKR_COMMANDS } from '../../../cli/wkr/main.ts';
import { redisKindsTable } from '../../../infra/doctor/kinds.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { supported, supportedOpsText } from '../../../onnx-import/index.ts';
import { defaultsModule } from './defaults.ts';
import { errorsTable } from './errors.ts';
import { limitsTable, OTHERS, otherLimitsTable } from './limits.ts';
import { indexOf, llmsFullText, llmsText } from './llms.ts';
import { openApiText } from './openapi.ts';
import { operationsTable } from './operations.ts';
import { billionText, storesTable } from './plans.ts';
import { declarationsModule, handlesModule } from './routes.ts';
import { jobLimitsTable, oldKeysTable, presetsTable, settingsTable, variablesTable } from './settings.ts';
import { table } from './table.ts';

/** Texts by block name. */
type Blocks = Readonly<Record<string, string>>;

const END = '<!-- end of generated text -->';

/** The pages with their blocks. */
export const PAGES: Readonly<Record<string, () => Promise<Blocks>>> = {
  'docs/explanation/a-billion-a-day.md': async () => ({ billion: await billionText() }),
  'docs/explanation/stores.md': async () => ({ stores: storesTable() }),
  'docs/how-to/choose-a-redis.md': async () => ({ 'kinds of Redis': kindsTable() }),
  'docs/reference/cli.md': async () => ({
    ...(await helpTexts()),
    ...(await indexOfPage('docs/reference/cli.md')),
  }),
  'docs/how-to/runbook.md': () => indexOfPage('docs/how-to/runbook.md'),
  'docs/reference/config.md': async () => ({
    ...(await indexOfPage('docs/reference/config.md')),
    settings: settingsTable(),
    presets: presetsTable(),
    variables: variablesTable(await sourceOf('lib/config/environment.ts')),
    'old keys': oldKeysTable(),
  }),
  'docs/reference/errors.md': async () => ({ errors: errorsTable(await sourceOf('lib/contract/errors.ts')) }),
  'docs/reference/limits.md': async () => ({
    'limits of a job': jobLimitsTable(),
    limits: limitsTable(await sourceOf('lib/contract/limits.ts')),
    'other limits': otherLimitsTable(await Promise.all(OTHERS.map(sourceOf))),
  }),
  'docs/reference/http.md': async () => ({
    operations: await operationsTable(),
    ...(await indexOfPage('docs/reference/http.md')),
  }),
  'docs/reference/worker-commands.md': wkrHelpTexts,
  'docs/reference/operators.md': async () => ({ operators: supportedOpsText(await supported()) }),
};

/** Files that are written as a whole. */
export const MODULES: Readonly<Record<string, () => string | Promise<string>>> = {
  'lib/config/defaults.ts': defaultsModule,
  'lib/http/routes/lists/declarations.ts': declarationsModule,
  'lib/http/routes/lists/predict.ts': () => handlesModule('predict'),
  'lib/http/routes/lists/predictions.ts': () => handlesModule('predictions'),
  'lib/http/routes/lists/status.ts': () => handlesModule('status'),
  'docs/reference/openapi.json': openApiText,
  // Last, because they hold what is written into the pages.
  'docs/llms.txt': llmsText,
  'docs/llms-full.txt': llmsFullText,
};

async function indexOfPage(path: string): Promise<Blocks> {
  return { index: indexOf(await sourceOf(path)) };
}

function kindsTable(): string {
  const [heads = [], ...rows] = redisKindsTable(DEFAULT_JOB);
  return table(heads, rows);
}

/** The page with each block replaced. @throws when a block has no markers in it */
export function withBlocks(page: string, blocks: Blocks): string {
  let text = page;
  for (const [name, block] of Object.entries(blocks)) {
    const start = `<!-- generated: ${name} -->`;
    const from = text.indexOf(start) + start.length;
    const to = text.indexOf(END, from);
    if (from < start.length || to < 0) throw new Error(`the page has no block ${start} ... ${END}`);
    text = `${text.slice(0, from)}\n${block}\n${text.slice(to)}`;
  }
  return text;
}

async function helpTexts(): Promise<Blocks> {
  const commands = Object.entries(COMMANDS).map(
    async ([name, { load }]) => [`help ${name}`, (await load()).help] as const,
  );
  return asTexts([['help', HELP] as const, ...(await Promise.all(commands))]);
}

async function wkrHelpTexts(): Promise<Blocks> {
  const commands = Object.entries(WKR_COMMANDS).map(
    async ([name, load]) => [`help ${name}`, (await load()).help] as const,
  );
  return asTexts(await Promise.all(commands));
}

function asTexts(helps: readonly (readonly [name: string, help: string])[]): Blocks {
  return Object.fromEntries(helps.map(([name, help]) => [name, `\`\`\`text\n${help}\n\`\`\``]));
}

export function fileOf(path: string): URL {
  return new URL(`../../../${path}`, import.meta.url);
}

function sourceOf(path: string): Promise<string> {
  return readFile(fileOf(path), 'utf8');
}

if (import.meta.main) {
  for (const [path, blocks] of Object.entries(PAGES)) {
    await writeFile(fileOf(path), withBlocks(await sourceOf(path), await blocks()));
  }
  for (const [path, text] of Object.entries(MODULES)) await writeFile(fileOf(path), await text());
}
