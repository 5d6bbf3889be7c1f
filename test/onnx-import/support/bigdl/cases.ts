/** Models that BigDL itself saved, with its own answers (test/onnx-import/bigdl/generate), and how to run them here. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { openSession } from '../../../../lib/inference/session.ts';
import { convertBigdl } from '../../../../onnx-import/formats/bigdl/convert.ts';
import type { Conversion } from '../../../../onnx-import/formats/conversion.ts';
import { writeOnnx } from '../../../../onnx-import/onnx/write.ts';
import type { ConvertOptions } from '../../../../onnx-import/source/convert-options.ts';

interface Numbers {
  readonly shape: readonly number[];
  readonly data: readonly (number | string)[];
}

export interface Case {
  readonly name: string;
  /** In base64, like `weights`. */
  readonly model: string;
  readonly weights?: string;
  readonly inputs: readonly Numbers[];
  readonly outputs: readonly Numbers[];
  /** Whether BigDL answered the same input differently the second time. */
  readonly unstable?: boolean;
}

const FILE = new URL('../../bigdl/cases.jsonl.gz', import.meta.url);

export function readCases(): Case[] {
  const lines = gunzipSync(readFileSync(FILE)).toString('utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line.replaceAll(/(?<=[[,])NaN/g, '"NaN"')) as Case);
}

export function tensorOf({ shape, data }: Numbers): Tensor {
  return { dtype: 'float32', shape, data: Float32Array.from(data, Number) };
}

/** Converts a model's bytes as the importer does. */
export async function convertBytes(
  model: Uint8Array,
  options: ConvertOptions = {},
  weights?: Uint8Array,
): Promise<Conversion> {
  const folder = await mkdtemp(join(tmpdir(), 'cs-bigdl-'));
  try {
    await writeFile(join(folder, 'net.bigdl'), model);
    if (weights) await writeFile(join(folder, 'net.bin'), weights);
    return await convertBigdl(folder, options);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export function shapesOf(inputs: readonly { readonly shape: readonly number[] }[]): ConvertOptions {
  const name = (i: number) => (inputs.length === 1 ? 'input' : `input_${i + 1}`);
  return { inputShapes: Object.fromEntries(inputs.map(({ shape }, i) => [name(i), shape])) };
}

/** Runs a converted model on several lists of inputs. */
export async function runGraph(
  { graph }: Conversion,
  feeds: readonly (readonly Tensor[])[],
): Promise<Tensor[][]> {
  const folder = await mkdtemp(join(tmpdir(), 'cs-bigdl-'));
  try {
    const path = join(folder, 'model.onnx');
    await writeOnnx(graph, path, { producerVersion: 'test' });
    const session = await openSession(path, { threads: 1 });
    try {
      const results: Tensor[][] = [];
      for (const feed of feeds) results.push([...(await session.run(feed))]);
      return results;
    } finally {
      await session.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
