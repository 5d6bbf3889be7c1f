/** Plants violations in a copy of the product, and runs dependency-cruiser and oxlint on it, once for all tests. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { appendFile, copyFile, cp, mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { inspect, newViolations, type Violation } from './cruise.ts';
import { lint } from './oxlint.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Plant {
  readonly title: string;
  readonly files: Readonly<Record<string, string>>;
  /** The name of the rule that reports the first of the files. */
  readonly rule: string;
  /** How the report ends, where more than the name of the rule counts. */
  readonly report?: string;
}

const lines = (count: number, line: string) => `${line}\n`.repeat(count);
const functionOf = (count: number) =>
  `export function long(sum: number[]): void {\n${lines(count - 2, '  sum.push(1);')}}\n`;

const IMPORTS: readonly Plant[] = [
  {
    title: 'a codec that imports results',
    files: { 'lib/codecs/planted.ts': `export { ResultStore } from '../redis/results.ts';` },
    rule: 'layer:lib/codecs',
  },
  {
    title: 'a codec that imports a type of results',
    files: { 'lib/codecs/planted-type.ts': `import type {} from '../redis/results.ts';` },
    rule: 'layer:lib/codecs',
  },
  {
    title: 'a pipeline stage that imports the composition',
    files: { 'lib/pipeline/planted-compose.ts': `import '../compose/onnx.ts';` },
    rule: 'layer:lib/pipeline',
  },
  {
    title: 'an import of a higher layer over several lines',
    files: { 'lib/s3/planted-lines.ts': 'import {\n  type A,\n  b,\n} from\n  "../http/request.ts";' },
    rule: 'layer:lib/s3',
  },
  {
    title: 'an import() of a higher layer',
    files: {
      'lib/registry/planted-dynamic.ts': `export const later = async () => (await import('../compose/s3.ts')).s3Client;`,
    },
    rule: 'layer:lib/registry',
  },
  {
    title: 'an owner that imports another',
    files: { 'lib/inference/planted-registry.ts': `import '../registry/download.ts';` },
    rule: 'layer:lib/inference',
  },
  {
    title: 'an owner that imports the composition',
    files: { 'lib/inference/planted-compose.ts': `import '../compose/onnx.ts';` },
    rule: 'layer:lib/inference',
  },
  {
    title: 'an owner that imports a type of another',
    files: { 'lib/queue/planted.ts': `import type {} from '../s3/payloads.ts';` },
    rule: 'layer:lib/queue',
  },
  {
    title: 'a crossing in the opposite direction',
    files: { 'lib/s3/planted-crossing.ts': `import '../registry/download.ts';` },
    rule: 'layer:lib/s3',
  },
  {
    title: 'a file of lib that imports a function',
    files: { 'lib/compose/planted-function.ts': `import '../../functions/status.ts';` },
    rule: 'layer:lib/compose',
  },
  {
    title: 'a product file that imports bench',
    files: { 'lib/http/planted-bench.ts': `import '../../bench/target.ts';` },
    rule: 'layer:lib/http',
  },
  {
    title: 'a product file that imports a test',
    files: { 'functions/planted-test.ts': `import '../test/target.ts';` },
    rule: 'layer:functions',
  },
  {
    title: 'a product file that imports what bench and tests share',
    files: { 'cli/planted-support.ts': `import '../test/support/target.ts';` },
    rule: 'layer:cli',
  },
  {
    title: 'a bench that imports a test',
    files: { 'bench/planted.ts': `import '../test/target.ts';` },
    rule: 'layer:bench',
  },
  {
    title: 'a shared test file that imports a test',
    files: { 'test/support/planted.ts': `import '../target.ts';` },
    rule: 'layer:test/support',
  },
  {
    title: 'a shared test file that imports bench',
    files: { 'test/support/planted-bench.ts': `import '../../bench/target.ts';` },
    rule: 'layer:test/support',
  },
  {
    title: 'an HTTP file that imports an owner',
    files: { 'lib/http/planted-owner.ts': `import type {} from '../redis/results.ts';` },
    rule: 'only:lib/http',
  },
  {
    title: 'a function that imports an owner',
    files: { 'functions/planted-owner.ts': `import '../lib/registry/download.ts';` },
    rule: 'only:functions',
  },
  {
    title: 'a model import that imports the deployment',
    files: {
      'onnx-import/planted-infra.ts': `import '../infra/planted-target.ts';`,
      'infra/planted-target.ts': 'export const target = 1;',
    },
    rule: 'layer:onnx-import',
  },
  {
    title: 'a part of the service that imports a room of onnx-import',
    files: {
      'local/planted-room.ts': `import { planted } from '../onnx-import/import/planted-target.ts';\nvoid planted;`,
      'onnx-import/import/planted-target.ts': 'export const planted = 1;',
    },
    rule: 'imported-by:onnx-import/import',
  },
  {
    title: 'a room of onnx-import that imports one above it',
    files: {
      'onnx-import/graph/planted-up.ts': `import '../import/planted-target.ts';`,
      'onnx-import/import/planted-target.ts': 'export const target = 1;',
    },
    rule: 'layer:onnx-import/graph',
  },
  {
    title: 'onnx-import that imports more of lib than both need',
    files: { 'onnx-import/import/planted-lib.ts': `import '../../lib/registry/publish.ts';` },
    rule: 'only:onnx-import',
  },
  {
    title: 'a function that imports settings',
    files: { 'functions/planted-config.ts': `import type {} from '../lib/config/job.ts';` },
    rule: 'only:functions',
  },
  {
    title: 'an SDK that imports settings',
    files: { 'sdk/planted-config.ts': `import type {} from '../lib/config/job.ts';` },
    rule: 'only:sdk',
  },
  {
    title: 'an SDK that imports the composition',
    files: { 'sdk/planted-compose.ts': `import '../lib/compose/store.ts';` },
    rule: 'only:sdk',
  },
  {
    title: 'an embedded Redis that imports the pipeline',
    files: { 'embedded-redis/planted.ts': `import '../lib/pipeline/serve.ts';` },
    rule: 'only:embedded-redis',
  },
  {
    title: 'an example that imports more than the SDK',
    files: { 'examples/planted.ts': `import '../lib/contract/tensor.ts';` },
    rule: 'only:examples',
  },
  {
    title: 'an embedded Redis that the command line imports',
    files: { 'cli/planted-redis.ts': `import '../embedded-redis/server.ts';` },
    rule: 'imported-by:embedded-redis',
  },
  {
    title: 'a console that imports a type of the store',
    files: { 'local/console/planted.ts': `import type {} from '../../lib/redis/replace-result.ts';` },
    rule: 'imported-by:lib/redis',
  },
  {
    title: 'a part of the composition that names the store',
    files: { 'lib/compose/planted.ts': `import '../redis/results.ts';` },
    rule: 'imported-by:lib/redis',
  },
  {
    title: 'a conformance test that names a store',
    files: {
      'test/lib/results/conformance/planted.ts': `import type {} from '../../../../lib/redis/results.ts';`,
    },
    rule: 'only:test/lib/results/conformance',
  },
  {
    title: "a conformance test that imports a store's client",
    files: { 'test/lib/results/conformance/planted-client.ts': `import 'ioredis';` },
    rule: 'owner:ioredis',
  },
  {
    title: 'a function that imports another',
    files: { 'functions/planted-function.ts': `import './predict.ts';` },
    rule: 'separate:functions',
  },
  {
    title: 'three files that begin with the same word',
    files: {
      'lib/s3/crowd-a.ts': `import './crowd.ts';`,
      'lib/s3/crowd-b.ts': `import './crowd.ts';`,
      'lib/s3/crowd.ts': 'export const a = 1;',
    },
    rule: 'prefix',
    report: 'lib/s3/crowd-a.ts, lib/s3/crowd-b.ts, lib/s3/crowd.ts',
  },
  {
    title: 'three tests that begin with the same word',
    files: {
      'test/upgrade/crowd-a.test.ts': `import '../target.ts';`,
      'test/upgrade/crowd-b.test.ts': `import '../target.ts';`,
      'test/upgrade/crowd.test.ts': `import '../target.ts';`,
    },
    rule: 'prefix',
  },
  {
    title: 'a pipeline stage that imports node:http',
    files: { 'lib/pipeline/planted-http.ts': `import { request } from 'node:http';\nrequest('');` },
    rule: 'pure:node-modules',
  },
  {
    title: 'a codec that imports child_process by another name and in double quotes',
    files: { 'lib/codecs/planted-spawn.ts': `import fs from "node:child_process";\nfs.execSync('');` },
    rule: 'pure:node-modules',
  },
  {
    title: 'a codec that imports timers where it may import zlib',
    files: { 'lib/codecs/image/png.ts': `\nimport 'node:timers';` },
    rule: 'pure:node-modules',
    report: '-> timers',
  },
  {
    title: 'an import of node:process',
    files: {
      'lib/http/planted-process.ts': `import { env } from 'node:process';\nexport const a = env['A'];`,
    },
    rule: 'no-process-module',
  },
  {
    title: 'a cycle of values',
    files: {
      'lib/pipeline/planted-cycle-a.ts': `import './planted-cycle-b.ts';`,
      'lib/pipeline/planted-cycle-b.ts': `import './planted-cycle-c.ts';`,
      'lib/pipeline/planted-cycle-c.ts': `import './planted-cycle-a.ts';`,
    },
    rule: 'no-cycle',
  },
  {
    title: 'a cycle of types only',
    files: {
      'lib/contract/planted-types-a.ts': `import type { B } from './planted-types-b.ts';\nexport type A = B[];`,
      'lib/contract/planted-types-b.ts': `export type { A as B } from './planted-types-a.ts';`,
    },
    rule: 'no-cycle',
  },
  {
    title: 'a function that imports ioredis',
    files: { 'functions/planted-redis.ts': `export { Redis } from 'ioredis';` },
    rule: 'owner:ioredis',
  },
  {
    title: 'a package that has no owner',
    files: { 'lib/s3/planted-package.ts': `import '@aws-sdk/client-s3';\nimport 'fast-check';` },
    rule: 'owner:none',
    report: '-> fast-check',
  },
  {
    title: 'a product file that imports a devDependency',
    files: {
      'lib/metrics/planted-dev/file.ts': `import 'fast-check';`,
      'lib/metrics/planted-dev/package.json': `{ "devDependencies": { "fast-check": "4.10.2" } }`,
    },
    rule: 'no-dev-dependency',
  },
  {
    title: 'a package that package.json does not name',
    files: { 'lib/redis/planted-undeclared.ts': `import 'denque';` },
    rule: 'no-undeclared-package',
  },
  {
    title: 'an import of a file that does not exist',
    files: { 'lib/http/planted-gone.ts': `import './gone.ts';` },
    rule: 'no-unresolvable',
  },
  {
    title: 'a file that imports nothing and that nothing imports',
    files: { 'lib/http/planted-orphan.ts': `export const alone = 1;` },
    rule: 'no-orphan',
  },
  {
    title: 'a file that no part holds',
    files: { 'lib/new/planted.ts': `import '../contract/errors.ts';` },
    rule: 'no-part',
  },
  {
    title: 'an import() whose argument is computed',
    files: { 'lib/http/planted-computed.ts': `export const load = (path: string) => import(path);` },
    rule: 'no-computed-import',
  },
  {
    title: 'an import that dependency-cruiser takes for an import() of the same file',
    files: {
      'lib/http/planted-twice.ts': `export const load = () => import('./cors.ts');\nimport './cors.ts';`,
    },
    rule: 'no-unseen-import',
  },
  {
    title: 'an SDK that reaches onnxruntime through three files',
    files: {
      'sdk/index.ts': `\nimport './planted-1.ts';`,
      'sdk/planted-1.ts': `import './planted-2.ts';`,
      'sdk/planted-2.ts': `import '../lib/redis/planted-3.ts';`,
      'lib/redis/planted-3.ts': `import '../inference/session.ts';`,
    },
    rule: 'unreachable:sdk/index.ts',
    report: 'planted-3.ts -> lib/inference/session.ts -> onnxruntime-node',
  },
  {
    title: 'an SDK that reaches settings',
    files: {
      'sdk/index.ts': `\nimport './planted-settings.ts';`,
      'sdk/planted-settings.ts': `import '../lib/config/environment.ts';`,
    },
    rule: 'unreachable:sdk/index.ts',
    report: 'planted-settings.ts -> lib/config/environment.ts',
  },
];

