/**
 * In: --model, or the modelPath of a config. Out: the ONNX file to measure; a model of another kind is imported first.
 * Trap: what was imported lies in a temporary folder, which has to go whatever becomes of the measurement.
 */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { wrongUse } from '../command.ts';
import type { Output } from '../output.ts';

export interface TuneModel {
  /** As the user named it. */
  readonly name: string;
  readonly file: string;
  readonly bytes: number;
  /** Inputs whose rank the file does not say. */
  readonly shapeless: readonly string[];
}

/** Calls `work` with the model. @throws bad_config, bad_model: there is none, or it cannot be read or converted */
export async function withModel<T>(
  path: string,
  job: JobConfig,
  output: Output,
  signal: AbortSignal,
  work: (model: TuneModel) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-tune-'));
  try {
    const file = await onnxFile(resolve(path), join(folder, 'model'), job, output, signal);
    return await work({ name: path, file, ...(await factsOf(file)) });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function onnxFile(
  path: string,
  out: string,
  job: JobConfig,
  output: Output,
  signal: AbortSignal,
): Promise<string> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'there is no such file or directory' : error.message;
    throw wrongUse(`tune: model ${path}: ${why}`);
  });
  if (found.isFile()) {
    if (path.endsWith('.onnx')) return path;
    throw wrongUse(
      `tune: model ${path}: expected an *.onnx file or a model directory, perhaps ${dirname(path)}`,
    );
  }
  const { detectModel } = await import('../../convert/detect.ts');
  const model = await detectModel(path);
  if (model.kind === 'onnx') return join(path, model.files[0] as string);
  const [{ importHere }, { convertOptions }] = await Promise.all([
    import('../model/import.ts'),
    import('../../convert/options.ts'),
  ]);
  const { directory, passport } = await importHere(
    path,
    { convert: convertOptions(job.import), force: undefined, out, signal },
    output,
  );
  output.note(
    `imported ${path} (${passport.source.format}) to measure it; \`cluster-serving model import\` keeps it`,
  );
  return join(directory, passport.model.file);
}

async function factsOf(file: string): Promise<{ bytes: number; shapeless: readonly string[] }> {
  const [{ readHead, wrongContent }, { readOnnxFacts }] = await Promise.all([
    import('../../lib/registry/onnx-file.ts'),
    import('../../convert/onnx/facts.ts'),
  ]);
  const wrong = wrongContent(await readHead(file));
  if (wrong) throw new ServingError('bad_model', `${file}: expected an ONNX model, found ${wrong}`);
  const { externalFiles, shapelessInputs } = await readOnnxFacts(file);
  const files = [file, ...externalFiles.map((name) => join(dirname(file), name))];
  let bytes = 0;
  for (const each of files)
    bytes += await stat(each).then(
      ({ size }) => size,
      () => 0,
    );
  return { bytes, shapeless: shapelessInputs };
}
