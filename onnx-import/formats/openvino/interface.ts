/**
 * The inputs and outputs of a model by the names that its users know: the name of the tensor if it has one of its own,
 * else that of the layer that makes it, as OpenVINO named them before version 11.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { DType } from '../../../lib/contract/tensor.ts';
import { BATCH } from '../../graph/batch.ts';
import type { Dim, Shape } from '../../graph/value.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import type { Layer, Net } from './net.ts';
import { portKey } from './walk.ts';
import { dtypeNamed } from './weights.ts';

export interface PublicInput {
  /** Of its layer. */
  readonly id: string;
  readonly name: string;
  readonly dtype: DType;
  /** Undefined: the rank is free. */
  readonly shape: Shape | undefined;
  /** Whether the shape is that of the file. */
  readonly isAsDeclared: boolean;
}

export interface PublicOutput {
  readonly name: string;
  /** The port it comes from, as `layer:port`. */
  readonly source: string;
}

export function inputsOf(net: Net, file: string, options: ConvertOptions): PublicInput[] {
  const layers = net.declared.filter(({ type }) => type === 'Parameter' || type === 'Input');
  const inputs = layers.map((layer) => inputOf(layer, net.version, options));
  const known = inputs.map(({ name }) => name);
  const asked = [
    options.inputNames ?? [],
    Object.keys(options.inputShapes ?? {}),
    Object.keys(options.constants ?? {}),
  ].flat();
  const unknown = asked.filter((name) => !known.includes(name));
  if (unknown.length > 0)
    throw badModel(
      `${file}: has no input "${unknown.slice(0, 20).join('", "')}"; its inputs are ${known.join(', ')}`,
    );
  if (inputs.length === 0) throw badModel(`${file}: has no input`);
  return inputs;
}

function inputOf(layer: Layer, version: number, { inputShapes }: ConvertOptions): PublicInput {
  const port = layer.outputs[0];
  if (!port) throw badModel(`input "${layer.name}" has no port`);
  const type = layer.attributes.get('element_type') ?? (port.precision || layer.precision || 'f32');
  const name = publicName(layer, 0, version);
  // Three points are a free rank; ranges of sizes are free sizes.
  const isRanked = layer.attributes.get('shape')?.trim() !== '...';
  const declared = isRanked
    ? port.dims.map((dim, i): Dim => (dim >= 0 ? dim : i === 0 ? BATCH : `${name}_${i}`))
    : undefined;
  const given = inputShapes && Object.hasOwn(inputShapes, name) ? inputShapes[name] : undefined;
  return {
    id: layer.id,
    name,
    dtype: dtypeNamed(type),
    shape: given ?? declared,
    isAsDeclared: given === undefined,
  };
}

export function outputsOf(net: Net, file: string, { outputNames }: ConvertOptions): PublicOutput[] {
  const byPort = new Map(
    net.declared.flatMap((layer) => layer.outputs.map((_, i) => [portKey(layer, i), { layer, i }] as const)),
  );
  const own = net.version >= 10 ? resultsOf(net) : unusedOf(net);
  const outputs = own.map((source) => {
    const port = byPort.get(source);
    if (!port) throw badModel(`${file}: an output comes from port ${source}, which is not there`);
    return { name: publicName(port.layer, port.i, net.version), source };
  });
  if (outputs.length === 0) throw badModel(`${file}: has no output`);
  if (outputNames === undefined) return outputs;
  return outputNames.map((name) => {
    const found = outputs.find((output) => output.name === name);
    if (found) return found;
    for (const [source, { layer, i }] of byPort)
      if (namesOf(layer, i).includes(name)) return { name, source };
    throw badModel(
      `${file}: has no output "${name}"; its outputs are ${outputs.map((output) => output.name).join(', ')}`,
    );
  });
}

function resultsOf(net: Net): string[] {
  return net.declared.flatMap(({ type, sources }) =>
    type === 'Result' && sources[0] !== undefined ? [sources[0]] : [],
  );
}

/** Old versions have no layers for results: every port that no layer takes is one. */
function unusedOf(net: Net): string[] {
  return net.declared.flatMap((layer) =>
    layer.type === 'Const'
      ? []
      : layer.outputs.map((_, i) => portKey(layer, i)).filter((key) => !net.used.has(key)),
  );
}

function namesOf(layer: Layer, i: number): readonly string[] {
  const own = layer.outputs.length > 1 ? `${layer.name}.${i}` : layer.name;
  return [own, ...(layer.outputs[i]?.names ?? [])];
}

/** `Identity:0` is TensorFlow's name for the first output of `Identity`. */
function publicName(layer: Layer, i: number, version: number): string {
  const [own, ...names] = namesOf(layer, i) as [string, ...string[]];
  const bare = names.map((name) => name.replace(/:\d+$/, ''));
  if (version < 11 || bare.includes(own)) return own;
  const plain = names.find((name) => !name.includes(':'));
  return plain ?? bare.toSorted((a, b) => a.length - b.length)[0] ?? own;
}