const LINTED: readonly Plant[] = [
  {
    title: 'process.env',
    files: { 'functions/planted-env.ts': `export const a = process.env['A'];` },
    rule: 'eslint(no-restricted-properties)',
  },
  {
    title: 'process.env by destructuring',
    files: { 'lib/http/planted-env.ts': 'const { env } = process;\nexport const a = env.A;' },
    rule: 'eslint(no-restricted-properties)',
  },
  {
    title: 'process.env in a file that nearly has the name of the one that may',
    files: { 'lib/config/variables.ts': `export const a = process.env['A'];` },
    rule: 'eslint(no-restricted-properties)',
  },
  {
    title: 'process.env in the SDK',
    files: { 'sdk/planted-env.ts': `export const a = process.env['A'];` },
    rule: 'eslint(no-restricted-properties)',
  },
  {
    title: 'process.env through globalThis',
    files: { 'onnx-import/planted-env.ts': `export const a = globalThis.process.env['A'];` },
    rule: 'eslint(no-restricted-properties)',
  },
  {
    title: 'Math.random in a codec',
    files: { 'lib/codecs/planted-random.ts': 'const { random } = Math;\nexport const a = random();' },
    rule: 'eslint(no-restricted-properties)',
  },
  ...Object.entries({
    'Date.now': 'Date.now()',
    'new Date': 'new Date()',
    'performance.now': 'performance.now()',
    fetch: `fetch('http://localhost')`,
    setTimeout: 'setTimeout(() => undefined, 1)',
    setInterval: 'setInterval(() => undefined, 1)',
    'crypto.randomUUID': 'crypto.randomUUID()',
    'a clock through globalThis': 'globalThis.Date.now()',
    process: 'process.pid',
  }).map(([title, code]) => ({
    title: `${title} in the pipeline`,
    files: { [`lib/pipeline/planted-${title.replaceAll(' ', '-')}.ts`]: `export const a = ${code};` },
    rule: 'eslint(no-restricted-globals)',
  })),
  {
    title: 'export * from',
    files: { 'lib/http/planted-star.ts': `export * from './cors.ts';` },
    rule: 'oxc(no-barrel-file)',
  },
  {
    title: 'export * as',
    files: { 'lib/http/planted-star-as.ts': `export * as cors from './cors.ts';` },
    rule: 'oxc(no-barrel-file)',
  },
  {
    title: 'export * from a package',
    files: { 'lib/redis/planted-star.ts': `export * from 'ioredis';` },
    rule: 'oxc(no-barrel-file)',
  },
  {
    title: 'a type from an import() that dependency-cruiser does not see',
    files: { 'lib/codecs/planted-import-type.ts': `export type A = import('../contract/tensor.ts').Tensor;` },
    rule: 'typescript(consistent-type-imports)',
  },
  {
    title: 'an import of types that is still loaded',
    files: {
      'lib/http/planted-side-effect.ts': `import { type Tensor } from '../contract/tensor.ts';\nexport type A = Tensor;`,
    },
    rule: 'typescript(no-import-type-side-effects)',
  },
  {
    title: 'a file of 301 lines, blank lines and comments included',
    files: { 'lib/http/planted-301.ts': `export const a = 1;\n${lines(150, '')}${lines(150, '// b')}` },
    rule: 'eslint(max-lines)',
  },
  {
    title: 'a function that imports what a route says of itself',
    files: {
      'functions/planted-declaration.ts': `export { declaration } from '../lib/http/routes/ready.ts';`,
    },
    rule: 'eslint(no-restricted-imports)',
  },
  {
    title: 'a route that imports what another says of itself',
    files: {
      'lib/http/routes/planted-declaration.ts': `import { declaration } from './ready.ts';\nexport const { routes } = declaration;`,
    },
    rule: 'eslint(no-restricted-imports)',
  },
  {
    title: 'a function file of 61 lines',
    files: { 'functions/planted-61.ts': `export const a = 1;\n${lines(60, '// b')}` },
    rule: 'eslint(max-lines)',
  },
  {
    title: 'a function of 61 lines',
    files: { 'lib/http/planted-function-61.ts': functionOf(61) },
    rule: 'eslint(max-lines-per-function)',
  },
];

