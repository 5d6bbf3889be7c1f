/** Loads the converter for a kind of model on demand. */
import { ServingError } from '../../lib/contract/errors.ts';
import type { ConvertOptions } from '../source/convert-options.ts';
import type { FoundModel } from '../source/detect.ts';
import type { Conversion } from './conversion.ts';
import type { TfModel } from './tensorflow/graph.ts';

export type Convert = (found: FoundModel, options: ConvertOptions) => Promise<Conversion>;

/** ONNX needs no conversion. @throws bad_model naming everything that cannot be converted */
export const convertModel: Convert = async (found, options) => {
  switch (found.kind) {
    case 'caffe': {
      const { convertCaffe } = await import('./caffe/convert.ts');
      return convertCaffe(found.directory, options);
    }
    case 'openvino': {
      const { convertOpenvino } = await import('./openvino/convert.ts');
      return convertOpenvino(found.directory, found.files, options);
    }
    case 'bigdl': {
      const { convertBigdl } = await import('./bigdl/convert.ts');
      return convertBigdl(found.directory, options);
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
    case 'pytorch': {
      const { convertPytorch } = await import('./pytorch/convert.ts');
      return convertPytorch(found.directory, found.files[0] as string, options);
    }
    case 'xgboost':
    case 'lightgbm': {
      const { convertTrees } = await import('./trees/read.ts');
      return convertTrees(found, options);
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
