import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from '../../support/runner.ts';

const MODEL = fileURLToPath(new URL('../../../examples/digits/model/model.onnx', import.meta.url));
const SESSION = new URL('../../../lib/inference/session.ts', import.meta.url).href;
const PROGRAM = `
  const { openSession } = await import(${JSON.stringify(SESSION)});
  await (await openSession(${JSON.stringify(MODEL)}, { threads: 1 })).close();`;

async function leftAtHome(home: string, variables: Record<string, string>): Promise<string[]> {
  // Nothing of ours comes along: onnxruntime sends nothing where CI, GITLAB_CI or one of a dozen others is set.
  const env = { PATH: process.env['PATH'], HOME: home, ...variables };
  await promisify(execFile)(process.execPath, ['--input-type=module-typescript', '-e', PROGRAM], { env });
  const entries = await readdir(home, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

test('opening a model leaves nothing in the home folder and prepares nothing to be sent', async (t) => {
  assert.deepEqual(await leftAtHome(await temporaryFolder(t), {}), []);
});

test('who wants the telemetry of onnxruntime can have it', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const left = await leftAtHome(await temporaryFolder(t), { ORT_DISABLE_TELEMETRY: '0' });
  assert.ok(left.includes('deviceid'), left.join());
});
