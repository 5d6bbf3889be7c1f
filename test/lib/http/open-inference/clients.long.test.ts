/**
 * The genuine clients of Triton and of KServe ask a service everything that they can ask over REST. OPEN_INFERENCE_PYTHON names a
 * Python that has them: `python -m venv v && v/bin/pip install 'tritonclient[http]==2.73.0' kserve==0.21.0`, then `v/bin/python`.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { childEnvironment } from '../../../support/environment.ts';
import { onnxModel, type ValueSpec } from '../../../support/onnx.ts';
import { temporaryFolder } from '../../../support/runner.ts';
import { testStack } from '../../../support/stack.ts';

const PYTHON = process.env['OPEN_INFERENCE_PYTHON'] ?? 'python3';
const PROGRAM = fileURLToPath(new URL('open-inference-clients.py', import.meta.url));

const value = (name: string, dtype: ValueSpec['dtype'], width: number): ValueSpec => ({
  name,
  dtype,
  shape: ['N', width],
});
const MODEL = onnxModel({
  inputs: [value('x', 'float32', 3), value('ids', 'int64', 2), value('words', 'string', 2)],
  outputs: [value('probs', 'float32', 3), value('ids_out', 'int64', 2), value('words_out', 'string', 2)],
  nodes: [
    { op: 'Softmax', inputs: ['x'], outputs: ['probs'], attributes: { axis: 1 } },
    { op: 'Identity', inputs: ['ids'], outputs: ['ids_out'] },
    { op: 'Identity', inputs: ['words'], outputs: ['words_out'] },
  ],
});

for (const client of ['tritonclient.http', 'kserve']) {
  const isThere = spawnSync(PYTHON, ['-c', `import ${client}`], { env: childEnvironment() }).status === 0;
  const skip = isThere ? false : `${PYTHON} has no ${client}: set OPEN_INFERENCE_PYTHON`;
  test(`${client} reads, runs and is refused as by Triton`, { skip }, async (t) => {
    const modelDirectory = await temporaryFolder(t);
    await writeFile(join(modelDirectory, 'model.onnx'), MODEL);
    await writeFile(join(modelDirectory, 'labels.txt'), 'cat\ndog\nfish\n');
    const { url } = await testStack(t, { modelDirectory, config: 'jobName: job' });
    const run = promisify(execFile)(PYTHON, [PROGRAM, client, url], { env: childEnvironment() });
    assert.match((await run).stdout, /^all is well$/m);
  });
}
