/** Whether the graph of a model keeps its rows apart, from its inputs to its outputs. */
import type { Graph } from '../graph/rows/node.ts';
import { FREE_ROWS, Names, numberOf, ONE, type Size, same, size } from '../graph/rows/size.ts';
import { fixedOf, ProofEnd, type Value } from '../graph/rows/value.ts';
import { analyse } from './analyse.ts';
import type { Model } from './model.ts';

/** By input name: the axis of the rows, or `none` for an input that is the same for all rows of a run. Default 0. */
export type InputAxes = ReadonlyMap<string, number | 'none'>;

export interface Proof {
  /** Undefined: proven. */
  readonly end: ProofEnd | undefined;
  /** By output, where the rows of each output could be followed. */
  readonly outputAxes: ReadonlyMap<string, number>;
  /** Rows that the file fixes a run to. */
  readonly fixedRows: number | undefined;
}

/** @param onAnyAxis outputs may have their rows on other axes than the first */
export function proofOf(model: Model, axes: InputAxes, onAnyAxis = false): Proof {
  const { graph } = model;
  const rows = rowsOfInputs(graph, axes);
  if (rows instanceof ProofEnd) return { end: rows, outputAxes: new Map(), fixedRows: undefined };
  const names = new Names();
  const n = rows ?? FREE_ROWS;
  // One row has no neighbours.
  if (numberOf(n) === 1) return { end: undefined, outputAxes: new Map(), fixedRows: 1 };
  const inputs = new Map(graph.inputs.map((input) => [input.name, valueOf(input, axes, n, names)]));
  const outputs = analyse(model, inputs, n, names);
  const found = graph.outputs.map((name, i) => ({ name, value: outputs[i] as Value }));
  const ends = found.map(({ name, value }) => endOf(graph, name, value, n, onAnyAxis));
  return {
    end: ends.find((end) => end !== undefined),
    outputAxes: new Map(
      found.flatMap(({ name, value }) => (value.kind === 'rows' ? [[name, value.axis] as const] : [])),
    ),
    fixedRows: numberOf(n),
  };
}

/** The axis of an input's rows; a scalar has none. */
export function axisOf({ name, shape }: Graph['inputs'][number], axes: InputAxes): number | 'none' {
  return shape?.length === 0 ? 'none' : (axes.get(name) ?? 0);
}

/** The number that all batch axes are fixed to; undefined when all are free. */
function rowsOfInputs({ inputs }: Graph, axes: InputAxes): Size | undefined | ProofEnd {
  const sizes: (number | string)[] = [];
  for (const input of inputs) {
    const { name, shape } = input;
    const axis = axisOf(input, axes);
    if (axis === 'none') continue;
    if (!shape) return new ProofEnd(`the shape of input "${name}" is not declared`, 'input', name);
    const dim = shape[axis];
    if (dim === undefined)
      return new ProofEnd(`input "${name}" has no axis ${axis} for its rows`, 'input', name);
    sizes.push(dim);
  }
  const [first] = sizes;
  if (first === undefined) return new ProofEnd('no input has a batch axis', 'input', '');
  if (sizes.every((dim) => typeof dim === 'string')) return undefined;
  if (sizes.every((dim) => dim === first)) return size(first as number);
  return new ProofEnd('its inputs have different numbers of rows', 'input', inputs[0]?.name ?? '');
}

/** Sizes of the same name may differ in a run, because onnxruntime does not compare them: each is one of its own. */
function valueOf(input: Graph['inputs'][number], axes: InputAxes, n: Size, names: Names): Value {
  const { shape } = input;
  const axis = axisOf(input, axes);
  const dims = shape?.map((dim) => (typeof dim === 'number' ? size(dim) : names.dim()));
  if (axis === 'none' || !dims) return fixedOf(dims);
  return { kind: 'rows', shape: dims.with(axis, n), axis, outer: ONE, inner: ONE };
}

/** An output must have the rows, one place for each. */
function endOf(graph: Graph, name: string, value: Value, n: Size, onAnyAxis: boolean): ProofEnd | undefined {
  if (value.kind === 'ended' || value.kind === 'row numbers') return value.end;
  const node = graph.nodes.findLast(({ outputs }) => outputs.includes(name));
  const end = (problem: string) =>
    new ProofEnd(`output "${name}" ${problem}`, node?.operator ?? 'output', node?.name ?? name);
  if (value.kind !== 'rows') return end('has no row for each record');
  if (value.axis !== 0 && !onAnyAxis) return end(`has its rows on axis ${value.axis}`);
  return same(value.shape[value.axis] as Size, n) ? undefined : end('has several places for each row');
}
