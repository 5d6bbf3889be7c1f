/**
 * Lambda and the single machine run one composition: what is replaced in one file of lib/compose is replaced in the
 * packaged handler and in `npm start`. The replacement is made in a copy of the source.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { buildFunctions } from '../../../infra/build/functions.ts';
import { startArtifact } from '../../infra/artifact.ts';
import { childEnvironment } from '../../support/environment.ts';
import { type Addresses, ROOT } from '../../support/start.ts';

const VERSION = 'replaced-by-the-test';
/** The sources of `npm start` and of a bundle. */
const SOURCES = [
  'package.json',
  'tsconfig.json',
  'examples',
  'lib',
  'functions',
  'sdk',
  'onnx-import',
  'release',
  'console',
  'local',
  'embedded-redis',
  'cli',
  'infra',
];

describe('one line of lib/compose/status.ts replaced', () => {
  let copy = '';

  before(async () => {
    copy = await mkdtemp(join(tmpdir(), 'cs-replaced-'));
    for (const name of SOURCES) await cp(join(ROOT, name), join(copy, name), { recursive: true });
    await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
    const file = join(copy, 'lib/compose/status.ts');
    const text = await readFile(file, 'utf8');
    const replaced = text.replace(/\(\) => readPointer\([^)]*\)/, `async () => ({ version: '${VERSION}' })`);
    assert.notEqual(replaced, text);
    await writeFile(file, replaced);
  });

  after(() => rm(copy, { recursive: true, force: true }));

  test('npm start and the packaged handler both answer with it', async (t) => {
    const child = spawn(
      process.execPath,
      ['local/start.ts', '--port', '0', '--json', '--data-dir', join(copy, 'data')],
      { cwd: copy, env: childEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const ended = new Promise((resolve) => child.once('close', resolve));
    t.after(async () => {
      child.kill('SIGTERM');
      await ended;
    });
    let addresses: Addresses | undefined;
    for await (const line of createInterface({ input: child.stdout })) {
      if (line.includes('"queueUrl"')) addresses = JSON.parse(line) as Addresses;
      if (line.includes('"ready"')) break;
    }
    assert.ok(addresses);
    const answer = await fetch(`${addresses.http}/ready`);
    assert.partialDeepStrictEqual(await answer.json(), { ready: true, model: VERSION });

    const processor = process.arch === 'arm64' ? 'arm64' : 'x64';
    await buildFunctions({ root: copy, processor });
    const artifact = await startArtifact({
      folder: join(copy, 'dist', 'status'),
      handler: 'index.handler',
      environment: {
        ...addresses.environment,
        CLUSTER_SERVING_BUCKET: 'cluster-serving',
        CLUSTER_SERVING_REDIS_URL: addresses.redisUrl,
      },
    });
    t.after(() => artifact.close());
    const event = { rawPath: '/ready', requestContext: { http: { method: 'GET' } }, headers: {} };
    const { statusCode, body } = (await artifact.invoke(event)) as { statusCode: number; body: string };
    assert.equal(statusCode, 200, body);
    assert.partialDeepStrictEqual(JSON.parse(body), { ready: true, model: VERSION });
  });
});
