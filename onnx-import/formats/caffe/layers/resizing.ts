/**
 * Interp (DeepLab, PSPNet) and Upsample (by mask in SegNet, by repetition in YOLO). Interp aligns corners; negative
 * padding crops the input first.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { planeSizes, repeatPixels, resizePlane } from '../../../emit/resize.ts';
import { expectRank, planeOf } from '../../../graph/layout.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Dim, Shape, Value } from '../../../graph/value.ts';
import type { ConvertLayer, LayerNode, Parameters } from '../node.ts';

const interp: ConvertLayer = (node) => {
  const parameters = node.parameters('interp_param');
  const input = node.input();
  const plane = planeOf(input);
  const [before, after] = [parameters.number('pad_beg'), parameters.number('pad_end')];
  if (before > 0 || after > 0)
    throw badModel(`pad_beg and pad_end must not be positive, got ${before} and ${after}`);
  const inner = plane.map((size) => size + before + after);
  if (!inner.every((size) => size >= 1))
    throw badModel(`padding ${before} and ${after} leaves nothing of ${plane.join('x')}`);
  const cut =
    before === 0 && after === 0
      ? input
      : node.one('Slice', [
          input,
          node.g.ints([-before, -before]),
          node.g.ints(inner.map((size) => size - before)),
          node.g.ints([2, 3]),
        ]);
  return resizePlane(node, cut, interpSize(node, parameters, inner), 'align_corners');
};

function interpSize(node: LayerNode, parameters: Parameters, plane: readonly number[]): readonly number[] {
  if (node.inputs.length > 1) return planeOf(node.input(1));
  const [height, width] = [parameters.number('height'), parameters.number('width')];
  const [shrink, zoom] = [parameters.number('shrink_factor', 1), parameters.number('zoom_factor', 1)];
  if (parameters.has('shrink_factor') || parameters.has('zoom_factor')) {
    if (shrink < 1 || zoom < 1)
      throw badModel(`shrink and zoom must be at least 1, got ${shrink} and ${zoom}`);
    return plane.map((size) => {
      const shrunk = Math.floor((size - 1) / shrink) + 1;
      return shrunk + (shrunk - 1) * (zoom - 1);
    });
  }
  if (height > 0 && width > 0) return [height, width];
  throw badModel('needs height and width, a zoom or shrink factor, or a second input');
}

const upsample: ConvertLayer = (node) => {
  const parameters = node.parameters('upsample_param');
  const input = node.input();
  expectRank(input, 4);
  if (node.inputs.length > 1) return unpool(node, input, parameters);
  const scale = parameters.number('scale', 1);
  const factor = scale === 1 ? parameters.number('stride', 2) : scale;
  if (parameters.has('stride_h') || parameters.has('stride_w'))
    throw badModel('repeats rows and columns differently, which is not supported');
  return repeatPixels(node, input, [factor, factor]);
};

/** Puts each value at the position where the pooling found it. */
function unpool(node: LayerNode, input: Value, parameters: Parameters): readonly Value[] {
  const positions = node.net.positions.get(node.input(1));
  if (!positions) throw badModel('needs the mask of a Pooling layer as second input');
  const scale = parameters.number('scale', 2);
  const plane = planeOf(input).map((size, i) =>
    i === 0
      ? parameters.number('upsample_h', size * parameters.number('scale_h', scale))
      : parameters.number('upsample_w', size * parameters.number('scale_w', scale)),
  );
  // Positions are indices into the pooled plane, so its size must match.
  if (plane.some((size, i) => size !== positions.plane[i]))
    throw badModel(`makes ${plane.join('x')}, the mask is of a plane of ${positions.plane.join('x')}`);
  const shape: Shape = [known(input)[0] as Dim, fixed(input, 1), ...plane];
  const results = [{ dtype: input.dtype, shape }];
  // onnxruntime rejects an output size below what kernel and stride imply, so both are 1.
  return node.g.add(
    'MaxUnpool',
    [input, positions.at, planeSizes(node, input, plane)],
    { kernel_shape: [1, 1], strides: [1, 1] },
    { hint: node.hint, results },
  );
}

export const RESIZINGS: Readonly<Record<string, ConvertLayer>> = {
  Interp: interp,
  Upsample: upsample,
};
