/** Modules of torch.jit.script answer as torch does (scripted.py), within 1e-5 of the spread of its answer. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { importModel } from '../../../onnx-import/import/import.ts';
import { models, UNMEASURED } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';

interface Numbers {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

interface Case {
  readonly name: string;
  /** The bytes of the archive as characters, which gzip packs better than base64. */
  readonly model: string;
  readonly inputs: Readonly<Record<string, Numbers>>;
  readonly output: Numbers;
}

/** The parts in use of onnxruntime, which is a dependency of lib alone. */
interface Runtime {
  readonly InferenceSession: {
    create(file: string): Promise<{
      run(
        feeds: object,
      ): Promise<Readonly<Record<string, { readonly data: Float32Array; readonly dims: readonly number[] }>>>;
      release(): Promise<void>;
    }>;
  };
  readonly Tensor: new (dtype: 'float32', data: Float32Array, shape: readonly number[]) => object;
}

const ort: Runtime = createRequire(new URL('../../../lib/package.json', import.meta.url))('onnxruntime-node');
const cases: readonly Case[] = JSON.parse(
  gunzipSync(readFileSync(new URL('scripted.json.gz', import.meta.url))).toString(),
);

suite('modules of torch.jit.script', () => {
  for (const { name, model, inputs, output } of cases) {
    test(`${name}: the converted model answers as torch does`, async (t) => {
      const folder = await temporaryFolder(t);
      const out = join(await temporaryFolder(t), 'out');
      await writeFile(join(folder, 'model.pt'), Buffer.from(model, 'latin1'));
      const entries = Object.entries(inputs);
      const inputShapes = Object.fromEntries(entries.map(([key, { shape }]) => [key, shape]));
      const options = { out, convert: { inputShapes }, process: models, ...UNMEASURED };
      const { directory } = await importModel(folder, options);
      const session = await ort.InferenceSession.create(join(directory, 'model.onnx'));
      t.after(() => session.release());
      const feeds = entries.map(([key, { shape, data }]) => [
        key,
        new ort.Tensor('float32', Float32Array.from(data), shape),
      ]);
      const [answer] = Object.values(await session.run(Object.fromEntries(feeds)));
      assert.deepEqual(answer?.dims, output.shape);
      const mean = output.data.reduce((sum, value) => sum + value, 0) / output.data.length;
      const spread = Math.sqrt(
        output.data.reduce((sum, value) => sum + (value - mean) ** 2, 0) / output.data.length,
      );
      for (const [i, value] of output.data.entries()) {
        const difference = Math.abs(Number(answer?.data[i]) - value) / spread;
        assert.ok(difference < 1e-5, `element ${i}: off by ${difference} of the spread`);
      }
    });
  }
});
