/** Whether a model whose batch was freed may be served with it. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type ProofOptions, prove } from '../batching/verdict.ts';
import { type CheckOptions, checkOnnx } from '../check/check.ts';
import type { Conversion } from '../formats/conversion.ts';
import type { Body } from '../graph/value.ts';
import { writeOnnx } from '../onnx/write.ts';

interface FreeRowsOptions extends CheckOptions {
  readonly proof?: ProofOptions | undefined;
}

/** The conversion itself, or with the batch of its file when the freed one cannot be shown to be right. @throws bad_model */
export async function withProvenRows(
  conversion: Conversion,
  folder: string,
  options: FreeRowsOptions,
): Promise<Conversion> {
  const { graph, otherwise } = conversion;
  return otherwise && !(await hasFreeRows(graph, folder, options)) ? otherwise() : conversion;
}

/**
 * Writes the model in `folder` for a while: its rows must be proven to be independent of each other, and it must run.
 * @throws bad_model when onnxruntime cannot load it
 */
async function hasFreeRows(graph: Body, folder: string, options: FreeRowsOptions): Promise<boolean> {
  const file = join(folder, 'free.onnx');
  const { files } = await writeOnnx(graph, file, { producerVersion: '' });
  try {
    if (prove(file, options.proof).verdict.verdict !== 'proven') return false;
    const { notRun } = await checkOnnx(file, { ...options, reference: undefined, measure: false });
    return notRun === undefined;
  } finally {
    for (const path of files) await rm(path, { force: true });
  }
}
