/**
 * Convolution, Deconvolution, InnerProduct and Embed, which hold most of a file's weights. Caffe's weight layouts are
 * ONNX's, so weights are views of the file's buffer and never transposed.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { formatShape } from '../../../lib/contract/tensor.ts';
import { assertGroups, convolve, convolveBack } from '../../emit/convolution.ts';
import { assertWindows, type PaddedWindows } from '../../emit/windows.ts';
import { axisIn, fixedProduct, merged, reshape } from '../../graph/layout.ts';
import { fixed, known } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters, WantedBlob } from '../node.ts';

/** One size per spatial axis: `pad_h` and `pad_w`, or `pad` given once or per axis. */
function perAxis(
  parameters: Parameters,
  name: string,
  list: string,
  count: number,
  fallback: number,
): number[] {
  const [h, w] = [`${name}_h`, `${name}_w`];
  if (parameters.has(h) || parameters.has(w)) {
    if (count !== 2) throw badModel(`${h} and ${w} need two spatial axes, got ${count}`);
    return [parameters.number(h, fallback), parameters.number(w, fallback)];
  }
  const values = parameters.numbers(list);
  if (values.length <= 1) return Array.from({ length: count }, () => values[0] ?? fallback);
  if (values.length === count) return values;
  throw badModel(`${list} is given ${values.length} times for ${count} spatial axes`);
}

function windowsOf(parameters: Parameters, count: number): PaddedWindows {
  const pad = perAxis(parameters, 'pad', 'pad', count, 0);
  const windows = {
    kernel: perAxis(parameters, 'kernel', 'kernel_size', count, 0),
    strides: perAxis(parameters, 'stride', 'stride', count, 1),
    dilations: perAxis(parameters, 'dilation', 'dilation', count, 1),
    pads: [...pad, ...pad],
  };
  assertWindows(windows);
  return windows;
}

function blob(parameters: Parameters, name: string, filler: string, shape: readonly number[]): WantedBlob {
  const own = parameters.child(filler);
  return {
    name,
    shape,
    filler: parameters.has(filler)
      ? { type: own.text('type') || 'constant', value: own.number('value') }
      : undefined,
  };
}

function outputsOf(parameters: Parameters): number {
  const count = parameters.number('num_output');
  if (count >= 1) return count;
  throw badModel(`num_output must be at least 1, got ${count}`);
}

/** Uses `group` unless the layer type implies depthwise: each channel is a group. */
function convolutionOf(depthwise: boolean, transposed: boolean): ConvertLayer {
  return (node) => {
    const parameters = node.parameters('convolution_param');
    const axis = axisIn(node.input(), parameters.number('axis', 1));
    if (axis !== 1) throw badModel(`axis ${axis} is not supported, expected 1`);
    const channels = fixed(node.input(), 1);
    const outputs = outputsOf(parameters);
    const group = depthwise ? channels : parameters.number('group', 1);
    assertGroups(group, channels, outputs);
    if (known(node.input()).length < 3)
      throw badModel(`needs a spatial axis, got ${formatShape(known(node.input()))}`);
    const windows = windowsOf(parameters, known(node.input()).length - 2);
    const shape = transposed
      ? [channels, outputs / group, ...windows.kernel]
      : [outputs, channels / group, ...windows.kernel];
    const wanted = [blob(parameters, 'weights', 'weight_filler', shape)];
    if (parameters.flag('bias_term', true)) wanted.push(blob(parameters, 'bias', 'bias_filler', [outputs]));
    const [weights, bias] = node.weights(wanted) as [Value, Value?];
    const make = transposed ? convolveBack : convolve;
    return node.inputs.map((input) => make(node, input, windows, { weights, bias, group }));
  };
}

const innerProduct: ConvertLayer = (node) => {
  const parameters = node.parameters('inner_product_param');
  const input = node.input();
  const axis = axisIn(input, parameters.number('axis', 1));
  if (axis === 0) node.bindBatch();
  const inner = fixedProduct(input, axis);
  const outputs = outputsOf(parameters);
  const transposed = parameters.flag('transpose', false);
  const wanted = [
    blob(parameters, 'weights', 'weight_filler', transposed ? [inner, outputs] : [outputs, inner]),
  ];
  if (parameters.flag('bias_term', true)) wanted.push(blob(parameters, 'bias', 'bias_filler', [outputs]));
  const flat = flatRows(node, input, axis);
  const made = node.one('Gemm', [flat, ...node.weights(wanted)], { transB: transposed ? 0 : 1 });
  return reshape(node, made, [...known(input).slice(0, axis), outputs]);
};

/** Merges all axes from `axis` on, and all axes before it. */
function flatRows(node: LayerNode, input: Value, axis: number): Value {
  const shape = known(input);
  if (shape.length === 2 && axis === 1) return input;
  const columns = merged(node, input, axis, shape.length);
  const results = [{ dtype: input.dtype, shape: [merged(node, input, 0, axis)[0] ?? 1, columns[axis] ?? 1] }];
  return node.g.add('Flatten', [input], { axis }, { hint: node.hint, results })[0] as Value;
}

const embed: ConvertLayer = (node) => {
  const parameters = node.parameters('embed_param');
  const outputs = outputsOf(parameters);
  const words = parameters.number('input_dim');
  if (words < 1) throw badModel(`input_dim must be at least 1, got ${words}`);
  const wanted: WantedBlob[] = [{ name: 'weights', shape: [words, outputs] }];
  if (parameters.flag('bias_term', true)) wanted.push({ name: 'bias', shape: [outputs] });
  const [weights, bias] = node.weights(wanted);
  const indices = node.one('Cast', [node.input()], { to: 7 });
  const made = node.one('Gather', [weights, indices], { axis: 0 });
  return bias ? node.one('Add', [made, bias]) : made;
};

export const CONVOLUTIONS: Readonly<Record<string, ConvertLayer>> = {
  Convolution: convolutionOf(false, false),
  ConvolutionDepthwise: convolutionOf(true, false),
  DepthwiseConvolution: convolutionOf(true, false),
  Deconvolution: convolutionOf(false, true),
  InnerProduct: innerProduct,
  Embed: embed,
};
