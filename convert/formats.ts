/**
 * Loads the converter for a kind of model on demand. A kind without a converter is refused with instructions for
 * converting the model to ONNX.
 */
import { badModel, ServingError } from '../lib/contract/errors.ts';
import type { Conversion, ConvertOptions } from './conversion.ts';
import type { FoundModel } from './detect.ts';
import { KINDS } from './kinds.ts';
import type { TfModel } from './tensorflow/graph.ts';

export type Convert = (found: FoundModel, options: ConvertOptions) => Promise<Conversion>;

/** ONNX needs no conversion. @throws bad_model naming everything that cannot be converted */
export const convertModel: Convert = async (found, options) => {
  assertImportable(found);
  switch (found.kind) {
    case 'caffe': {
      const { convertCaffe } = await import('./caffe/convert.ts');
      return convertCaffe(found.directory, options);
    }
    case 'tf_saved_model': {
      const { readSavedModel } = await import('./tensorflow/files/saved-model.ts');
      return ofTensorflow(await readSavedModel(found.directory, options), options);
    }
    case 'tf_frozen': {
      const { readFrozenGraph } = await import('./tensorflow/files/frozen.ts');
      return ofTensorflow(await readFrozenGraph(found.directory, options), options);
    }
    case 'tf_checkpoint': {
      const { readCheckpoint } = await import('./tensorflow/files/checkpoint.ts');
      return ofTensorflow(await readCheckpoint(found.directory, options), options);
    }
    default:
      throw new ServingError('internal', `there is no converter for ${found.kind}`);
  }
};

async function ofTensorflow({ graph, files, notes }: TfModel, options: ConvertOptions): Promise<Conversion> {
  const { convertTensorflow } = await import('./tensorflow/convert.ts');
  const conversion = convertTensorflow(graph, options);
  return { ...conversion, files, notes: [...notes, ...conversion.notes] };
}

/** @throws bad_model with instructions for a kind that cannot be imported */
export function assertImportable({ kind, directory, files }: FoundModel): void {
  const { title, recipe } = KINDS[kind];
  if (recipe === undefined) return;
  throw badModel(
    `${directory} holds a model of ${title} (${files.join(', ')}), which this version does not import; ${recipe}`,
  );
}