/** Violates no rule, so that only the planted file does. */
const INNOCENT: Readonly<Record<string, string>> = {
  'bench/target.ts': `import '../test/support/target.ts';\nimport '../embedded-redis/server.ts';`,
  'test/target.ts': `import '../bench/target.ts';\nimport './support/target.ts';`,
  'test/support/target.ts': `import '../../lib/compose/onnx.ts';`,
  'local/innocent.ts': `import '../embedded-redis/server.ts';\nimport '../lib/http/routes.ts';`,
  'examples/innocent.ts': `import '../sdk/index.ts';`,
  'lib/pipeline/innocent.ts': `import type { Result } from 'aws-lambda';\nimport '../codecs/json.ts';\nexport type A = Result;`,
  'lib/http/innocent-300.ts': `import './cors.ts';\n${lines(299, '// b')}`,
  'lib/http/innocent-60.ts': `import './cors.ts';\n${functionOf(60)}`,
  'functions/innocent-60.ts': `import '../lib/compose/scope.ts';\n${lines(59, '// b')}`,
};

const folders: string[] = [];

/** The parts that are deployed or published. */
const PARTS = ['lib', 'functions', 'sdk', 'embedded-redis'];

/** A copy of these parts, with what is planted there; a file that exists is added to. */
async function plant(parts: readonly string[], planted: Readonly<Record<string, string>>): Promise<string> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'planted-')));
  folders.push(root);
  for (const folder of parts) await cp(join(ROOT, folder), join(root, folder), { recursive: true });
  for (const file of ['package.json', '.oxlintrc.json']) await copyFile(join(ROOT, file), join(root, file));
  await symlink(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  for (const [file, code] of Object.entries(planted)) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await appendFile(join(root, file), code.endsWith('\n') ? code : `${code}\n`);
  }
  return root;
}

