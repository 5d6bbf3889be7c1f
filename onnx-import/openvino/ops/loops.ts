/**
 * TensorIterator and Loop. Both become ONNX's Loop: a part of an input is sliced in each round, and the parts
 * of an output are stacked along a new axis that is moved to its place afterwards.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { reversed } from '../../emit/gather.ts';
import { BATCH } from '../../graph/batch.ts';
import type { GraphBuilder } from '../../graph/builder.ts';
import { tensorOf } from '../../graph/numbers.ts';
import { axisOf, fixed, known } from '../../graph/shapes.ts';
import type { Shape, Value, ValueType } from '../../graph/value.ts';
import type { Net } from '../net.ts';
import { cast, int64, type OpTable, type OvNode, type Rule } from '../node.ts';
import { childOf } from '../xml.ts';
import { bodyOf, inOrder, inputAt, type Joint, jointsOf, resultOf } from './bodies.ts';

/** Shapes start as those of the first round; each pass frees what the body changes. */
const MAX_PASSES = 4;

interface Plan {
  readonly node: OvNode;
  readonly body: Net;
  /** By the layer of the body: the value of each round is a part of this. */
  readonly sliced: ReadonlyMap<string, { readonly joint: Joint; readonly from: Value }>;
  readonly same: ReadonlyMap<string, Value>;
  /** By the layer of the body that takes it: the first value, and the layer that gives the next. */
  readonly carried: readonly { readonly layer: string; readonly first: Value; readonly next: string }[];
  readonly counters: readonly {
    readonly layer: string;
    readonly shape: Shape;
    readonly dtype: 'int32' | 'int64';
  }[];
  readonly outputs: readonly Joint[];
  readonly condition: string | undefined;
  readonly rounds: Value | undefined;
}

function planOf(node: OvNode): Plan {
  const { element } = node.layer;
  const body = bodyOf(node, 'body');
  const map = childOf(element, 'port_map');
  const back = new Map(
    (childOf(element, 'back_edges')?.children ?? []).map(({ attributes: at }) => [
      at.get('to-layer') ?? '',
      at.get('from-layer') ?? '',
    ]),
  );
  const inputs = jointsOf(map, 'input');
  const outputs = jointsOf(map, 'output');
  const isLoop = node.layer.type === 'Loop';
  const sliced = new Map(
    inputs.flatMap((joint) =>
      joint.axis === undefined ? [] : [[joint.layer, { joint, from: inputAt(node, joint.port) }] as const],
    ),
  );
  const plain = inputs.filter(({ axis, purpose }) => axis === undefined && purpose === '');
  const given = plain.map(({ layer, port }) => ({
    layer,
    first: inputAt(node, port),
    next: back.get(layer),
  }));
  return {
    node,
    body,
    sliced,
    same: new Map(
      given.flatMap(({ layer, first, next }) => (next === undefined ? [[layer, first] as const] : [])),
    ),
    carried: given.flatMap(({ layer, first, next }) => (next === undefined ? [] : [{ layer, first, next }])),
    counters: inputs
      .filter(({ purpose }) => purpose === 'current_iteration')
      .map(({ layer }) => counterOf(body, layer)),
    outputs: outputs.filter(({ purpose }) => purpose === ''),
    condition: outputs.find(({ purpose }) => purpose === 'execution_condition')?.layer,
    rounds: isLoop ? tripCount(node) : roundsOf(node, [...sliced.values()]),
  };
}

function counterOf(body: Net, id: string): Plan['counters'][number] {
  const port = body.layers.find((layer) => layer.id === id)?.outputs[0];
  if (!port) throw badModel(`counts in layer ${id}, which its body does not have`);
  return { layer: id, shape: port.dims, dtype: port.precision === 'I32' ? 'int32' : 'int64' };
}

/** A negative count has no end. */
function tripCount(node: OvNode): Value | undefined {
  const count = int64(node, node.input(0));
  const number = count.elements?.[0];
  if (typeof number === 'number' && number < 0) return undefined;
  if (number === undefined) throw badModel('computes its number of rounds, which is not supported');
  return node.g.one('Reshape', [count, node.g.ints([])]);
}

function roundsOf(node: OvNode, parts: readonly { joint: Joint; from: Value }[]): Value {
  const [first] = parts;
  if (!first) throw badModel('has no input that it takes part by part');
  for (const { joint, from } of parts) {
    assertRows(joint);
    if (known(from)[axisOf(joint.axis as number, known(from).length)] === BATCH) node.bindBatch();
  }
  const { joint, from } = first;
  const axis = axisOf(joint.axis as number, known(from).length);
  return node.g.one('Gather', [node.g.one('Shape', [from]), node.g.scalar('int64', axis)]);
}

/** All rows of an axis are taken or made one by one, from the first or from the last on. */
function assertRows({ part, stride, start, end }: Joint): void {
  const isWhole = stride > 0 ? start === 0 && end === -1 : start === -1 && end === 0;
  if (part !== 1 || Math.abs(stride) !== 1 || !isWhole)
    throw badModel('takes or joins parts of several rows, which is not supported');
}

interface Round {
  readonly builder: GraphBuilder;
  readonly next: readonly Value[];
  readonly parts: readonly Value[];
  readonly goOn: Value;
}

