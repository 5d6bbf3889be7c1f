/**
 * Layers that combine inputs element by element, and those that sum or select along axes. Caffe's blobs are floats,
 * including indices, and of equal maxima it returns the last.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { axisIn, canEqual, fixedProduct, merged, reshape, scalar } from '../../../graph/layout.ts';
import { known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { ConvertLayer, LayerNode } from '../node.ts';

const FLOAT = { to: 1 };

function sameShapes(values: readonly Value[]): void {
  const first = known(values[0] as Value);
  for (const value of values) {
    const own = known(value);
    const isSame = own.length === first.length && own.every((dim, i) => canEqual(dim, first[i]));
    if (!isSame)
      throw badModel(`needs inputs of one shape, got ${formatShape(first)} and ${formatShape(own)}`);
  }
}

const OPERATIONS = ['Mul', 'Add', 'Max', 'Min'];
const SUM = 1;

const eltwise: ConvertLayer = (node) => {
  const parameters = node.parameters('eltwise_param');
  const operation = parameters.number('operation', SUM);
  const op = OPERATIONS[operation];
  if (op === undefined) throw badModel(`operation ${operation} is not supported`);
  const values = [node.input(), ...node.inputs.slice(1)];
  sameShapes(values);
  const factors = parameters.numbers('coeff');
  if (factors.length > 0 && (operation !== SUM || factors.length !== values.length))
    throw badModel(
      `has ${factors.length} coeff for ${values.length} inputs; they belong to SUM, one for each`,
    );
  return values
    .map((value, i) => {
      const factor = factors[i] ?? 1;
      return factor === 1 ? value : node.one('Mul', [value, scalar(node, factor)]);
    })
    .reduce((sum, value) => node.one(op, [sum, value]));
};

/** a * x + y with one `a` for each channel (SENet). */
const axpy: ConvertLayer = (node) => {
  const [factor, x, y] = [node.input(0), node.input(1), node.input(2)];
  sameShapes([x, y]);
  const shape = [...known(factor).slice(0, 2), ...Array.from({ length: known(x).length - 2 }, () => 1)];
  const wide = reshape(node, factor, shape);
  return node.one('Add', [node.one('Mul', [wide, x]), y]);
};

const REDUCTIONS = [undefined, 'ReduceSum', 'ReduceL1', 'ReduceSumSquare', 'ReduceMean'];

const reduction: ConvertLayer = (node) => {
  const parameters = node.parameters('reduction_param');
  const input = node.input();
  const op = REDUCTIONS[parameters.number('operation', 1)];
  if (op === undefined) throw badModel('has an unknown operation');
  const axis = axisIn(input, parameters.number('axis', 0));
  if (axis === 0) node.bindBatch();
  const axes = known(input).flatMap((_, i) => (i >= axis ? [i] : []));
  const made =
    op === 'ReduceSum'
      ? node.one(op, [input, node.g.ints(axes)], { keepdims: 0 })
      : node.one(op, [input], { axes, keepdims: 0 });
  const factor = parameters.number('coeff', 1);
  return factor === 1 ? made : node.one('Mul', [made, scalar(node, factor)]);
};

const argMax: ConvertLayer = (node) => {
  const parameters = node.parameters('argmax_param');
  const input = node.input();
  const count = parameters.number('top_k', 1);
  const values = parameters.flag('out_max_val');
  if (parameters.has('axis')) {
    const axis = axisIn(input, parameters.number('axis'));
    if (axis === 0) node.bindBatch();
    checkCount(count, fixedProduct(input, axis, axis + 1));
    const { best, at } = largest(node, input, axis, count);
    return values ? best : at;
  }
  checkCount(count, fixedProduct(input, 1));
  const flat = reshape(node, input, merged(node, input, 1, known(input).length));
  const { best, at } = largest(node, flat, 1, count);
  const rows = known(input)[0] ?? 1;
  const ones = Array.from({ length: Math.max(0, known(input).length - 3) }, () => 1);
  const shaped = (value: Value) => reshape(node, value, [rows, 1, count, ...ones]);
  return values ? node.one('Concat', [shaped(at), shaped(best)], { axis: 1 }) : shaped(at);
};

function checkCount(count: number, size: number): void {
  if (count < 1 || count > size) throw badModel(`top_k must be 1 to ${size}, got ${count}`);
}

function largest(node: LayerNode, input: Value, axis: number, count: number): { best: Value; at: Value } {
  if (count === 1) {
    const at = node.one('ArgMax', [input], { axis, keepdims: 1, select_last_index: 1 });
    const best = node.one('ReduceMax', [input], { axes: [axis], keepdims: 1 });
    return { best, at: node.one('Cast', [at], FLOAT) };
  }
  const [best, at] = node.g.add(
    'TopK',
    [input, node.g.ints([count])],
    { axis, largest: 1, sorted: 1 },
    { outputs: 2 },
  );
  return { best: best as Value, at: node.one('Cast', [at], FLOAT) };
}

export const ARITHMETIC: Readonly<Record<string, ConvertLayer>> = {
  ArgMax: argMax,
  Axpy: axpy,
  Eltwise: eltwise,
  Reduction: reduction,
};
