/** `WKROnnxWorker` in both languages: what its model gets and gives, and what it says when it cannot be opened. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Open } from '../../../lib/workers/messages.ts';
import { onnxModel, type ValueSpec } from '../../support/onnx.ts';
import { WITH_ONNXRUNTIME, WITH_PYTHON } from '../../support/python.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { endWorkers, type Language, SDK, WorkerChild } from './child.ts';

afterEach(endWorkers);

const pair = (name: string): ValueSpec => ({ name, dtype: 'float32', shape: ['N', 2] });

const MODELS = {
  'double.onnx': onnxModel({
    inputs: [pair('x')],
    outputs: [pair('y')],
    nodes: [{ op: 'Add', inputs: ['x', 'x'], outputs: ['y'] }],
  }),
  'two.onnx': onnxModel({
    inputs: [pair('a'), pair('b')],
    outputs: [pair('sum'), pair('difference')],
    nodes: [
      { op: 'Add', inputs: ['a', 'b'], outputs: ['sum'] },
      { op: 'Sub', inputs: ['a', 'b'], outputs: ['difference'] },
    ],
  }),
  'broken.onnx': Buffer.from('no model'),
};

/** The items of the second model are pairs of rows, and the answer says how large the first output is. */
const CODE: Readonly<Record<Language, { readonly plain: string; readonly processed: string }>> = {
  typescript: {
    plain: `export { WKROnnxWorker as Worker } from './SDK';`.replace('./SDK', SDK),
    processed: `
import { WKROnnxWorker } from './SDK';
const rows = (items, at) => ({
  dtype: 'float32', shape: [items.length, 2], data: Float32Array.from(items.flatMap((item) => item[at])),
});
export class Worker extends WKROnnxWorker {
  getPreprocess() { return (items) => ({ a: rows(items, 0), b: rows(items, 1) }); }
  getPostprocess() { return (answers) => answers.map(({ sum, difference }) => [...sum.data, ...difference.data]); }
}`.replace('./SDK', SDK),
  },
  python: {
    plain: 'from wkr_serving.server import WKROnnxWorker as Worker',
    processed: `
import numpy as np
from wkr_serving.server import WKROnnxWorker
class Worker(WKROnnxWorker):
    def get_preprocess(self, envs):
        return lambda items: {name: np.array([item[at] for item in items], "float32") for at, name in enumerate("ab")}
    def get_postprocess(self, envs):
        return lambda answers: [each["sum"].tolist() + each["difference"].tolist() for each in answers]
`,
  },
};

const row = (...data: readonly number[]): Tensor => ({
  dtype: 'float32',
  shape: [data.length],
  data: Float32Array.from(data),
});

