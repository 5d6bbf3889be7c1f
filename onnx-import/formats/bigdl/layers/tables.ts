/** Modules that make tables, take them apart or combine their tensors. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { compute } from '../../../emit/formula.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Shape, Value } from '../../../graph/value.ts';
import { type Activity, type Call, isTable, type Rule, sameShape } from '../call.ts';

/** Tables are made of single values, so a long sequence would make a huge graph. */
const MAX_PARTS = 10_000;
/** Java's largest int, where BigDL means no dimension. */
const NONE = 2 ** 31 - 1;

const concat: Rule = (call) => {
  const values = call.module.children.map((child) => call.value(child, call.activity));
  return joined(call, values, call.axis(call.module.int('dimension'), -1, values[0] ?? call.input));
};

function joined(call: Call, values: readonly Value[], axis: number): Value {
  const first = known(values[0] as Value);
  for (const value of values)
    if (!sameShape(known(value).toSpliced(axis, 1), first.toSpliced(axis, 1)))
      throw badModel(`cannot join ${formatShape(first)} and ${formatShape(known(value))}`);
  call.bindAt(axis, values[0]);
  return values.length === 1 ? (values[0] as Value) : call.one('Concat', values, { axis });
}

const joinTable: Rule = (call) => {
  const values = call.tensors();
  const axis = call.axis(call.module.int('dimension'), call.module.int('nInputDims'), values[0]);
  return joined(call, values, axis);
};

/** The first table entry decides the shape; BigDL broadcasts only the others. */
const combined =
  (op: string): Rule =>
  (call) => {
    const values = call.tensors();
    const first = values[0] as Value;
    for (const value of values) assertBroadcasts(known(first), known(value));
    return values.reduce((sum, value) => call.one(op, [sum, value]));
  };

function assertBroadcasts(first: Shape, other: Shape): void {
  const fits = other.length === first.length && other.every((dim, i) => dim === first[i] || dim === 1);
  if (!fits) throw badModel(`cannot combine ${formatShape(first)} and ${formatShape(other)}`);
}

const average: Rule = (call) => {
  const sum = combined('Add')(call) as Value;
  return call.one('Div', [sum, call.scalar(call.table.length)]);
};

function pair(call: Call): [Value, Value] {
  const [a, b] = call.tensors(2) as [Value, Value];
  if (!sameShape(known(a), known(b)))
    throw badModel(
      `needs two inputs of one shape, got ${formatShape(known(a))} and ${formatShape(known(b))}`,
    );
  return [a, b];
}

function sumLast(call: Call, value: Value, keepdims = 0): Value {
  call.bindAt(known(value).length - 1, value);
  return call.one('ReduceSum', [value, call.g.ints([-1])], { keepdims });
}

const dot: Rule = (call) => {
  const [a, b] = pair(call);
  if (known(a).length !== 2) throw badModel(`needs two dimensions, got ${formatShape(known(a))}`);
  return sumLast(call, call.one('Mul', [a, b]));
};

const cosineDistance: Rule = (call) => {
  const [a, b] = pair(call);
  if (known(a).length !== 2) throw badModel(`needs two dimensions, got ${formatShape(known(a))}`);
  const sum = (x: Value, y: Value) => sumLast(call, call.one('Mul', [x, y]));
  const products = { both: sum(a, b), first: sum(a, a), second: sum(b, b), tiny: 1e-12 };
  return compute(call, 'both / Sqrt((first + tiny) * (second + tiny))', products);
};

const pairwiseDistance: Rule = (call) => {
  const [a, b] = pair(call);
  const norm = call.module.int('norm');
  if (known(a).length !== 2 || norm < 1) throw badModel(`needs two dimensions, got ${formatShape(known(a))}`);
  const powers = compute(call, 'Pow(Abs(a - b), norm)', { a, b, norm });
  return compute(call, 'Pow(sum, root)', { sum: sumLast(call, powers), root: 1 / norm });
};

