/** Operators that pick, place, join and make elements, with numbers computed by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Row, testRows } from '../support/pytorch/rows.ts';
import { floats, runScript } from '../support/pytorch/run.ts';

const VALUES = Array.from({ length: 16 }, (_, i) => i - 8);
const X = floats([4, 4], VALUES);
const BEFORE = `s = torch.slice(torch.slice(x, 0, 0, 2), 1, 0, 2)
line = torch.view(x, [16])
pair = torch.view(x, [2, 2, 4])
image = torch.view(x, [1, 1, 4, 4])
channels = torch.view(x, [1, 4, 2, 2])
i = torch.tensor([1, 0])
wide = torch.view(x, [2, 2, 2, 2])
`;
const rows = (...at: readonly number[]) => at.flatMap((row) => VALUES.slice(4 * row, 4 * row + 4));
const set = (places: Readonly<Record<number, number>>) => VALUES.map((value, i) => places[i] ?? value);

const PICKED: readonly Row[] = [
  ['torch.index(x, [torch.tensor([2, -4])])', rows(2, 0)],
  ['torch.index(x, [None, torch.tensor([3, 0])])', [-5, -8, -1, -4, 3, 0, 7, 4]],
  ['torch.index(x, [None])', VALUES],
  ['torch.index(x, [torch.tensor([3, 1]), torch.tensor([0, -1])])', [4, -1]],
  ['torch.index(x, [torch.tensor([[3], [1]]), torch.tensor([0, 2])])', [4, 6, -4, -2]],
  // Indices side by side leave the axes before them in front.
  ['torch.index(pair, [None, i, torch.tensor([3, 0])])', [-1, -8, 7, 0]],
  ['torch.index(pair, [None, torch.tensor([[1], [0]]), torch.tensor([3, 0])])', [-1, -4, -5, -8, 7, 4, 3, 0]],
  // Apart they come first.
  ['torch.index(pair, [i, None, torch.tensor([3, 0])])', [3, 7, -8, -4]],
  ['torch.index(pair, [i, i])', rows(3, 0)],
  ['torch.index(wide, [None, i, None, torch.tensor([0, 1])])', [-4, -2, 4, 6, -7, -5, 1, 3]],
  ['torch.gather(x, 0, torch.tensor([[3, 0, 2]]))', [4, -7, 2]],
  ['torch.gather(x, 1, torch.tensor([[3], [0]]))', [-5, -4]],
  ['torch.take_along_dim(x, torch.tensor([[3, 0, 2, 1]]), 0)', [4, -7, 2, -1]],
  ['torch.index_select(x, 0, torch.tensor(2))', rows(2)],
  ['torch.embedding(x, torch.tensor([[1, 3]]))', rows(1, 3)],
  ['torch.embedding_bag(s, torch.tensor([[0, 1], [1, 1]]), torch.tensor([0]))[0]', [-12, -10, -8, -6]],
  ['torch.embedding_bag(s, torch.tensor([[0, 1], [1, 1]]), i, False, 1)[0]', [-6, -5, -4, -3]],
  ['torch.embedding_bag(s, torch.tensor([[0, 1], [0, 0]]), i, False, 2)[0]', [-4, -3, -8, -7]],
  [
    'torch.embedding_bag(s, torch.tensor([[0, 1], [1, 1]]), i, False, 0, False, torch.tensor([[1., 2.], [3., 0.]]))[0]',
    [-16, -13, -12, -9],
  ],
  [
    'torch.embedding_bag(x, torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2]))[0]',
    [-12, -10, -8, -6, 4, 6, 8, 10],
  ],
  ['torch.embedding_bag(x, torch.tensor([3, 1]), torch.arange(2))[0]', rows(3, 1)],
  ['torch.diagonal(x)', [-8, -3, 2, 7]],
  ['torch.diagonal(x, 1)', [-7, -2, 3]],
  ['torch.diagonal(x, -2)', [0, 5]],
  ['torch.diagonal(pair, 0, 1, 2)', [-8, -3, 0, 5]],
  ['torch.diagonal(pair, 1, -1, 0)', [0, 4]],
  ['torch.diagonal(pair, -2, -1, 0)', [-6, 3, -2, 7]],
  ['torch.unfold(line, 0, 4, 6)', [-8, -7, -6, -5, -2, -1, 0, 1, 4, 5, 6, 7]],
  ['torch.unfold(x, 0, 2, 2)', [-8, -4, -7, -3, -6, -2, -5, -1, 0, 4, 1, 5, 2, 6, 3, 7]],
  [
    'torch.unfold(x, 1, 3, 1)',
    [0, 1, 2, 3].flatMap((row) => [0, 1].flatMap((at) => [0, 1, 2].map((k) => 4 * row + at + k - 8))),
  ],
  ['torch.as_strided(torch.tensor([1., 2., 3., 4., 5., 6.]), [2, 2], [3, 1], 1)', [2, 3, 5, 6]],
  ['torch.as_strided(torch.tensor([1., 2., 3., 4.]), [2, 3], [1, 0])', [1, 1, 1, 2, 2, 2]],
  ['torch.tensor_split(line, 3)[0]', VALUES.slice(0, 6)],
  ['torch.tensor_split(line, 3)[2]', VALUES.slice(11)],
  ['torch.chunk(line, 3)[1]', VALUES.slice(6, 12)],
  ['torch.chunk(line, 3)[2]', VALUES.slice(12)],
  ['torch.split(line, 6)[2]', VALUES.slice(12)],
];

const PLACED: readonly Row[] = [
  ['torch.index_put(x, [torch.tensor([2])], torch.tensor(9.))', set({ 8: 9, 9: 9, 10: 9, 11: 9 })],
  ['torch.index_put(x, [None, torch.tensor([2])], torch.tensor(9.))', set({ 2: 9, 6: 9, 10: 9, 14: 9 })],
  [
    'torch.index_put(x, [None, torch.tensor([2, 0])], torch.tensor([[9., 8.]]))',
    set({ 2: 9, 6: 9, 10: 9, 14: 9, 0: 8, 4: 8, 8: 8, 12: 8 }),
  ],
  ['torch.index_put(x, [i, torch.tensor([2, -1])], torch.tensor([9., 8.]))', set({ 6: 9, 3: 8 })],
  [
    'torch.index_put(x, [torch.tensor([0, 0]), torch.tensor([1, 1])], torch.tensor([9., 8.]), True)',
    set({ 1: 10 }),
  ],
  [
    'torch.index_put(pair, [None, i, torch.tensor([3, 0])], torch.tensor([[20., 21.], [22., 23.]]))',
    set({ 7: 20, 0: 21, 15: 22, 8: 23 }),
  ],
  [
    'torch.index_put(pair, [i, None, torch.tensor([3, 0])], torch.tensor([[20., 21.], [22., 23.]]))',
    set({ 11: 20, 15: 21, 0: 22, 4: 23 }),
  ],
  [
    'torch.index_put(wide, [None, i, None, torch.tensor([0, 1])], torch.view(torch.arange(20., 28.), [2, 2, 2]))',
    set({ 4: 20, 6: 21, 12: 22, 14: 23, 1: 24, 3: 25, 9: 26, 11: 27 }),
  ],
  ['torch.index_put(x, [torch.gt(x, 5)], torch.tensor(0.5))', set({ 14: 0.5, 15: 0.5 })],
  [
    'torch.index_put(x, [torch.tensor([False, True, False, False])], torch.tensor([0.5]))',
    set({ 4: 0.5, 5: 0.5, 6: 0.5, 7: 0.5 }),
  ],
  ['torch.scatter(s, 1, torch.tensor([[1], [0]]), torch.tensor([[5., 6.], [7., 8.]]))', [-8, 5, 7, -3]],
  ['torch.scatter(s, 0, torch.tensor([[1, 0]]), 9)', [-8, 9, 9, -3]],
  ['torch.index_fill(x, 0, torch.tensor([3, 1]), 7)', [...rows(0), 7, 7, 7, 7, ...rows(2), 7, 7, 7, 7]],
  ['torch.index_copy(s, 1, torch.tensor([1]), torch.tensor([[5.], [6.]]))', [-8, 5, -4, 6]],
  ['torch.index_add(s, 1, torch.tensor([1, 1]), torch.tensor([[5., 1.], [6., 2.]]))', [-8, -1, -4, 5]],
];

const JOINED: readonly Row[] = [
  ['torch.pixel_shuffle(channels, 2)', [-8, -4, -7, -3, 0, 4, 1, 5, -6, -2, -5, -1, 2, 6, 3, 7]],
  ['torch.pixel_unshuffle(image, 2)', [-8, -6, 0, 2, -7, -5, 1, 3, -4, -2, 4, 6, -3, -1, 5, 7]],
  ['torch.channel_shuffle(channels, 2)', rows(0, 2, 1, 3)],
  [
    'torch.channel_shuffle(torch.view(x, [1, 8, 2]), 4)',
    [0, 2, 4, 6, 1, 3, 5, 7].flatMap((at) => VALUES.slice(2 * at, 2 * at + 2)),
  ],
  ['torch.meshgrid([torch.tensor([1., 2.]), torch.tensor([3., 4., 5.])])[0]', [1, 1, 1, 2, 2, 2]],
  ['torch.meshgrid([torch.tensor([1., 2.]), torch.tensor([3., 4., 5.])])[1]', [3, 4, 5, 3, 4, 5]],
  [
    "torch.meshgrid([torch.tensor([1., 2.]), torch.tensor([3., 4., 5.])], indexing='xy')[0]",
    [1, 2, 1, 2, 1, 2],
  ],
  [
    "torch.meshgrid([torch.tensor([1., 2.]), torch.tensor([3., 4., 5.])], indexing='xy')[1]",
    [3, 3, 4, 4, 5, 5],
  ],
  ["torch.pad(s, [1, 0], 'circular')", [-7, -8, -7, -3, -4, -3]],
  ["torch.pad(s, [0, 1, 1, 0], 'circular')", [-4, -3, -4, -8, -7, -8, -4, -3, -4]],
  ['torch.pad(s, [-1, 1])', [-7, 0, -3, 0]],
  ['torch.pad(s, [0, -1, 1, 0])', [0, -8, -4]],
  ['torch.pad(torch.gt(s, -5), [1, 0])', [0, 0, 0, 0, 1, 1]],
  ['torch.pad(s, [0, 0])', [-8, -7, -4, -3]],
  ['torch.constant_pad_nd(s, [0, 1], 9.)', [-8, -7, 9, -4, -3, 9]],
  ["torch.pad(s, [1, 0], 'reflect')", [-7, -8, -7, -3, -4, -3]],
  ['torch.replication_pad2d(s, [1, 0, 0, 1])', [-8, -8, -7, -4, -4, -3, -4, -4, -3]],
  ['torch.roll(s, [1], [])', [-3, -8, -7, -4]],
  ['torch.roll(s, [-1, 1], [0, 1])', [-3, -4, -7, -8]],
  ['torch.roll(line, [-3], [0])', [...VALUES.slice(3), ...VALUES.slice(0, 3)]],
  ['torch.roll(line, [16], [0])', VALUES],
  ['torch.roll(line, [17], [0])', [7, ...VALUES.slice(0, 15)]],
  ['torch.cat([x, torch.zeros([0])])', VALUES],
  ['torch.cat([s])', [-8, -7, -4, -3]],
  ['torch.cat([torch.tensor([1, 2]), torch.tensor([0.5])])', [1, 2, 0.5]],
  ['torch.stack([s, torch.neg(s)], -1)', [-8, 8, -7, 7, -4, 4, -3, 3]],
  ['torch.repeat(torch.tensor([1., 2.]), [2, 2])', [1, 2, 1, 2, 1, 2, 1, 2]],
  ['torch.repeat(torch.tensor([[1.], [2.]]), [1, 2])', [1, 1, 2, 2]],
  ['torch.tile(torch.tensor([1., 2.]), [2, 1])', [1, 2, 1, 2]],
  ['torch.repeat_interleave(s, 2)', [-8, -8, -7, -7, -4, -4, -3, -3]],
  ['torch.repeat_interleave(s, 2, 0)', [-8, -7, -8, -7, -4, -3, -4, -3]],
  ['torch.repeat_interleave(s, 2, -1)', [-8, -8, -7, -7, -4, -4, -3, -3]],
];

const PRODUCTS: readonly Row[] = [
  ['torch.linear(pair, torch.tensor([[1., 0., 0., 2.]]), torch.tensor([0.5]))', [-17.5, -5.5, 6.5, 18.5]],
  ['torch.linear(pair, torch.tensor([1., 0., 0., 2.]))', [-18, -6, 6, 18]],
  ['torch.addmm(torch.tensor([1., 2.]), s, s, beta=0)', [92, 77, 44, 37]],
  ['torch.bmm(pair, torch.transpose(pair, 1, 2))', [174, 70, 70, 30, 14, 38, 38, 126]],
  ["torch.einsum('Ab,bA', [s, s])", [129]],
  ["torch.einsum('ab,bc', [s, s])", [92, 77, 44, 37]],
  ["torch.einsum('ba,c', [s, torch.tensor([1., 2.])])", [-8, -16, -4, -8, -7, -14, -3, -6]],
  ['torch.tensordot(s, s, [1], [0])', [92, 77, 44, 37]],
  ['torch.tensordot(s, s, [0], [1])', [92, 44, 77, 37]],
  ['torch.tensordot(s, s, [0, 1], [1, 0])', [129]],
  [
    'torch.bilinear(s, torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([[[1., 0.], [0., 1.]], [[0., 1.], [0., 0.]]]))',
    [-22, -16, -24, -16],
  ],
  ['torch.bilinear(s, s, torch.tensor([[[1., 0.], [0., 0.]]]), torch.tensor([0.5]))', [64.5, 16.5]],
  ['torch.linalg_vecdot(s, s)', [113, 25]],
];

const MADE: readonly Row[] = [
  ['torch.arange(0.5, 2.5, 0.5)', [0.5, 1, 1.5, 2]],
  ['torch.arange(1., 2.)', [1]],
  ['torch.arange(5, 0, -2)', [5, 3, 1]],
  ['torch.arange(3, 1)', []],
  ['torch.arange(torch.size(x, 0), torch.numel(x), torch.tensor(5))', [4, 9, 14]],
  ['torch.arange(0, 1, 0.3)', [0, 0.3, 0.6, 0.9]],
  ['torch.div(torch.arange(4, dtype=6), 2)', [0, 0.5, 1, 1.5]],
  ['torch.linspace(1, 5, 1)', [1]],
  ['torch.linspace(3, 1, 3)', [3, 2, 1]],
  ['torch.eye(3, 2)', [1, 0, 0, 1, 0, 0]],
  ['torch.full_like(s, 2.5)', [2.5, 2.5, 2.5, 2.5]],
  ['torch.new_full(s, [2], 7)', [7, 7]],
  ['torch.div(torch.new_full(torch.long(s), [2], 7), 2)', [3.5, 3.5]],
  ['torch.new_zeros(s, [2])', [0, 0]],
  ['torch.new_ones(s, [1, 2])', [1, 1]],
  ['torch.zeros([2], dtype=4)', [0, 0]],
  ['torch.full([2], True)', [1, 1]],
  ['torch.full([2], torch.sum(s))', [-22, -22]],
  ['torch.full_like(s, torch.tensor(2.5))', [2.5, 2.5, 2.5, 2.5]],
  ['torch.tensor([torch.sum(s), 1.5], dtype=6)', [-22, 1.5]],
  ['torch.tensor([[1, 2], [3, 4]])', [1, 2, 3, 4]],
  ['torch.tensor([True, False])', [1, 0]],
  ['torch.tensor([1, 2.5])', [1, 2.5]],
  ['torch.tensor([2.7, -2.7], dtype=4)', [2, -2]],
  ['torch.tensor([float(torch.sum(s)), 1.5])', [-22, 1.5]],
  ['torch.tensor([[int(torch.sum(s))], [3]])', [-22, 3]],
  ['torch.scalar_tensor(4)', [4]],
  ['torch.bitwise_not(torch.tensor([5, -1]))', [-6, 0]],
  ['torch.bitwise_not(torch.gt(s, -5))', [1, 1, 0, 0]],
  ['torch.bitwise_and(torch.gt(s, -8), torch.lt(s, -3))', [0, 1, 1, 0]],
  ['torch.bitwise_or(torch.gt(s, -4), torch.lt(s, -7))', [1, 0, 0, 1]],
  ['torch.bitwise_xor(torch.gt(s, -8), torch.lt(s, -3))', [1, 0, 0, 1]],
  ['torch.logical_not(torch.add(s, 7))', [0, 1, 0, 0]],
];

testRows(
  { picking: PICKED, placing: PLACED, 'joining and padding': JOINED, products: PRODUCTS, making: MADE },
  X,
  BEFORE,
);

const WRITES: readonly (readonly [lines: string, places: Readonly<Record<number, number>>])[] = [
  ['_0 = torch.fill_(torch.slice(y, 0, 1, 4, 2), 9)', { 4: 9, 5: 9, 6: 9, 7: 9, 12: 9, 13: 9, 14: 9, 15: 9 }],
  ['_0 = torch.add_(torch.slice(torch.slice(y, 1, 0, 4, 3), 0, 0, 1), 20)', { 0: 12, 3: 15 }],
  ['_0 = torch.fill_(torch.slice(torch.slice(y, 1, 1, 3), 0, 3), 9)', { 13: 9, 14: 9 }],
  ['_0 = torch.fill_(torch.squeeze(torch.slice(y, 0, 2, 3), 0), 9)', { 8: 9, 9: 9, 10: 9, 11: 9 }],
  ['_0 = torch.fill_(torch.unsqueeze(torch.select(y, 0, 2), 0), 9)', { 8: 9, 9: 9, 10: 9, 11: 9 }],
  ['_0 = torch.fill_(torch.split(y, 2, 1)[1], 9)', { 2: 9, 3: 9, 6: 9, 7: 9, 10: 9, 11: 9, 14: 9, 15: 9 }],
  ['_0 = torch.index_put_(y, [None, torch.tensor([2])], torch.tensor(9.))', { 2: 9, 6: 9, 10: 9, 14: 9 }],
];
for (const [lines, places] of WRITES)
  test(`written in place: ${lines}`, async (t) => {
    const [result] = await runScript(t, { forward: `y = torch.clone(x)\n${lines}\nreturn y` }, X);
    assert.deepEqual(result, set(places));
  });

const REFUSED: readonly (readonly [call: string, message: RegExp])[] = [
  ['torch.index(x, [torch.gt(x, 0)])', /a mask as an index/],
  ['torch.index(x, [i, i, i])', /more indices than dimensions/],
  ['torch.index_put(x, [torch.gt(x, 0)], line)', /a mask takes one number only/],
  ['torch.embedding_bag(x, torch.tensor([0, 1, 2]), torch.tensor([0, 2]))', /bags of different lengths/],
  ['torch.embedding_bag(x, torch.tensor([[0]]), i, False, 3)', /mode 3/],
  ['torch.embedding_bag(x, torch.tensor([[0]]), i, padding_idx=0)', /padding_idx/],
  ['torch.one_hot(i)', /needs a known number of classes/],
  ['torch.unfold(x, 0, 5, 1)', /has impossible windows/],
  ['torch.as_strided(x, [2], [1])', /needs fixed sizes/],
  ['torch.as_strided(torch.select(x, 0, 0), [2], [1])', /for constants only/],
  ['torch.as_strided(torch.tensor([1., 2.]), [2], [2])', /outside of its storage/],
  ['torch.pad(s, [1, 1, 1, 1, 1, 1])', /has 6 pads for 2 dimensions/],
  ["torch.pad(s, [1, 1], 'other')", /mode other/],
  ["torch.pad(s, [-1, 1], 'circular')", /negative circular/],
  ['torch.cat([x, line])', /tensors of different ranks/],
  ['torch.stack([])', /stacks an empty list/],
  ['torch.repeat(x, [2])', /fewer repeats than dimensions/],
  ["torch.einsum('a...', [x])", /an ellipsis/],
  ["torch.einsum('ab', [x, x])", /as many terms as tensors/],
  ["torch.einsum('ab,bc', [x, torch.zeros([3, 2])])", /combines 4 and 3 as "b"/],
  ['torch.matmul(x, torch.sum(x))', /at least one dimension/],
  ['torch.matmul(x, torch.zeros([3, 2]))', /combines 4 and 3 as the summed size/],
  ['torch.linear(torch.long(x), x)', /of int64 with weights of float32/],
  ['torch.arange(0., 1., -1.)', /has -1 elements/],
  ['torch.arange(0, 99999999)', /has 99999999 elements/],
  ['torch.linspace(0, 1, 99999999)', /has 99999999 elements/],
  ['torch.eye(9999)', /has 99980001 elements/],
  ['torch.tensor([[1], [1, 2]])', /rows of different lengths/],
  ['torch.bitwise_and(torch.tensor([1]), 1)', /for bools only/],
  ['torch.bitwise_not(x)', /not supported for float32/],
  ['torch.select(x, 2, 0)', /axis 2 is outside of 2 dimensions/],
  ['torch.select(x, -3, 0)', /axis -3 is outside of 2 dimensions/],
];
for (const [call, message] of REFUSED)
  test(`refused: ${call}`, async (t) => {
    await assert.rejects(runScript(t, { forward: `${BEFORE}return ${call}` }, X), {
      code: 'bad_model',
      message,
    });
  });