for (const [language, skip] of [
  ['typescript', { skip: false }],
  ['python', WITH_ONNXRUNTIME],
] as const) {
  describe(`WKROnnxWorker in ${language}`, skip, () => {
    const cleanups: (() => Promise<void>)[] = [];
    let modelDir: string;
    before(async () => {
      modelDir = await temporaryFolder({ after: (cleanup) => cleanups.push(cleanup) });
      for (const [name, bytes] of Object.entries(MODELS)) await writeFile(join(modelDir, name), bytes);
    });
    after(async () => {
      for (const cleanup of cleanups) await cleanup();
    });
    const open = (kind: 'plain' | 'processed', more: Partial<Open>) =>
      WorkerChild.open(language, CODE[language][kind], { modelDir, ...more });

    test('stacks tensors, and answers each with its row of the output', async () => {
      const child = await open('plain', { modelName: 'double.onnx' });
      assert.equal(child.answer.type, 'ready', JSON.stringify(child.answer));
      const answer = await child.run([row(1, 2.5), row(-3, 4)]);
      assert.ok('outcomes' in answer, JSON.stringify(answer));
      assert.deepEqual(answer.outcomes, [{ value: row(2, 5) }, { value: row(-6, 8) }]);
      assert.equal(await child.retire(), 0);
    });

    test('takes arrays stacked by the protocol npy', async () => {
      const child = await open('plain', { modelName: 'double.onnx', transferProto: 'npy' });
      const answer = await child.run([row(0.5, 1)]);
      assert.ok('outcomes' in answer, JSON.stringify(answer));
      assert.deepEqual(answer.outcomes, [{ value: row(1, 2) }]);
    });

    test('several inputs and outputs are dicts by name before and after the model', async () => {
      const child = await open('processed', { modelName: 'two.onnx' });
      const items = [
        [
          [5, 6],
          [1, 2],
        ],
        [
          [0, 0],
          [1, 1],
        ],
      ];
      const answer = await child.run(items);
      assert.ok('outcomes' in answer, JSON.stringify(answer));
      assert.deepEqual(answer.outcomes, [{ value: [6, 8, 4, 4] }, { value: [1, 1, -1, -1] }]);
    });

    test('what does not fit fails its batch with the names of the inputs, and no number is cast', async () => {
      const two = await open('plain', { modelName: 'two.onnx' });
      const failed = await two.run([row(1, 2)]);
      assert.ok('failed' in failed, JSON.stringify(failed));
      assert.match(failed.failed.message, /inputs? \[.*a.*b.*\]/);
      const double = await open('plain', { modelName: 'double.onnx' });
      const cast = await double.run([{ dtype: 'float64', shape: [2], data: Float64Array.of(1, 2) }]);
      assert.ok('failed' in cast, JSON.stringify(cast));
      assert.match(cast.failed.message, /double.*float/s);
    });

    for (const [modelName, expected] of [
      ['', /the name of the ONNX file is missing/],
      ['none.onnx', /none\.onnx/],
      ['broken.onnx', /protobuf/i],
    ] as const) {
      test(`the start fails for the file ${JSON.stringify(modelName)}, and the error says why`, async () => {
        const { answer } = await open('plain', { modelName });
        assert.ok(answer.type === 'failed', JSON.stringify(answer));
        assert.equal(answer.phase, 'get_model');
        assert.match(answer.error.message, expected);
      });
    }

    test('a device that onnxruntime cannot use ends the start', async () => {
      const { answer } = await open('plain', { modelName: 'double.onnx', deviceId: 0 });
      assert.ok(answer.type === 'failed', JSON.stringify(answer));
      assert.match(answer.error.message, /GPU/);
    });
  });
}

/** @param resolve an expression: what becomes of the import of onnxruntime-node */
const resolving = (resolve: string) => `import { registerHooks } from 'node:module';
registerHooks({
  resolve: (name, context, next) => name === 'onnxruntime-node' ? ${resolve} : next(name, context),
});
${CODE.typescript.plain}`;

test('a worker in TypeScript whose project has no onnxruntime-node runs on that of the service', async (t) => {
  const modelDir = await temporaryFolder(t);
  await writeFile(join(modelDir, 'double.onnx'), MODELS['double.onnx']);
  const source = resolving("next(name, { ...context, parentURL: 'file:///nowhere/a.mjs' })");
  const child = await WorkerChild.open('typescript', source, { modelDir, modelName: 'double.onnx' });
  const answer = await child.run([row(1, 2.5)]);
  assert.ok('outcomes' in answer, JSON.stringify(answer));
  assert.deepEqual(answer.outcomes, [{ value: row(2, 5) }]);
});

/** Makes onnxruntime one that is not installed. */
const WITHOUT = {
  // The service has it here, so the import fails before the service's own is looked for.
  typescript: resolving(
    `(() => { throw Object.assign(new Error("Cannot find package 'onnxruntime-node'"), { code: 'ERR_MODULE_NOT_FOUND' }) })()`,
  ),
  python: `import sys
class Without:
    def find_spec(self, name, *args):
        if name == "onnxruntime": raise ModuleNotFoundError("No module named 'onnxruntime'", name=name)
sys.meta_path.insert(0, Without())
${CODE.python.plain}`,
};

for (const [language, skip, expected] of [
  [
    'typescript',
    { skip: false },
    'WKROnnxWorker needs onnxruntime-node: npm install --ignore-scripts onnxruntime-node',
  ],
  [
    'python',
    WITH_PYTHON,
    'WKROnnxWorker needs onnxruntime: pip install onnxruntime (for a GPU: onnxruntime-gpu)',
  ],
] as const) {
  test(`without onnxruntime a worker in ${language} says what to install`, skip, async () => {
    const { answer } = await WorkerChild.open(language, WITHOUT[language], { modelName: 'model.onnx' });
    assert.ok(answer.type === 'failed', JSON.stringify(answer));
    assert.equal(answer.error.message, expected);
  });
}