let violations: Violation[];
before(async () => {
  const all: Record<string, string> = {};
  for (const { files } of [...IMPORTS, ...LINTED]) {
    for (const [file, code] of Object.entries(files)) all[file] = (all[file] ?? '') + code;
  }
  const root = await plant(PARTS, { ...INNOCENT, ...all });
  const [inspected, linted] = await Promise.all([inspect(root), lint(root)]);
  violations = [...newViolations(inspected.violations), ...linted];
});

after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

for (const { title, files, rule, report = '' } of [...IMPORTS, ...LINTED]) {
  test(`${rule} reports ${title}`, () => {
    const [file] = Object.keys(files);
    const reports = violations.filter(({ from }) => from === file);
    assert.ok(
      reports.some((each) => each.rule === rule && each.text.endsWith(report)),
      `reported: ${reports.map(({ text }) => text).join('\n') || 'nothing'}`,
    );
  });
}

test('a file without a violation is not reported', () => {
  const planted = new Set([...IMPORTS, ...LINTED].flatMap(({ files }) => Object.keys(files)));
  assert.deepEqual(
    violations.filter(({ from }) => !planted.has(from)),
    [],
  );
});

test('a folder that the table does not know fails', async () => {
  const root = await plant(['embedded-redis'], { 'server/new.ts': `import '../embedded-redis/server.ts';` });
  await assert.rejects(inspect(root), /dependency-cruiser read \d+ of \d+ files, not: server\/new\.ts$/);
});

test('a dependency-cruiser that finds no parser for TypeScript, and so no module, fails', async () => {
  const hook = `import { registerHooks } from 'node:module';
    registerHooks({
      resolve(specifier, context, next) {
        const hidden = specifier.startsWith('@swc/core') && context.parentURL.includes('/dependency-cruiser/');
        return next(hidden ? 'not-installed' : specifier, context);
      },
    });`;
  const root = folders[0] as string;
  const cruise = pathToFileURL(join(import.meta.dirname, 'cruise.ts')).href;
  const program = `const { inspect } = await import(${JSON.stringify(cruise)}); await inspect(${JSON.stringify(root)});`;
  await assert.rejects(
    promisify(execFile)(process.execPath, [
      '--import',
      `data:text/javascript,${encodeURIComponent(hook)}`,
      '--input-type=module',
      '--eval',
      program,
    ]),
    /dependency-cruiser read 0 of \d+ files/,
  );
});
