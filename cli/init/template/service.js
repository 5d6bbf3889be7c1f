/** Starts the service of this folder on free ports, with data of its own, and asks it in both ways. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { InputQueue, OutputQueue } from 'cluster-serving';

const cwd = fileURLToPath(new URL('..', import.meta.url));
const name = 'my-service';
const request = JSON.parse(await readFile(join(cwd, 'request.json'), 'utf8'));
let data;
let input;
let output;

before(async () => {
  data = await mkdtemp(join(tmpdir(), `${name}-`));
  const { ready: url } = await command('start', '--port', '0');
  input = new InputQueue({ name, frontendUrl: url });
  output = new OutputQueue({ name, url });
});

after(async () => {
  await Promise.all([input?.close(), output?.close()]);
  if (input) await command('stop');
  await rm(data, { recursive: true, force: true });
});

test('predict answers each instance', async () => {
  const predictions = await input.predict(request);
  assert.equal(predictions.length, request.instances.length);
  assert.match(predictions[0], /^\{value=/);
});

test('a record of the queue gets a result', async () => {
  // A text alone would be the path of an image.
  const inputs = Object.entries(request.instances[0]).map(([key, value]) => {
    return [key, typeof value === 'string' ? [value] : value];
  });
  const { uri, identity } = await input.enqueue('test', Object.fromEntries(inputs));
  const result = await output.wait(uri, { identity, timeoutMs: 30_000 });
  assert.ok(result.outputs.length > 0);
});

/** Runs `cluster-serving <args> --json`. */
async function command(...args) {
  const script = new URL('bin/cluster-serving.mjs', import.meta.resolve('@cluster-serving/cli/package.json'));
  const words = [fileURLToPath(script), ...args, '--data-dir', data, '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, words, { cwd });
  return JSON.parse(stdout);
}
