/**
 * The config.pbtxt of a model in a repository of Triton: which file of which version, and what it says of the model's inputs,
 * outputs and batches.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import { textLabels, textOf } from '../../lib/registry/names.ts';
import type { Graph } from '../graph/rows/node.ts';
import type { GivenShapes } from '../samples/given-sizes.ts';
import { has, messageOf, messagesOf, numberOf, plainNumbersOf, textOf as textIn } from '../wire/message.ts';
import type { Message, Table } from '../wire/table.ts';
import { readText } from '../wire/text.ts';

export const CONFIG_PBTXT = 'config.pbtxt';

const RESHAPE: Table = { 1: { name: 'shape', type: 'int64', repeated: true } };
const PORT: Table = {
  1: { name: 'name', type: 'string' },
  3: { name: 'dims', type: 'int64', repeated: true },
  4: { name: 'label_filename', type: 'string' },
  5: { name: 'reshape', type: () => RESHAPE },
};
const SPECIFIC: Table = { 1: { name: 'versions', type: 'int64', repeated: true } };
const POLICY: Table = { 3: { name: 'specific', type: () => SPECIFIC } };
const CONFIG: Table = {
  1: { name: 'name', type: 'string' },
  2: { name: 'platform', type: 'string' },
  3: { name: 'version_policy', type: () => POLICY },
  4: { name: 'max_batch_size', type: 'int32' },
  5: { name: 'input', type: () => PORT, repeated: true },
  6: { name: 'output', type: () => PORT, repeated: true },
  8: { name: 'default_model_filename', type: 'string' },
  17: { name: 'backend', type: 'string' },
};

interface Port {
  readonly name: string;
  readonly dims: readonly number[];
}

export interface TritonFacts {
  /** 0: the model has no axis of a batch. */
  readonly maxBatchSize: number;
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  /** By output. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
}

export interface TritonConfig extends TritonFacts {
  readonly file: string;
  /** The versions that may serve; undefined: all. */
  readonly versions: readonly number[] | undefined;
}

/** @throws bad_model for a config of another platform, naming what to do, and for one that cannot be read */
export async function readTriton(folder: string): Promise<TritonConfig> {
  const text = await readFile(join(folder, CONFIG_PBTXT), 'utf8');
  const config = readText(text, CONFIG, { what: CONFIG_PBTXT, onUnknown: () => undefined });
  const platform = textIn(config, 'platform') || textIn(config, 'backend');
  if (!/^(onnxruntime(_onnx)?)?$/.test(platform)) throw badModel(otherPlatform(folder, platform));
  const outputs = messagesOf(config, 'output');
  const policy = messageOf(config, 'version_policy');
  const specific = policy && messageOf(policy, 'specific');
  return {
    file: textIn(config, 'default_model_filename') || 'model.onnx',
    versions: specific && plainNumbersOf(specific, 'versions'),
    maxBatchSize: numberOf(config, 'max_batch_size', 0),
    inputs: messagesOf(config, 'input').map(portOf),
    outputs: outputs.map(portOf),
    labels: Object.fromEntries(
      (await Promise.all(outputs.map((output) => labelsOf(folder, output)))).filter(
        (entry) => entry !== undefined,
      ),
    ),
  };
}

function portOf(message: Message): Port {
  const reshape = messageOf(message, 'reshape');
  const dims =
    reshape && has(reshape, 'shape') ? plainNumbersOf(reshape, 'shape') : plainNumbersOf(message, 'dims');
  return { name: textIn(message, 'name'), dims };
}

async function labelsOf(folder: string, output: Message) {
  const file = textIn(output, 'label_filename');
  if (file === '' || file.includes('/')) return undefined;
  const text = await textOf(folder, file);
  const labels = text === undefined ? undefined : textLabels(text);
  if (!labels)
    throw badModel(`${CONFIG_PBTXT}: label_filename ${file}: there is no such file with one label a line`);
  return [textIn(output, 'name'), labels] as const;
}

const ELSEWHERE: Readonly<Record<string, string>> = {
  tensorflow_savedmodel: 'name its SavedModel: 1/model.savedmodel',
  tensorflow_graphdef: 'name its graph: 1/model.graphdef, as a copy with the ending .pb',
  tensorflow: 'name its SavedModel: 1/model.savedmodel',
  pytorch_libtorch: 'name its TorchScript: 1/model.pt, with --input name:shape',
  pytorch: 'name its TorchScript: 1/model.pt, with --input name:shape',
  openvino: 'name the folder of model.xml and model.bin: 1',
  python: 'its code is Python: serve it as a worker, or export its model to ONNX',
  ensemble: 'it joins several models: import each of them, and call one after the other',
  tensorrt_plan: 'a plan belongs to one kind of GPU: export the model that it was made of to ONNX',
};

function otherPlatform(folder: string, platform: string): string {
  const advice = ELSEWHERE[platform.toLowerCase()] ?? 'export the model to ONNX';
  return `${join(folder, CONFIG_PBTXT)}: the platform ${JSON.stringify(platform)} is not onnxruntime_onnx; ${advice}`;
}

/** What the config says of sizes that the file leaves free. @throws bad_model where the two differ */
export function tritonSizes(
  { maxBatchSize, inputs, outputs }: TritonFacts,
  model: Pick<Graph, 'inputs' | 'outputs'>,
): NonNullable<GivenShapes> {
  const strange = outputs.find(({ name }) => !model.outputs.includes(name));
  if (strange) throw other('output', strange.name, model.outputs);
  const sizes: Record<string, readonly (number | string)[]> = {};
  for (const { name, dims } of inputs) {
    const own = model.inputs.find((input) => input.name === name);
    if (!own)
      throw other(
        'input',
        name,
        model.inputs.map((input) => input.name),
      );
    const { shape } = own;
    if (!shape || shape.length === 0) continue;
    const said = maxBatchSize > 0 ? [-1, ...dims] : dims;
    const isSame = (size: number, axis: number) =>
      size < 0 || typeof shape[axis] === 'string' || shape[axis] === size;
    if (said.length !== shape.length || !said.every(isSame)) {
      const behind = maxBatchSize > 0 ? ' behind the batch' : '';
      throw badModel(
        `${CONFIG_PBTXT}: input "${name}" has the dims ${formatShape(dims)}${behind}, and the model ${formatShape(shape)}; correct the config`,
      );
    }
    sizes[name] = shape.map((size, axis) => {
      const given = said[axis] ?? -1;
      if (typeof size === 'number') return size;
      return axis > 0 && given > 0 ? given : size || `size${axis}`;
    });
  }
  return sizes;
}

function other(what: string, name: string, names: readonly string[]) {
  return badModel(
    `${CONFIG_PBTXT}: the model has no ${what} "${name}"; it has ${names.join(', ')}; correct the config`,
  );
}
