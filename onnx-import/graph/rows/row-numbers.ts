/**
 * The number of each row, as exporters of attention masks write it: Range from 0 to N, moved and repeated, and then an
 * index of the axis of the rows. Each row takes itself. Any other use of it ends the proof.
 */

import { type Known, known } from './arithmetic.ts';
import type { Call, RowRule } from './call.ts';
import { isUnknown, numberOf, ONE, type Size, same, times } from './size.ts';
import { type Fixed, ProofEnd, type RowNumbers, type Rows, type Value } from './value.ts';

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
    if (numbers?.kind === 'fixed' && numbers.below) return bounded(rule(call), numbers.below);
    if (numbers?.kind !== 'row numbers' || numbers.column !== undefined) return rule(call);
    const [moved = numbers] = [rule(call.withInput(0, rowsOfNumbers(numbers)))].flat();
    return moved.kind === 'rows' ? { ...numbers, ...moved, kind: 'row numbers' } : moved;
  };

function bounded(result: ReturnType<RowRule>, below: Size): ReturnType<RowRule> {
  const [value, ...others] = [result].flat();
  return value?.kind === 'fixed' && others.length === 0 ? { ...value, below } : result;
}

/** @param rule of Cast */
export const casting =
  (rule: RowRule): RowRule =>
  (call) => {
    const numbers = call.value(0);
    if (!INDEX_TYPES.has(call.int('to', 0))) return rule(call);
    if (numbers?.kind === 'fixed' && numbers.below) return bounded(rule(call), numbers.below);
    return numbers?.kind === 'row numbers' ? numbers : rule(call);
  };

/** The input that is row numbers, and the other one. */
function numbersAmong(call: Call): { at: number; numbers: RowNumbers; other: Value | undefined } | undefined {
  const inputs = [call.value(0), call.value(1)];
  const at = inputs.findIndex((input) => input?.kind === 'row numbers');
  const numbers = inputs[at];
  return numbers?.kind === 'row numbers' ? { at, numbers, other: inputs[1 - at] } : undefined;
}

/**
 * @param rule of Mul and Add. The number of a row times a size, plus a place below that size, is the place of the row among
 * places of all rows; it needs no more bits than the tensor has elements.
 */
export const flattening =
  (rule: RowRule): RowRule =>
  (call) => {
    const found = numbersAmong(call);
    if (!found) return rule(call);
    const { at, numbers, other } = found;
    const { column, places, end } = numbers;
    if (column !== undefined || other?.kind !== 'fixed') throw end;
    const isMul = call.operator === 'Mul';
    const count = isMul ? (other.elements?.length === 1 ? other.elements[0] : undefined) : places?.count;
    const isNext = isMul ? places === undefined : places?.isFirst === true && isBelow(other, count);
    if (!count || count.factor < 1 || count.names.some(isUnknown) || !isNext) throw end;
    const [result] = [rule(call.withInput(at, rowsOfNumbers(numbers)))].flat();
    if (result?.kind !== 'rows') throw end;
    return { ...numbers, ...result, kind: 'row numbers', places: { count, isFirst: isMul } };
  };

function isBelow({ elements, below }: Fixed, count: Size | undefined): boolean {
  if (!count) return false;
  if (below && same(below, count)) return true;
  const most = numberOf(count) ?? 0;
  const numbers = elements?.map(numberOf);
  return numbers?.every((number) => number !== undefined && number >= 0 && number < most) === true;
}

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
      numbers.places === undefined &&
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
  const { places } = numbers;
  const size = places ? times(call.analysis.n, places.count) : call.analysis.n;
  const isOwn =
    x?.kind === 'rows' &&
    x.axis === axis(numbers) &&
    same(x.shape[x.axis] as Size, size) &&
    (!places || same(x.outer, ONE));
  if (!isOwn) throw numbers.end;
  return rowsOfNumbers(numbers);
}
