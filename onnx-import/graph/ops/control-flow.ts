/**
 * If, Loop and Scan. Which branch and how many turns must not depend on the rows or on their number; a loop's state is
 * followed until a further turn changes nothing about it.
 */
import type { Call, RowRule } from '../rows/call.ts';
import { samePlace } from '../rows/combine.ts';
import type { Graph } from '../rows/node.ts';
import { numberOf, type Size, same } from '../rows/size.ts';
import { type Fixed, fixedOf, join, type Value } from '../rows/value.ts';
import type { Operators } from './operator.ts';

/** Turns until a loop's state is the same in kind; more only happens in graphs that we do not follow. */
const MAX_TURNS = 6;
const BOOL = 9;
const INT64 = 7;

function bodyOf(call: Call, name: string): Graph {
  return call.attribute(name)?.graph ?? call.end(`it has no ${name}`);
}

const branch: RowRule = (call) => {
  const condition = call.value(0);
  if (condition?.kind !== 'fixed') return call.end('which branch it takes depends on the rows');
  const [taken, other] = ['then_branch', 'else_branch'].map((name) => bodyOf(call, name)) as [Graph, Graph];
  const known = numberOf(condition.elements?.[0]);
  if (known !== undefined) return call.analysis.runBody(known === 0 ? other : taken, [], call);
  const [yes, no] = [taken, other].map((graph) => call.analysis.runBody(graph, [], call)) as [
    Value[],
    Value[],
  ];
  return yes.map(
    (value, i) =>
      join(value, no[i] as Value, call.names) ?? call.end('its branches have their rows on different axes'),
  );
};

/**
 * Runs the body until a further turn changes nothing of what is known of its state.
 * @returns the state after the last turn, and what the turns give that is not state
 */
function settle(
  call: Call,
  body: Graph,
  initial: readonly Value[],
  inputsOf: (state: readonly Value[]) => readonly Value[],
  first: number,
): { state: readonly Value[]; outputs: readonly Value[] } {
  // Sizes that differ from turn to turn: each stands for the one at the beginning of a turn.
  const changing = new Set<string>();
  let state = initial.map(withoutElements);
  let begun: readonly Value[] | undefined;
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const outputs = call.analysis.runBody(body, inputsOf(state), call);
    const known = changing.size;
    const next = state.map((value, i) => {
      const made = withoutElements(outputs[first + i] ?? call.end('its body does not make its state'));
      if (turn > 0 || !isPlaceholder(value, made)) return widened(call, value, made, changing);
      begun = outputs;
      return made;
    });
    const isSettled =
      changing.size === known && next.every((value, i) => hasKindOf(value, state[i] as Value));
    state = next;
    if (!isSettled) continue;
    const joined = begun?.map(
      (value, i) => join(value, outputs[i] as Value, call.names) ?? call.end('its turns differ'),
    );
    const all = joined ?? outputs;
    return {
      state: state.map((value) => renamed(call, value, changing)),
      outputs: [...all.slice(0, first), ...all.slice(first + initial.length)],
    };
  }
  return call.end('its state changes with every turn');
}

/** An empty tensor that the first turn replaces, as TensorFlow's lists begin. */
function isPlaceholder(before: Value, after: Value): boolean {
  if (before.kind !== 'fixed' || after.kind !== 'rows' || before.shape?.length !== after.shape.length)
    return false;
  return before.shape.some((dim) => numberOf(dim) === 0);
}

/** A number that a loop counts is another one in each turn. */
function withoutElements(value: Value): Value {
  return value.kind === 'fixed' ? fixedOf(value.shape) : value;
}

/** What holds before a turn and after it. */
function widened(call: Call, before: Value, after: Value, changing: Set<string>): Value {
  const joined = join(before, after, call.names) ?? call.end('its state changes where its rows are');
  if (joined.kind === 'ended' || joined.kind === 'counts' || before.kind === 'ended' || !joined.shape)
    return joined;
  const shape = joined.shape.map((dim, axis) => {
    const old = before.shape?.[axis] as Size;
    if (same(dim, old) || changing.has(old.names[0] ?? '')) return old;
    changing.add(dim.names[0] as string);
    return dim;
  });
  return { ...joined, shape };
}

function hasKindOf(value: Value, before: Value): boolean {
  if (value.kind !== before.kind || value.kind === 'ended' || before.kind === 'ended')
    return value.kind === before.kind;
  return value.shape?.length === before.shape?.length;
}

/** After the last turn, a changing size is not what it was when that turn began. */
function renamed(call: Call, value: Value, changing: ReadonlySet<string>): Value {
  if ((value.kind !== 'fixed' && value.kind !== 'rows') || !value.shape) return value;
  return { ...value, shape: value.shape.map((dim) => (changing.has(dim.names[0] ?? '') ? call.dim() : dim)) };
}

