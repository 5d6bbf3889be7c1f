/** A worker's own dependencies: packages of a virtual environment, and of a folder node_modules beside the code. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { PYTHON, WITH_PYTHON } from '../../support/python.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { SDK } from './child.ts';

async function answerOf(url: string): Promise<unknown> {
  const response = await fetch(`${url}/encode_json`, { method: 'POST', body: '1' });
  return ((await response.json()) as { data: unknown }).data;
}

test(
  'worker.python is that of a virtual environment, by its path from the config',
  WITH_PYTHON,
  async (t) => {
    const directory = await temporaryFolder(t, 'cs-venv-');
    // Without pip it is made in no time; numpy is that of the system.
    execFileSync(PYTHON, ['-m', 'venv', '--system-site-packages', '--without-pip', join(directory, 'venv')]);
    const python = join(directory, 'venv', 'bin', 'python');
    const where = ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'];
    const packages = execFileSync(python, where, { encoding: 'utf8' }).trim();
    await writeFile(join(packages, 'only_in_the_environment.py'), 'VALUE = "its own"\n');
    await writeFile(
      join(directory, 'server.py'),
      `import sys
from only_in_the_environment import VALUE
from wkr_serving.server import WKRHardWorker
class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None
    def predict(self, model, items):
        return [[VALUE, sys.prefix] for item in items]
`,
    );
    const config = 'worker:\n  class: server.Worker\n  python: venv/bin/python\n';
    const stack = await testStack(t, { config, directory });
    assert.deepEqual(await answerOf(stack.url), ['its own', join(directory, 'venv')]);
  },
);

test('packages of node_modules beside the code are found', async (t) => {
  const directory = await temporaryFolder(t, 'cs-modules-');
  const folder = join(directory, 'node_modules', 'only-there');
  await mkdir(folder, { recursive: true });
  await writeFile(
    join(folder, 'package.json'),
    '{"name":"only-there","type":"module","exports":"./index.js"}',
  );
  await writeFile(join(folder, 'index.js'), 'export const value = "its own";\n');
  await writeFile(
    join(directory, 'server.mts'),
    `import { value } from 'only-there';
import { WKRHardWorker } from './SDK';
export class Worker extends WKRHardWorker {
  getModel() {}
  predict(_model: unknown, items: readonly unknown[]) { return items.map(() => value); }
}
`.replace('./SDK', SDK),
  );
  const stack = await testStack(t, { config: 'worker:\n  class: server.Worker\n', directory });
  assert.equal(await answerOf(stack.url), 'its own');
});
