/**
 * Converts a flat TensorFlow graph, whatever file it came from, to an ONNX graph. Old graphs also have inputs that
 * are not data, such as dropout's keep_prob and training flags; these become constants with their serving values.
 */
import type { DType, Tensor } from '../../../lib/contract/tensor.ts';
import { elementCount, formatShape } from '../../../lib/contract/tensor.ts';
import { GraphBuilder } from '../../graph/builder.ts';
import { tensorOf } from '../../graph/numbers.ts';
import type { Body, Shape, Value } from '../../graph/value.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import type { Conversion, ImageProposal } from '../conversion.ts';
import { Problems } from '../problems.ts';
import { withoutFrames } from './frames.ts';
import type { TfGraph, TfInput } from './graph.ts';
import { Layouts } from './ops/layout.ts';
import { refuse } from './ops/refuse.ts';
import type { Facts } from './ops/rule.ts';
import { demandedShape } from './shape-requirements.ts';
import { servingValue } from './switches.ts';
import { type Conversions, Walk } from './walk.ts';

export function convertTensorflow(given: TfGraph, options: ConvertOptions): Conversion {
  const g = new GraphBuilder();
  const problems = new Problems(given.file);
  const tf = problems.collect('while', 'loops', () => withoutFrames(given)) ?? given;
  problems.throwIfAny();
  const facts: Facts = {
    ranges: new WeakMap(),
    reserved: new WeakMap(),
    collected: new WeakMap(),
    spaced: new WeakMap(),
    arrays: new WeakMap(),
    unsized: new WeakSet(),
    declared: new WeakMap(),
    counting: new WeakMap(),
    tables: new WeakMap(),
  };
  const shared: Conversions = {
    tf,
    problems,
    notes: [],
    facts,
    work: { calls: 0, steps: 0, searches: 0, at: undefined },
  };
  const walk = new Walk(shared, g, new Layouts());
  for (const input of tf.inputs) {
    const made = problems.collect('Placeholder', input.name, () => inputValue(g, input, options, shared));
    if (made) walk.values.set(input.tensor, made);
  }
  walk.run(tf.nodes);
  const results = tf.outputs.map(({ name, tensor }) => ({
    name,
    value: problems.collect('output', name, () => outputValue(walk, tensor, problems)),
  }));
  problems.throwIfAny();
  for (const { name, value } of results) if (value) g.output(name, value);
  const graph = g.finish();
  if (isRandom(graph))
    shared.notes.push('the model draws random numbers: the same input gives another result each time');
  const image = imageOf(graph.inputs);
  return {
    graph,
    files: [tf.file],
    notes: [...new Set([...shared.notes, ...g.notes])],
    ...(image ? { image } : {}),
  };
}

/** Random operations may also be inside a loop or one branch of a condition. */
function isRandom({ nodes }: Body): boolean {
  return nodes.some(
    ({ op, attributes }) =>
      op.startsWith('Random') ||
      Object.values(attributes).some(
        (value) => typeof value === 'object' && 'body' in value && isRandom(value.body),
      ),
  );
}

function outputValue(walk: Walk, tensor: string, problems: Problems): Value | undefined {
  const value = walk.result(tensor);
  if (!value) return problems.found.length > 0 ? undefined : refuse(`no node gives tensor "${tensor}"`);
  return value.name === '' ? refuse('is a list, not a tensor') : value;
}

function inputValue(
  g: GraphBuilder,
  input: TfInput,
  options: ConvertOptions,
  { tf, notes }: Conversions,
): Value {
  const { name, dtype } = input;
  const said = options.inputShapes?.[name] ?? input.shape;
  const shape = said ?? demandedShape(tf, input);
  const fixed = fixedValue(tf, shape ? { ...input, shape } : input, options);
  if (fixed) {
    notes.push(`input "${name}" is replaced by ${String(fixed.data[0])}`);
    return g.constant(fixed, name);
  }
  if (!said && shape)
    notes.push(`input "${name}" has no shape in the file; what takes it takes ${formatShape(shape)}`);
  return g.input(name, dtype, shape);
}

function fixedValue(tf: TfGraph, input: TfInput, options: ConvertOptions): Tensor | undefined {
  const { name, dtype, shape } = input;
  const given = options.constants?.[name];
  if (given !== undefined) return filled(name, dtype, shape, given);
  if (options.inputNames?.includes(name) || (shape && shape.length > 0)) return undefined;
  const value = servingValue(tf, input);
  return value === undefined ? undefined : filled(name, dtype, [], value);
}

function filled(name: string, dtype: DType, shape: Shape = [], value: number): Tensor {
  if (dtype === 'string') return refuse(`input "${name}" takes texts and cannot be the number ${value}`);
  const sizes = shape.map((dim) =>
    typeof dim === 'number' ? dim : refuse(`input "${name}" has a free size and cannot be one number`),
  );
  const count = elementCount(sizes, 1024 * 1024);
  return tensorOf(dtype, sizes, new Float64Array(count).fill(value));
}

/** An image is the model's only input: float32, four dimensions, 1 or 3 channels. */
function imageOf(inputs: readonly Value[]): ImageProposal | undefined {
  const images = inputs.filter(({ dtype, shape }) => dtype === 'float32' && shape?.length === 4);
  const [image] = images;
  if (!image?.shape || images.length !== 1 || inputs.length !== 1) return undefined;
  const [, second, , last] = image.shape;
  const isCount = (dim: unknown) => dim === 1 || dim === 3;
  if (isCount(last)) return { layout: 'hwc', channels: last === 1 ? 'grey' : 'bgr' };
  return isCount(second) ? { layout: 'chw', channels: second === 1 ? 'grey' : 'bgr' } : undefined;
}
