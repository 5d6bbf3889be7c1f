/** Finds the ONNX file to measure: --model, or the modelPath of a config. A model of another kind is imported first. */
import { stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { axesOf, type JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import type { VerifyOptions } from '../../onnx-import/verify/verify.ts';
import { wrongUse } from '../command.ts';
import type { Output } from '../output.ts';

export interface TuneModel {
  /** The name that the user gave. */
  readonly name: string;
  readonly file: string;
  readonly bytes: number;
  /** Inputs of unknown rank. */
  readonly shapeless: readonly string[];
  readonly verification: Verification;
  /** How its pictures are prepared, as it is stored with it. */
  readonly image: ImageChoice;
}

/** Calls `work` with the model. @throws bad_config, bad_model when there is none or it cannot be read or converted */
export async function withModel<T>(
  { name, path: given }: { readonly name: string; readonly path: string },
  job: JobConfig,
  output: Output,
  signal: AbortSignal,
  work: (model: TuneModel) => Promise<T>,
): Promise<T> {
  const path = resolve(given);
  const { batchAxes } = axesOf(job);
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'there is no such file or directory' : error.message;
    throw wrongUse(`tune: model ${path}: ${why}`);
  });
  if (found.isFile()) {
    if (path.endsWith('.onnx')) return work({ name, ...(await factsOf(path, { batchAxes, signal })) });
    const expected = `expected an *.onnx file or a model directory, perhaps ${dirname(path)}`;
    throw wrongUse(`tune: model ${path}: ${expected}`);
  }
  const { needsImport } = await import('../../onnx-import/detect.ts');
  const { findModelFile } = await import('../../lib/registry/onnx-file.ts');
  if (!(await needsImport(path)))
    return work({ name, ...(await factsOf(await findModelFile(path), { batchAxes, signal })) });
  const { withImport } = await import('../model/import.ts');
  const { convertOptions } = await import('../../onnx-import/options.ts');
  const options = { convert: convertOptions(job.import), job, force: undefined, signal };
  return withImport(path, options, output, async ({ directory, importReport }) => {
    output.note(
      `imported ${path} (${importReport.source.format}) to measure it; \`cluster-serving model import\` keeps it`,
    );
    const file = join(directory, importReport.model.file);
    return work({ name, ...(await factsOf(file, { known: importReport.verification, batchAxes, signal })) });
  });
}

async function factsOf(file: string, options: VerifyOptions): Promise<Omit<TuneModel, 'name'>> {
  const { readHead, wrongContent } = await import('../../lib/registry/onnx-file.ts');
  const { readOnnxFacts } = await import('../../onnx-import/onnx/facts.ts');
  const wrong = wrongContent(await readHead(file));
  if (wrong) throw new ServingError('bad_model', `${file}: expected an ONNX model, found ${wrong}`);
  const { externalFiles, shapelessInputs: shapeless } = await readOnnxFacts(file);
  const { modelBytes } = await import('../../onnx-import/check/work.ts');
  const bytes = await modelBytes(file, externalFiles);
  const { verifyModel } = await import('../../onnx-import/verify/verify.ts');
  const { readImageFile } = await import('../../lib/registry/image-file.ts');
  const image = await readImageFile(dirname(file));
  return { file, bytes, shapeless, image, verification: await verifyModel(file, options) };
}