function convertRound(plan: Plan, shapes: readonly (Shape | undefined)[]): Round {
  const { node, body } = plan;
  const builder = node.g.body();
  const round = builder.input(`${node.hint}/round`, 'int64', []);
  const going = builder.input(`${node.hint}/go_on`, 'bool', []);
  const given = new Map<string, Value>(plan.same);
  for (const [i, { layer, first }] of plan.carried.entries())
    given.set(layer, builder.input(`${node.hint}/${i}`, first.dtype, shapes[i]));
  for (const [layer, { joint, from }] of plan.sliced) given.set(layer, partOf(builder, joint, from, round));
  for (const { layer, shape, dtype } of plan.counters) {
    const counter = builder.one('Reshape', [round, builder.ints(shape as number[])]);
    given.set(layer, dtype === 'int64' ? counter : builder.one('Cast', [counter], { to: 6 }));
  }
  const values = node.net.convertBody(body, given, builder);
  const valueOf = (id: string) => given.get(id) ?? resultOf(body, id, values);
  const condition = plan.condition === undefined ? going : valueOf(plan.condition);
  const goOn = builder.one('Reshape', [
    condition.dtype === 'bool' ? condition : builder.one('Cast', [condition], { to: 9 }),
    builder.ints([]),
  ]);
  return {
    builder,
    next: plan.carried.map(({ next }) => valueOf(next)),
    parts: plan.outputs.map(({ layer }) => valueOf(layer)),
    goOn,
  };
}

/** One row, counted from the end where the stride is negative. */
function partOf(g: GraphBuilder, joint: Joint, from: Value, round: Value): Value {
  const { axis, start, stride } = joint;
  assertRows(joint);
  const at = g.one('Reshape', [round, g.ints([1])]);
  const moved = stride > 0 ? at : g.one('Neg', [at]);
  const place = start === 0 ? moved : g.one('Add', [moved, g.ints([start])]);
  return g.one('Gather', [from, place], { axis: axisOf(axis as number, known(from).length) });
}

/** The shapes of loop variables that hold in every round. */
function settled(plan: Plan): { round: Round; shapes: readonly (Shape | undefined)[] } {
  let shapes = plan.carried.map(({ first }) => first.shape);
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const round = convertRound(plan, shapes);
    const next = shapes.map((shape, i) => {
      const own = round.next[i]?.shape;
      if (!shape || own?.length !== shape.length) return undefined;
      return shape.map((dim, axis) =>
        dim === own[axis] || (typeof dim === 'string' && dim !== BATCH) ? dim : plan.node.g.fresh(),
      );
    });
    if (
      next.every(
        (shape, i) => shape?.every((dim, axis) => dim === shapes[i]?.[axis]) ?? shapes[i] === undefined,
      )
    )
      return { round, shapes };
    shapes = next;
  }
  throw badModel('changes the shapes of its variables in a way that is not understood');
}

const loop: Rule = (node) => {
  for (const i of node.inputs.keys()) node.optional(i);
  const plan = planOf(node);
  const { g } = node;
  const { round, shapes } = settled(plan);
  const { builder, next, parts, goOn } = round;
  const lasts = plan.outputs.map(({ axis }, i) => (axis === undefined ? (parts[i] as Value) : undefined));
  // A last value that is no variable of the loop becomes one; it starts as zeros, because every loop has a round.
  const extra = lasts.flatMap((value, i) =>
    value && plan.carried.every(({ next: id }) => id !== plan.outputs[i]?.layer) ? [i] : [],
  );
  const stacked = plan.outputs.flatMap(({ axis }, i) => (axis === undefined ? [] : [i]));
  builder.output(`${node.hint}:go_on${g.fresh()}`, goOn);
  for (const value of [
    ...next,
    ...extra.map((i) => parts[i] as Value),
    ...stacked.map((i) => parts[i] as Value),
  ])
    builder.output(`${node.hint}:${g.fresh()}`, value);
  if (extra.length > 0) throw badModel('gives a value of its last round that is no variable of the loop');
  const results: ValueType[] = [
    ...plan.carried.map(({ first }, i) => ({ dtype: first.dtype, shape: shapes[i] })),
    ...stacked.map((i) => {
      const part = parts[i] as Value;
      const count = plan.rounds?.elements?.[0];
      return {
        dtype: part.dtype,
        shape: part.shape && [
          typeof count === 'number' && plan.condition === undefined ? count : g.fresh(),
          ...part.shape,
        ],
      };
    }),
  ];
  const start =
    node.layer.type === 'Loop'
      ? cast(node, g.one('Reshape', [node.input(1), g.ints([])]), 'bool')
      : g.constant(tensorOf('bool', [], [1]));
  const made = g.add(
    'Loop',
    [plan.rounds, start, ...plan.carried.map(({ first }) => first)],
    { body: { body: builder.finish() } },
    { outputs: results.length, results, hint: node.hint },
  );
  return inOrder(node, plan.outputs, (joint, i) => {
    if (joint.axis === undefined)
      return made[plan.carried.findIndex(({ next: id }) => id === joint.layer)] as Value;
    return joined(node, made[plan.carried.length + stacked.indexOf(i)] as Value, joint);
  });
};

/** [rounds, ..., 1, ...] becomes [..., rounds, ...]. */
function joined(node: OvNode, rows: Value, joint: Joint): Value {
  const { axis, stride } = joint;
  const { g } = node;
  const rank = known(rows).length - 1;
  const at = axisOf(axis as number, rank);
  assertRows(joint);
  if (fixed(rows, at + 1) !== 1) throw badModel('joins parts of several rows, which is not supported');
  const bare = g.one('Squeeze', [rows, g.ints([at + 1])]);
  const perm = Array.from({ length: rank }, (_, i) => (i < at ? i + 1 : i === at ? 0 : i));
  const turned = g.one('Transpose', [bare], { perm });
  if (stride > 0) return turned;
  return reversed(node, turned, [at]);
}

export const LOOPS: OpTable = { Loop: loop, TensorIterator: loop };
