/** Converts a small TorchScript archive and runs the result. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { openSession } from '../../../../lib/inference/session.ts';
import type { Conversion } from '../../../../onnx-import/formats/conversion.ts';
import { convertPytorch } from '../../../../onnx-import/formats/pytorch/convert.ts';
import { writeOnnx } from '../../../../onnx-import/onnx/write.ts';
import type { ConvertOptions } from '../../../../onnx-import/source/convert-options.ts';
import { temporaryFolder } from '../../../support/runner.ts';
import { type Script, scriptEntries, zip } from './archive.ts';

export async function convertScript(
  t: TestContext,
  script: Script,
  options: ConvertOptions,
): Promise<Conversion> {
  return convertBytes(t, zip(scriptEntries(script)), options);
}

export async function convertBytes(
  t: TestContext,
  bytes: Buffer,
  options: ConvertOptions,
): Promise<Conversion> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.pt'), bytes);
  return convertPytorch(folder, 'model.pt', options);
}

/** The numbers of every output for one input `x`. */
export async function runScript(
  t: TestContext,
  script: Script,
  x: Tensor,
  shape: readonly (number | string)[] = x.shape,
): Promise<number[][]> {
  const { graph } = await convertScript(t, script, { inputShapes: { x: shape } });
  const path = join(await temporaryFolder(t), 'model.onnx');
  await writeOnnx(graph, path, { producerVersion: 'test' });
  const session = await openSession(path, { threads: 1 });
  try {
    const results = await session.run(session.inputs.length === 0 ? [] : [x]);
    return results.map(({ data }) => Array.from(data as ArrayLike<number | bigint>, Number));
  } finally {
    await session.close();
  }
}

export function floats(shape: readonly number[], data: readonly number[]): Tensor {
  return { dtype: 'float32', shape, data: Float32Array.from(data) };
}