/** What is the same in every turn becomes one slice for each. */
function stacked(call: Call, value: Value, length: Size, axis = 0): Value {
  if (value.kind === 'ended') return value;
  if (value.kind === 'counts') return call.end('it collects what depends on how many rows share the run');
  if (value.kind === 'row numbers') throw value.end;
  if (!value.shape) return fixedOf();
  const shape = value.shape.toSpliced(axis, 0, length);
  return value.kind === 'rows'
    ? call.rows(shape, { ...value, axis: value.axis + (axis <= value.axis ? 1 : 0) })
    : fixedOf(shape);
}

const loop: RowRule = (call) => {
  for (const index of [0, 1]) {
    const value = call.value(index);
    if (value && value.kind !== 'fixed') call.end('how many turns it takes depends on the rows');
  }
  const body = bodyOf(call, 'body');
  const initial = Array.from({ length: call.count - 2 }, (_, i) => call.value(i + 2) ?? fixedOf());
  const turn: Fixed = { kind: 'fixed', shape: [], type: INT64 };
  const condition: Fixed = { kind: 'fixed', shape: [], type: BOOL };
  const { state, outputs } = settle(call, body, initial, (values) => [turn, condition, ...values], 1);
  const goesOn = outputs[0];
  if (goesOn?.kind === 'ended') throw goesOn.end;
  if (goesOn?.kind !== 'fixed') call.end('how many turns it takes depends on the rows');
  const turns = call.dim();
  return [...state, ...outputs.slice(1).map((value) => stacked(call, value, turns))];
};

/**
 * A turn for each row, without state: whatever the body computes of a row, no other row is in sight. Undefined where the
 * turns do not go along the rows.
 */
function perRow(call: Call, body: Graph, count: number): Value[] | undefined {
  const inputs = Array.from({ length: count }, (_, i) => call.data(i));
  const axes = call.ints('scan_input_axes');
  const scanned = inputs.map((value, i) => call.axis(axes?.[i] ?? 0, call.shape(value).length));
  const [first] = inputs;
  if (
    first?.kind !== 'rows' ||
    !inputs.every((value, i) => value.kind === 'rows' && value.axis === scanned[i])
  )
    return undefined;
  const directions = [
    ...(call.ints('scan_input_directions') ?? []),
    ...(call.ints('scan_output_directions') ?? []),
  ];
  const place = samePlace(
    call,
    inputs.map((value, i) => ({
      ...value,
      axis: 0,
      shape: [call.shape(value)[scanned[i] as number] as Size],
    })),
  );
  if (!place || directions.some((direction) => direction !== 0))
    call.end('it turns the order of the rows round');
  const slices = inputs.map((value, i) => fixedOf(call.shape(value).toSpliced(scanned[i] as number, 1)));
  const outputAxes = call.ints('scan_output_axes');
  return call.analysis.runBody(body, slices, call).map((value, i) => {
    if (value.kind === 'ended') return value;
    if (value.kind !== 'fixed') return call.end('its body sees all rows');
    if (!value.shape) return call.end('the shape of what its body makes is not known');
    const axis = call.axis(outputAxes?.[i] ?? 0, value.shape.length + 1);
    return call.rows(value.shape.toSpliced(axis, 0, place.shape[0] as Size), { ...place, axis });
  });
}

const scan: RowRule = (call) => {
  if (call.opset < 9) call.end('its first form has a batch axis of its own');
  const body = bodyOf(call, 'body');
  const count = call.int('num_scan_inputs', 0);
  const stateCount = call.count - count;
  const made = stateCount === 0 ? perRow(call, body, count) : undefined;
  if (made) return made;
  const initial = Array.from({ length: stateCount }, (_, i) => call.value(i) ?? fixedOf());
  const axes = call.ints('scan_input_axes');
  let length = call.dim();
  const slices = Array.from({ length: count }, (_, i): Value => {
    const value = call.data(stateCount + i);
    const shape = call.shape(value);
    const axis = call.axis(axes?.[i] ?? 0, shape.length);
    if (value.kind === 'rows' && value.axis === axis) call.end('it goes along the batch axis');
    length = shape[axis] as Size;
    const slice = shape.toSpliced(axis, 1);
    return value.kind === 'rows'
      ? call.moved(value, slice, value.axis - (axis < value.axis ? 1 : 0))
      : fixedOf(slice);
  });
  const { state, outputs } = settle(call, body, initial, (values) => [...values, ...slices], 0);
  const outputAxes = call.ints('scan_output_axes');
  const collected = outputs.map((value, i) => {
    const rank = (value.kind === 'rows' || value.kind === 'fixed' ? (value.shape?.length ?? 0) : 0) + 1;
    return stacked(call, value, length, call.axis(outputAxes?.[i] ?? 0, rank));
  });
  return [...state, ...collected];
};

export const CONTROL_FLOW: Operators = {
  If: { rows: branch },
  Loop: { rows: loop },
  Scan: { rows: scan },
};
