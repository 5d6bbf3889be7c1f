/**
 * The number of each row, as exporters of attention masks write it: Range from 0 to N, moved and repeated, and then an
 * index of the axis of the rows. Each row takes itself. Any other use of it ends the proof.
 */

import { type Known, known } from './arithmetic.ts';
import type { Call, RowRule } from './call.ts';
import { numberOf, ONE, type Size, same } from './size.ts';
import { ProofEnd, type RowNumbers, type Rows, type Value } from './value.ts';

/** Types of ONNX that an index has; each holds every number of a row. */
const INDEX_TYPES: ReadonlySet<number | undefined> = new Set([6, 7]);

/** What Range makes of these inputs; undefined unless it counts the rows of a run from 0, one by one. */
export function rowNumbers(call: Call, reason: string): RowNumbers | undefined {
  const inputs = [0, 1, 2].map((i) => known(call.value(i)));
  const isScalar = (input: Known | undefined) =>
    input?.elements.length === 1 && INDEX_TYPES.has(input.type) && input.type === inputs[0]?.type;
  if (!inputs.every(isScalar)) return undefined;
  const [from, to, step] = inputs.map((input) => input?.elements[0]);
  const { n } = call.analysis;
  if (numberOf(from) !== 0 || !to || !same(to, n) || numberOf(step) !== 1) return undefined;
  return {
    ...call.rows([n], { axis: 0, outer: ONE, inner: ONE }),
    kind: 'row numbers',
    column: undefined,
    end: new ProofEnd(reason, call.operator, call.node.name),
  };
}

function rowsOfNumbers({ shape, axis, outer, inner }: RowNumbers): Rows {
  return { kind: 'rows', shape, axis, outer, inner };
}

/** @param rule of an operator that moves or repeats elements of its first input within their rows, and changes none */
export const moving =
  (rule: RowRule): RowRule =>
  (call) => {
    const numbers = call.value(0);
    if (numbers?.kind !== 'row numbers' || numbers.column !== undefined) return rule(call);
    const moved = rule(call.withInput(0, rowsOfNumbers(numbers))) as Value;
    return moved.kind === 'rows' ? { ...numbers, ...moved, kind: 'row numbers' } : moved;
  };

/** @param rule of Cast */
export const casting =
  (rule: RowRule): RowRule =>
  (call) => {
    const numbers = call.value(0);
    return numbers?.kind === 'row numbers' && INDEX_TYPES.has(call.int('to', 0)) ? numbers : rule(call);
  };

/** @param rule of Concat. One input may be row numbers: a column of index tuples. */
export const joiningIndices =
  (rule: RowRule): RowRule =>
  (call) => {
    const inputs = Array.from({ length: call.count }, (_, i) => call.value(i));
    const at = inputs.findIndex((input) => input?.kind === 'row numbers');
    const numbers = inputs[at];
    if (numbers?.kind !== 'row numbers') return rule(call);
    const last = numbers.shape.length - 1;
    const before = inputs.slice(0, at).map((input) => numberOf(input?.shape?.[last]));
    const isColumn =
      numbers.column === undefined &&
      call.axis(call.int('axis', 1), numbers.shape.length) === last &&
      same(numbers.shape[last] as Size, ONE) &&
      before.every((width) => width !== undefined);
    if (!isColumn) throw numbers.end;
    // A second input of row numbers ends the proof here: it would index another axis.
    const joined = rule(call.withInput(at, rowsOfNumbers(numbers))) as Value;
    const column = before.reduce((sum: number, width) => sum + (width ?? 0), 0);
    return joined.kind === 'rows' ? { ...numbers, ...joined, kind: 'row numbers', column } : joined;
  };

/**
 * The indices with which each row takes from itself, as rows.
 * @param axis of `x` that the numbers index
 * @returns undefined where the indices are no row numbers
 */
export function ownRow(call: Call, axis: (numbers: RowNumbers) => number | undefined): Rows | undefined {
  const [x, numbers] = [call.value(0), call.value(1)];
  if (numbers?.kind !== 'row numbers') return undefined;
  // The axis must have the rows and nothing else: in blocks of several places the number would be that of a place.
  const isOwn =
    x?.kind === 'rows' && x.axis === axis(numbers) && same(x.shape[x.axis] as Size, call.analysis.n);
  if (!isOwn) throw numbers.end;
  return rowsOfNumbers(numbers);
}
