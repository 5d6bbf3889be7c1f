/**
 * The pages for those who have a script of Keras or of TensorFlow 1: every command, but for the ports and the installation. Where
 * TensorFlow is missing, the model is the one that the same script wrote (test/fixtures).
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { serviceFolder } from '../cli/cli.ts';
import { blocksOf, walk } from '../support/documents.ts';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE, WITH_PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';
import { localPorts } from '../support/tutorial.ts';

const PAGES = { 'from-a-keras-script': 'keras-script', 'from-a-tensorflow-1-script': 'tensorflow-1-script' };
const LEFT_OUT = ['The script that you have', 'Install'];

for (const [page, fixture] of Object.entries(PAGES)) {
  test(`every command of docs/how-to/${page}.md prints what it shows`, WITH_PYTHON, async (t) => {
    const folder = await serviceFolder(t);
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const blocks = await blocksOf(`docs/how-to/${page}.md`);
    const shown = blocks.filter(({ section }) => !LEFT_OUT.includes(section));
    assert.ok(shown.length > 10);
    const hasTensorFlow = spawnSync(PYTHON, ['-c', 'import tensorflow']).status === 0;
    const ports = localPorts(folder);
    await walk(shown, {
      folder,
      state: join(await temporaryFolder(t), 'state'),
      environment: childEnvironment({
        PYTHONPATH: PYTHON_PACKAGE,
        PYTHONDONTWRITEBYTECODE: '1',
        TF_CPP_MIN_LOG_LEVEL: '3',
      }),
      adapted: async (text) => {
        if (text === 'python3 train.py\n' && !hasTensorFlow)
          return `cp -r ${join(ROOT, 'test/fixtures', fixture, 'model')} model`;
        return (await ports(text)).replace('python3 ', `${PYTHON} `);
      },
    });
  });
}
