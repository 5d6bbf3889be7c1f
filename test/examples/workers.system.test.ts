/** The examples of workers: every command of their READMEs, in a copy of their folder. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { findRunning } from '../../local/service/data-folder.ts';
import { Service } from '../local/decentral/service.ts';
import { blocksOf, walk } from '../support/documents.ts';
import { freePort } from '../support/free-port.ts';
import { WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';
import { localPorts } from '../support/tutorial.ts';

const LINES = 40;
const hasRedis = spawnSync('redis-server', ['--version']).status === 0;

/** Walks through the README of an example. @param ports that it names, each of which is replaced by a free one */
async function walkExample(t: TestContext, name: string, ports: readonly number[] = []): Promise<void> {
  const service = await Service.in(t, {});
  const clone = service.folder;
  const folder = join(clone, 'examples', name);
  await mkdir(dirname(folder));
  await cp(join(ROOT, 'examples', name), folder, { recursive: true });
  for (const each of ['node_modules', 'python', 'examples/digits'])
    await symlink(join(ROOT, each), join(clone, each));
  await symlink(join(ROOT, 'cli/bin/cluster-serving.mjs'), join(clone, 'bin', 'cluster-serving'));
  service.after(async () => {
    const running = await findRunning(join(folder, '.cluster-serving'));
    if (running) process.kill(running.process.pid, 'SIGKILL');
    const scripts = (await readdir(folder)).filter((file) => file.endsWith('.sh'));
    for (const script of scripts) await service.sh(`sh ${join(folder, script)} stopf`);
  });
  const free = await Promise.all(
    ports.map(async (port) => [String(port), String(await freePort())] as const),
  );
  const local = localPorts(folder);
  const readme = `examples/${name}/README.md`;
  const blocks = await blocksOf(readme);
  assert.ok(blocks.length > 4);
  await walk(blocks, {
    folder,
    state: join(await temporaryFolder(t), 'state'),
    environment: service.env as Record<string, string>,
    adapted: async (text) =>
      free.reduce((changed, [port, other]) => changed.replaceAll(port, other), await local(text)),
  });
}

test('worker-python', WITH_PYTHON, (t) => walkExample(t, 'worker-python'));

test('worker-onnx', (t) => walkExample(t, 'worker-onnx'));

test('decentralized', { skip: WITH_PYTHON.skip || (!hasRedis && 'needs redis-server') }, (t) =>
  walkExample(t, 'decentralized', [6390, 8996, 8998, 21324]),
);

test('the READMEs are short', async () => {
  for (const name of ['worker-python', 'worker-onnx', 'decentralized']) {
    const text = await readFile(join(ROOT, 'examples', name, 'README.md'), 'utf8');
    assert.ok(text.split('\n').length - 1 <= LINES, name);
  }
});
