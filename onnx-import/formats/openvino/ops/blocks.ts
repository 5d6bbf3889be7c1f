/** Blocks of space that become channels or records, and back; the order of channels. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { axisOf, known } from '../../../graph/shapes.ts';
import { cast, type OpTable, type OvNode, type Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';
import { scalar } from './elementwise.ts';
import { numbersIn, size } from './shaping.ts';

const depthToSpace: Rule = (node) => {
  const mode = node.choice('mode', ['blocks_first', 'depth_first'], 'blocks_first');
  const block = node.whole('block_size', 1);
  const x = node.input();
  if (known(x).length === 4)
    return node.one('DepthToSpace', [x], { blocksize: block, mode: mode === 'blocks_first' ? 'DCR' : 'CRD' });
  throw badModel(`needs an input of rank 4, got ${known(x).length}`);
};

const spaceToDepth: Rule = (node) => {
  const mode = node.choice('mode', ['blocks_first', 'depth_first'], 'blocks_first');
  const block = node.whole('block_size', 1);
  const x = node.input();
  if (known(x).length !== 4) throw badModel(`needs an input of rank 4, got ${known(x).length}`);
  const made = node.one('SpaceToDepth', [x], { blocksize: block });
  const channels = known(x)[1];
  if (mode === 'blocks_first' || block === 1) return made;
  if (typeof channels !== 'number') throw badModel('needs a fixed number of channels');
  const order = Array.from(
    { length: channels * block ** 2 },
    (_, i) => (i % block ** 2) * channels + Math.floor(i / block ** 2),
  );
  return node.one('Gather', [made, node.g.ints(order)], { axis: 1 });
};

const shuffleChannels: Rule = (node) => {
  const x = node.input();
  const shape = known(x);
  const axis = axisOf(node.whole('axis', 1), shape.length);
  const group = node.whole('group', 1);
  const channels = shape[axis];
  if (typeof channels !== 'number' || group < 1 || channels % group !== 0)
    throw badModel(`shuffles ${channels} channels in ${group} groups`);
  const order = Array.from(
    { length: channels },
    (_, i) => (i % group) * (channels / group) + Math.floor(i / group),
  );
  return node.one('Gather', [x, node.g.ints(order)], { axis });
};

/** The block, and what is added or cut before and after. */
function sizeLists(node: OvNode): [block: number[], before: number[], after: number[]] {
  const list = (i: number) => constantNumbers(node.input(i), 'list of sizes');
  return [list(1), list(2), list(3)];
}

/** Blocks of space and batch, by the shapes and transpositions that define them. */
const spaceToBatch: Rule = (node) => {
  const x = node.input(0);
  node.bindBatch();
  const [block, before, after] = sizeLists(node);
  const padded = node.g.one('Pad', [x, node.g.ints([...before, ...after]), scalar(node, x, 0)]);
  const dims = numbersIn(padded);
  const apart = dims.flatMap((dim, i) =>
    i === 0 ? [dim] : [dim / (block[i] as number), block[i] as number],
  );
  const rest = dims.slice(1);
  const perm = [...rest.map((_, i) => 2 * i + 2), 0, ...rest.map((_, i) => 2 * i + 1)];
  const moved = node.g.one('Transpose', [node.g.one('Reshape', [padded, node.g.ints(apart)])], { perm });
  return node.one('Reshape', [
    moved,
    node.g.ints([(dims[0] as number) * size(block), ...rest.map((dim, i) => dim / (block[i + 1] as number))]),
  ]);
};

const batchToSpace: Rule = (node) => {
  const x = node.input(0);
  node.bindBatch();
  const [block, before, after] = sizeLists(node);
  const dims = numbersIn(x);
  const rest = dims.slice(1);
  const blocks = block.slice(1);
  const batch = (dims[0] as number) / size(block);
  const apart = node.g.one('Reshape', [x, node.g.ints([...blocks, batch, ...rest])]);
  const count = rest.length;
  const perm = [count, ...rest.flatMap((_, i) => [count + 1 + i, i])];
  const whole = [batch, ...rest.map((dim, i) => dim * (blocks[i] as number))];
  const joined = node.g.one('Reshape', [node.g.one('Transpose', [apart], { perm }), node.g.ints(whole)]);
  const ends = whole.map((dim, i) => dim - (after[i] as number));
  return node.one('Slice', [joined, node.g.ints(before), node.g.ints(ends), node.g.ints([...whole.keys()])]);
};

const eye: Rule = (node) => {
  const [rows, columns] = [
    constantNumbers(node.input(0), 'rows')[0],
    constantNumbers(node.input(1), 'columns')[0],
  ];
  const shift = constantNumbers(node.input(2), 'diagonal')[0] as number;
  if (node.optional(3)) throw badModel('has a batch of matrices, which is not supported');
  const type = dtypeNamed(node.text('output_type'));
  const count = (rows as number) * (columns as number);
  if (!(count <= 2 ** 24)) throw badModel(`has ${rows} x ${columns} numbers`);
  const data = Float32Array.from({ length: count }, (_, i) =>
    (i % (columns as number)) - Math.floor(i / (columns as number)) === shift ? 1 : 0,
  );
  return cast(node, node.g.floats(data, [rows as number, columns as number]), type);
};

export const BLOCKS: OpTable = {
  BatchToSpace: batchToSpace,
  DepthToSpace: depthToSpace,
  Eye: eye,
  ShuffleChannels: shuffleChannels,
  SpaceToBatch: spaceToBatch,
  SpaceToDepth: spaceToDepth,
};