const crossProduct: Rule = (call) => {
  const values = call.tensors();
  const [count, size] = [call.module.int('numTensor'), call.module.int('embeddingSize')];
  if (values.length < 2 || values.length > 100 || (count > 0 && count !== values.length))
    throw badModel(`takes ${count} tensors, got ${values.length}`);
  for (const value of values)
    if (known(value).length !== 2 || (size > 0 && fixed(value, 1) !== size))
      throw badModel(`needs two dimensions, got ${formatShape(known(value))}`);
  const products = values.flatMap((a, i) =>
    values.slice(i + 1).map((b) => sumLast(call, call.one('Mul', [a, b]), 1)),
  );
  return products.length === 1 ? (products[0] as Value) : call.one('Concat', products, { axis: 1 });
};

/** MM and MV: products of matrices for each record. */
const product =
  (isVector: boolean): Rule =>
  (call) => {
    const [a, b] = call.tensors(2) as [Value, Value];
    const { module } = call;
    const turned = (value: Value, isTurned: boolean) => {
      const axes = known(value).map((_, i) => i);
      const last = axes.length - 1;
      return isTurned ? call.transpose(value, [...axes.slice(0, -2), last, last - 1]) : value;
    };
    const [left, right] = [known(a).length, known(b).length];
    if (left < 2 || left > 4 || right !== left - (isVector ? 1 : 0))
      throw badModel(`cannot multiply ${formatShape(known(a))} and ${formatShape(known(b))}`);
    const batches = [known(a).slice(0, -2), known(b).slice(0, isVector ? -1 : -2)] as const;
    if (!sameShape(...batches))
      throw badModel(`cannot multiply ${formatShape(known(a))} and ${formatShape(known(b))}`);
    call.bindAt(module.flag(isVector ? 'trans' : 'transA') ? left - 2 : left - 1, a);
    for (const axis of isVector ? [right - 1] : [right - 2, right - 1]) call.bindAt(axis, b);
    if (!isVector)
      return call.one('MatMul', [turned(a, module.flag('transA')), turned(b, module.flag('transB'))]);
    const column = call.one('Unsqueeze', [b, call.g.ints([-1])]);
    return call.one('Squeeze', [
      call.one('MatMul', [turned(a, module.flag('trans')), column]),
      call.g.ints([-1]),
    ]);
  };

/** x1' W x2 for each output. */
const bilinear: Rule = (call) => {
  const { module } = call;
  const [a, b] = call.tensors(2) as [Value, Value];
  const [first, second, outputs] = [
    module.int('inputSize1'),
    module.int('inputSize2'),
    module.int('outputSize'),
  ];
  if (known(a).length !== 2 || fixed(a, 1) !== first || known(b).length !== 2 || fixed(b, 1) !== second)
    throw badModel(
      `needs ${first} and ${second} columns, got ${formatShape(known(a))} and ${formatShape(known(b))}`,
    );
  // [1,out,in1,in2] after [N,1,1,in1] is [N,out,1,in2].
  const rows = call.one('Unsqueeze', [a, call.g.ints([1, 2])]);
  const middle = call.one('MatMul', [rows, call.weight(0, [1, outputs, first, second])]);
  const products = call.one('Mul', [middle, call.one('Unsqueeze', [b, call.g.ints([1, 2])])]);
  const sums = call.one('ReduceSum', [products, call.g.ints([2, 3])], { keepdims: 0 });
  return module.flag('biasRes', true) ? call.one('Add', [sums, call.weight(1, [outputs])]) : sums;
};

/** The tensor's slices along an axis, which goes unless it is kept. */
export function slices(call: Call, value: Value, axis: number, isKept: boolean): Value[] {
  const size = fixed(value, axis);
  if (size > MAX_PARTS) throw badModel(`makes ${size} parts, the limit is ${MAX_PARTS}`);
  call.bindAt(axis, value);
  const parts =
    size === 1 ? [value] : call.g.add('Split', [value], { axis }, { outputs: size, hint: call.hint });
  return isKept ? parts : parts.map((part) => call.one('Squeeze', [part, call.g.ints([axis])]));
}

