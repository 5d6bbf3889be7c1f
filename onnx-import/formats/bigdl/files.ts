/** Finds the model and its optional separate weights in a model's directory. */
import { readdir } from 'node:fs/promises';
import { badModel } from '../../../lib/contract/errors.ts';
import { readLimited } from '../../files/read-limited.ts';
import { modelFiles, weightFiles } from '../../source/bigdl-weights.ts';

/** A protobuf message ends at 2 GB, and so does a Java array. */
const MAX_BYTES = 2 ** 31 - 1;

export interface SourceFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** @throws bad_model unless the directory holds exactly one model and at most one file of weights */
export async function readFiles(
  directory: string,
): Promise<{ readonly model: SourceFile; readonly weights: SourceFile | undefined }> {
  let names: string[];
  try {
    names = (await readdir(directory)).filter((name) => !name.startsWith('.')).sort();
  } catch (error) {
    throw badModel(`cannot read the folder ${directory}`, { cause: error });
  }
  const [model, ...others] = modelFiles(names);
  const [weights, ...more] = weightFiles(names);
  if (model === undefined || others.length > 0 || more.length > 0)
    throw badModel(
      `expected one .model or .bigdl file and at most one file of weights, found ${[...modelFiles(names), ...weightFiles(names)].join(', ') || 'none'}`,
    );
  return {
    model: { name: model, bytes: await readLimited(directory, model, MAX_BYTES) },
    weights:
      weights === undefined
        ? undefined
        : { name: weights, bytes: await readLimited(directory, weights, MAX_BYTES) },
  };
}
