/** The layers of sentence-transformers behind its pooling, whose weights lie in a folder of their own. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { decodeTensors } from '../../lib/codecs/safetensors.ts';
import { asError, badModel } from '../../lib/contract/errors.ts';
import { isCount } from '../../lib/contract/present.ts';
import { formatShape, type Tensor } from '../../lib/contract/tensor.ts';
import {
  biasName,
  isActivation,
  LAYER_ACTIVATIONS,
  type Layer,
  MOST_LAYER_BYTES,
  weightName,
} from '../../lib/text/layers.ts';
import { readLimited } from '../files/read-limited.ts';
import { valuesOf } from '../graph/halves.ts';
import { readConfig } from './folder.ts';

export interface ReadLayer {
  readonly layer: Layer;
  readonly weight?: Tensor;
  readonly bias?: Tensor;
}

/** Reads the tensors of a pickle by name, and nothing else of it. */
export type ReadPickle = (folder: string, name: string) => Promise<ReadonlyMap<string, Tensor>>;

/** In the order in which sentence-transformers looks for them. */
export const WEIGHT_FILES = ['model.safetensors', 'pytorch_model.bin'] as const;
const SAVE_AGAIN =
  'save the model again with `SentenceTransformer(...).save_pretrained(...)`, which writes model.safetensors';

/** The weights of a chain by their names in the file beside the model. */
export function layerTensors(layers: readonly ReadLayer[]): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  for (const [place, { weight, bias }] of layers.entries()) {
    if (weight) tensors.set(weightName(place), weight);
    if (bias) tensors.set(biasName(place), bias);
  }
  return tensors;
}

/** @param path of the module's folder, as modules.json names it. @throws bad_model for a layer that is not served */
export async function readLayer(
  folder: string,
  kind: 'Dense' | 'LayerNorm' | 'Normalize',
  path: string,
  readPickle: ReadPickle,
): Promise<ReadLayer> {
  if (kind === 'Normalize') return { layer: { kind: 'normalize' } };
  if (!/^[\w-]{1,64}$/.test(path))
    throw badModel(`modules.json: expected the path of a folder for the module ${kind}`);
  const weights = () => readWeights(folder, path, readPickle);
  return kind === 'Dense' ? readDense(folder, path, weights) : readLayerNorm(folder, path, weights);
}

type Weights = () => Promise<ReadonlyMap<string, Tensor>>;

async function readDense(folder: string, path: string, weights: Weights): Promise<ReadLayer> {
  const place = `${path}/config.json`;
  const {
    in_features: from,
    out_features: width,
    bias: hasBias = true,
    activation_function: named = 'torch.nn.modules.activation.Tanh',
    module_input_name: input = 'sentence_embedding',
    module_output_name: output = 'sentence_embedding',
  } = await readConfig(folder, place);
  if (!isCount(from) || !isCount(width) || from === 0 || width === 0)
    throw badModel(`${place}: expected in_features and out_features`);
  if (input !== 'sentence_embedding' || (output ?? input) !== 'sentence_embedding')
    throw badModel(
      `${place}: a Dense of ${String(input).slice(0, 80)} is not served, only one of sentence_embedding`,
    );
  const activation = /^torch\.nn\.modules\.\w+\.(\w+)$/.exec(String(named))?.[1] ?? '';
  if (!isActivation(activation))
    throw badModel(
      `${place}: the activation ${JSON.stringify(named)?.slice(0, 80)} is not served; expected one of torch.nn: ${LAYER_ACTIVATIONS.join(', ')}`,
    );
  const tensors = await weights();
  const weight = floats(tensors, `${path}: linear.weight`, [width, from]);
  const layer = { kind: 'dense', width, activation } as const;
  return hasBias === false
    ? { layer, weight }
    : { layer, weight, bias: floats(tensors, `${path}: linear.bias`, [width]) };
}

async function readLayerNorm(folder: string, path: string, weights: Weights): Promise<ReadLayer> {
  const { dimension } = await readConfig(folder, `${path}/config.json`);
  if (!isCount(dimension)) throw badModel(`${path}/config.json: expected a dimension`);
  const tensors = await weights();
  const [weight, bias] = ['norm.weight', 'norm.bias'].map((name) =>
    floats(tensors, `${path}: ${name}`, [dimension]),
  );
  return { layer: { kind: 'layer_norm' }, ...(weight && bias && { weight, bias }) };
}

/** @param place ends with the tensor's name. */
function floats(tensors: ReadonlyMap<string, Tensor>, place: string, shape: readonly number[]): Tensor {
  const tensor = tensors.get(place.slice(place.indexOf(':') + 2));
  if (!tensor) throw badModel(`${place}: there is no such tensor; ${SAVE_AGAIN}`);
  const isFloat = /^float(16|32|64)$/.test(tensor.dtype);
  if (!isFloat || tensor.shape.join() !== shape.join())
    throw badModel(
      `${place}: expected floats ${formatShape(shape)}, found ${tensor.dtype} ${formatShape(tensor.shape)}`,
    );
  return { dtype: 'float32', shape, data: Float32Array.from(valuesOf(tensor), Number) };
}

async function readWeights(
  folder: string,
  path: string,
  readPickle: ReadPickle,
): Promise<ReadonlyMap<string, Tensor>> {
  const file = WEIGHT_FILES.find((name) => existsSync(join(folder, path, name)));
  if (file === undefined)
    throw badModel(`${path}: expected the weights ${WEIGHT_FILES.join(' or ')}, found none; ${SAVE_AGAIN}`);
  const name = `${path}/${file}`;
  const bytes = await readLimited(folder, name, MOST_LAYER_BYTES);
  if (file === 'pytorch_model.bin') return readPickle(folder, name);
  try {
    return decodeTensors(bytes);
  } catch (error) {
    throw badModel(`${name}: ${asError(error).message}`, { cause: error });
  }
}
