/** Reads the parts of a version that clients see: its inputs and outputs, the names of columns and classes, how it reads pictures and texts. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { OnnxRunner } from '../../lib/compose/onnx.ts';
import { TEXT_FILE } from '../../lib/contract/texts.ts';
import type { ModelNames } from '../../lib/contract/values.ts';
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import { TOKENIZER_FILE } from '../../lib/text/part.ts';

/** An input or an output. */
export interface Port {
  readonly name: string;
  readonly dtype: string;
  /** A text is a free dimension. */
  readonly shape: readonly (number | string)[];
  readonly isText: boolean;
  readonly optional: boolean;
}

export interface Face {
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly names: ModelNames;
  readonly image: ImageChoice;
  /** Settings of texts, as the file beside the model has them, and the digest of its tokenizer. */
  readonly text: Readonly<Record<string, unknown>>;
  /** True if records may share a run. */
  readonly sharesRuns: boolean;
}

/** @param file the model that the runner has open */
export async function faceOf(file: string, runner: OnnxRunner): Promise<Face> {
  const folder = dirname(file);
  const port = ({ name, dtype, shape, isText = false, optional = false }: OnnxRunner['inputs'][number]) => ({
    name,
    dtype,
    shape,
    isText,
    optional,
  });
  const settings: unknown = JSON.parse((await contentOf(join(folder, TEXT_FILE)))?.toString() ?? '{}');
  const tokenizer = await contentOf(join(folder, TOKENIZER_FILE));
  const digest = tokenizer && createHash('sha256').update(tokenizer).digest('hex').slice(0, 12);
  return {
    inputs: runner.inputs.map(port),
    outputs: runner.outputs.map(port),
    names: runner.names,
    image: runner.image,
    text: { ...Object(settings), ...(digest && { tokenizer: digest }) },
    sharesRuns: runner.separable,
  };
}

function contentOf(path: string): Promise<Buffer | undefined> {
  return readFile(path).catch(() => undefined);
}
