/** The wheel of the Python package: built by the command of package.json, and used from an environment that has nothing else. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { workerService } from '../support/worker-service.ts';
import { MIGRATED, migratedProgram } from './python.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const WHEELS = join(ROOT, 'dist', 'wheel');

const CLIENT = `import sys
import numpy as np
import bigdl.serving.client
import wkr_serving
import zoo.serving.client
from cluster_serving import Client
from wkr_serving.client import WKRClient

with WKRClient(ip="localhost", port=int(sys.argv[1])) as client:
    answer = client.encode(np.arange(6.0).reshape(2, 3))
    print(wkr_serving.__file__, answer.dtype, answer.shape, answer.sum())
with Client(sys.argv[2]) as client:
    print(client.predict({"image": sys.argv[3]}).output.argmax(), zoo.serving.client.OutputQueue(url=sys.argv[2]).query("u"),
          bigdl.serving.client.InputQueue(url=sys.argv[2]).client is not None)
`;

test(
  'npm run build:wheel makes a wheel whose clients work in an environment of its own',
  WITH_PYTHON,
  async (t) => {
    const run = async (command: string, ...args: readonly string[]) => {
      const options = { cwd: ROOT, env: childEnvironment(), maxBuffer: 2 ** 24 };
      return (await promisify(execFile)(command, args, options)).stdout;
    };
    await rm(WHEELS, { recursive: true, force: true });
    await run('npm', 'run', 'build:wheel');
    const [wheel = '', ...others] = await readdir(WHEELS);
    assert.match(wheel, /^cluster_serving-\d+\.\d+\.\d+-py3-none-any\.whl$/);
    assert.deepEqual(others, []);
    const folder = await temporaryFolder(t, 'cs-wheel-');
    const python = join(folder, 'venv', 'bin', 'python');
    // numpy is that of the system.
    await run(PYTHON, '-m', 'venv', '--system-site-packages', '--without-pip', join(folder, 'venv'));
    await run(
      'python3',
      '-m',
      'pip',
      '--python',
      python,
      'install',
      '--no-deps',
      '--no-index',
      join(WHEELS, wheel),
    );
    await writeFile(join(folder, 'client.py'), CLIENT);
    const { port } = await workerService(t, (value) => value);
    const { url } = await testStack(t);
    const image = join(SAMPLE, 'images/digit-3.png');
    const printed = await run(python, join(folder, 'client.py'), String(port), url, image);
    const [ofWorker = '', ofModel] = printed.trim().split('\n');
    const [file = '', ...answer] = ofWorker.split(/ (?!\d+\))/);
    assert.ok(file.startsWith(join(folder, 'venv')), file);
    assert.deepEqual(answer, ['float64', '(2, 3)', '15.0']);
    assert.equal(ofModel, '3 [] True');
    // The program of a user of the former client, with the two lines that change.
    await writeFile(join(folder, 'migrated.py'), await migratedProgram(`url="${url}"`, image));
    assert.equal(await run(python, join(folder, 'migrated.py')), MIGRATED);
  },
);