const splitTable: Rule = (call) => {
  const { module } = call;
  const axis = call.axis(module.int('dimension'), module.int('nInputDims', -1));
  return slices(call, call.input, axis, module.flag('keepDim'));
};

const bifurcate: Rule = (call) => {
  const axis = call.axis(call.module.int('dimension'));
  const size = fixed(call.input, axis);
  call.bindAt(axis);
  const half = size >> 1;
  if (half < 1) throw badModel(`cannot halve ${formatShape(known(call.input))}`);
  const sizes = call.g.ints([half, size - half]);
  return call.g.add('Split', [call.input, sizes], { axis }, { outputs: 2, hint: call.hint });
};

const pack: Rule = (call) => {
  const values = isTable(call.activity) ? call.tensors() : [call.input];
  const rank = known(values[0] as Value).length;
  const dimension = call.module.int('dimension');
  const axis = dimension < 0 ? rank + dimension : dimension - 1;
  if (axis < 1 || axis > rank) throw badModel(`dimension ${dimension} does not fit ${rank} dimensions`);
  const wide = values.map((value) => call.one('Unsqueeze', [value, call.g.ints([axis])]));
  return joined(call, wide, axis);
};

const selectTable: Rule = (call) => {
  const index = call.module.int('index');
  const entry = call.table[(index < 0 ? call.table.length + index : index) - 1];
  if (entry === undefined) throw badModel(`takes entry ${index} of ${call.table.length}`);
  return entry;
};

const narrowTable: Rule = (call) => {
  const { table, module } = call;
  const [offset, given] = [module.int('offset'), module.int('length')];
  const length = given < 0 ? table.length - offset + 2 + given : given;
  if (offset < 1 || length < 1 || offset - 1 + length > table.length)
    throw badModel(`takes ${given} entries from ${offset} on of ${table.length}`);
  return table.slice(offset - 1, offset - 1 + length);
};

function flattened(activity: Activity): Activity[] {
  return isTable(activity) ? activity.flatMap(flattened) : [activity];
}

/** A weighted sum of experts along dimension 2. From a table of experts, BigDL adds to its last answer. */
const mixture: Rule = (call) => {
  const [gate, all] = call.tensors(2) as [Value, Value];
  const dimension = call.module.int('dim', NONE);
  if (known(gate).length !== 2 || ![2, NONE].includes(dimension))
    throw badModel('needs weights [N, experts], and the experts along dimension 2');
  const count = fixed(all, 1);
  if (fixed(gate, 1) !== count) throw badModel(`has ${count} experts for ${formatShape(known(gate))}`);
  const rank = known(all).length;
  const weights = call.reshape(gate, [
    known(all)[0] ?? 1,
    count,
    ...Array.from({ length: rank - 2 }, () => 1),
  ]);
  return call.one('ReduceSum', [call.one('Mul', [all, weights]), call.g.ints([1])], { keepdims: 0 });
};

export const TABLES: Readonly<Record<string, Rule>> = {
  BifurcateSplitTable: bifurcate,
  Bilinear: bilinear,
  CAddTable: combined('Add'),
  CAveTable: average,
  CDivTable: (call) => call.one('Div', pair(call)),
  CMaxTable: combined('Max'),
  CMinTable: combined('Min'),
  CMulTable: combined('Mul'),
  CSubTable: (call) => call.one('Sub', pair(call)),
  Concat: concat,
  CosineDistance: cosineDistance,
  CrossProduct: crossProduct,
  DotProduct: dot,
  FlattenTable: (call) => flattened(call.table),
  JoinTable: joinTable,
  MM: product(false),
  MV: product(true),
  MixtureTable: mixture,
  NarrowTable: narrowTable,
  Pack: pack,
  PairwiseDistance: pairwiseDistance,
  SelectTable: selectTable,
  SplitTable: splitTable,
};
