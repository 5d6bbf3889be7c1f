/** Models that torch saved, with what it answers: reads them, imports them and compares. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { importModel } from '../../../../onnx-import/import/import.ts';
import { models, UNMEASURED } from '../../../support/models.ts';
import { temporaryFolder } from '../../../support/runner.ts';

interface Numbers {
  /** Default: float32. */
  readonly dtype?: 'float32' | 'int64';
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

export interface Case {
  readonly name: string;
  /** The bytes of the archive as characters, which gzip packs better than base64. */
  readonly model: string;
  readonly inputs: Readonly<Record<string, Numbers>>;
  readonly outputs: readonly Numbers[];
}

type Data = Float32Array | BigInt64Array;

/** The parts in use of onnxruntime, which is a dependency of lib alone. */
interface Runtime {
  readonly InferenceSession: {
    create(file: string): Promise<{
      run(
        feeds: object,
      ): Promise<Readonly<Record<string, { readonly data: Data; readonly dims: readonly number[] }>>>;
      release(): Promise<void>;
    }>;
  };
  readonly Tensor: new (dtype: string, data: Data, shape: readonly number[]) => object;
}

export const ort: Runtime = createRequire(new URL('../../../../lib/package.json', import.meta.url))(
  'onnxruntime-node',
);

export function readCases(file: URL): Case[] {
  return JSON.parse(gunzipSync(readFileSync(file)).toString());
}

/** Imports the archive, and returns the file of ONNX. */
export async function importArchive(
  t: TestContext,
  file: string,
  bytes: Buffer,
  inputShapes?: Readonly<Record<string, readonly number[]>>,
): Promise<string> {
  const folder = await temporaryFolder(t);
  const out = join(await temporaryFolder(t), 'out');
  await writeFile(join(folder, file), bytes);
  const convert = inputShapes ? { inputShapes } : {};
  const { directory } = await importModel(folder, { out, convert, process: models, ...UNMEASURED });
  return join(directory, 'model.onnx');
}

/** Each output within 1e-5 of the spread of what torch answers. */
export async function assertAnswers(t: TestContext, model: string, { inputs, outputs }: Case): Promise<void> {
  const session = await ort.InferenceSession.create(model);
  t.after(() => session.release());
  const feeds = Object.entries(inputs).map(([key, { dtype = 'float32', shape, data }]) => {
    const values = dtype === 'int64' ? BigInt64Array.from(data, BigInt) : Float32Array.from(data);
    return [key, new ort.Tensor(dtype, values, shape)];
  });
  const answers = Object.values(await session.run(Object.fromEntries(feeds)));
  assert.equal(answers.length, outputs.length);
  for (const [i, { shape, data }] of outputs.entries()) {
    const answer = answers[i];
    assert.deepEqual(answer?.dims, shape);
    const mean = data.reduce((sum, value) => sum + value, 0) / data.length;
    const spread = Math.sqrt(data.reduce((sum, value) => sum + (value - mean) ** 2, 0) / data.length) || 1;
    for (const [at, value] of data.entries()) {
      const difference = Math.abs(Number(answer?.data[at]) - value) / spread;
      assert.ok(difference < 1e-5, `output ${i}, element ${at}: off by ${difference} of the spread`);
    }
  }
}
