/** TensorFlow's files as one graph: names, functions, variables, and what is refused. Small files, made here. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { readCheckpoint } from '../../../../onnx-import/formats/tensorflow/files/checkpoint.ts';
import { readFrozenGraph } from '../../../../onnx-import/formats/tensorflow/files/frozen.ts';
import { readSavedModel } from '../../../../onnx-import/formats/tensorflow/files/saved-model.ts';
import {
  listAttribute,
  type TfGraph,
  tensorAttribute,
  typeAttribute,
} from '../../../../onnx-import/formats/tensorflow/graph.ts';
import type { ConvertOptions } from '../../../../onnx-import/source/convert-options.ts';
import fc from '../../../support/fast-check.ts';
import { bundleFiles } from '../../support/bundle.ts';
import { folderOf } from '../../support/folder.ts';
import { bytes, int, ints } from '../../support/protobuf.ts';
import {
  attr,
  constant,
  DT,
  type FunctionSpec,
  floatTensor,
  graph,
  intTensor,
  metaGraph,
  node,
  placeholder,
  savedModel,
  shape,
  textTensor,
} from '../../support/tensorflow.ts';

type Files = Readonly<Record<string, string | Uint8Array>>;
type Read = (files: Files, options?: ConvertOptions) => Promise<TfGraph>;
type Context = Parameters<typeof folderOf>[0];

const frozenIn =
  (t: Context): Read =>
  async (files, options) =>
    (await readFrozenGraph(await folderOf(t, files), options)).graph;
const savedIn =
  (t: Context): Read =>
  async (files, options) =>
    (await readSavedModel(await folderOf(t, files), options)).graph;
const checkpointIn =
  (t: Context): Read =>
  async (files, options) =>
    (await readCheckpoint(await folderOf(t, files), options)).graph;

async function refuses(running: Promise<unknown>, ...patterns: readonly RegExp[]): Promise<void> {
  await assert.rejects(running, (error: unknown) => {
    assert.ok(error instanceof ServingError, String(error instanceof Error ? error.stack : error));
    assert.equal(error.code, 'bad_model', error.message);
    for (const pattern of patterns) assert.match(error.message, pattern);
    return true;
  });
}

const names = (list: readonly { readonly name: string }[]): string[] => list.map(({ name }) => name);
const FLOAT = { T: attr.type(DT.float) };
const WEIGHTS = constant('w', floatTensor([2, 1], [1, 2]));
const DENSE = [placeholder('x'), WEIGHTS, node('MatMul', 'dense', ['x', 'w'], FLOAT)];
const META = (inputs: readonly string[], outputs: readonly string[]): string =>
  JSON.stringify({ input_names: inputs, output_names: outputs });

test('frozen: graph_meta.json names inputs and outputs, and only what the outputs need is kept', async (t) => {
  const nodes = [...DENSE, node('Relu', 'y', ['dense:0'], FLOAT), node('Loss', 'loss', ['y', 'labels'])];
  const read = frozenIn(t);
  const tf = await read({
    'frozen_inference_graph.pb': graph(nodes),
    'graph_meta.json': META(['x:0'], ['y:0']),
  });
  assert.deepEqual(tf.inputs, [{ name: 'x', tensor: 'x:0', dtype: 'float32', shape: ['N', 2] }]);
  assert.deepEqual(tf.outputs, [{ name: 'y', tensor: 'y:0' }]);
  assert.deepEqual([...tf.nodes.keys()], ['w', 'dense', 'y']);
  assert.deepEqual(tf.nodes.get('dense')?.inputs, ['x:0', 'w:0']);
  const weights = tf.nodes.get('w');
  assert.deepEqual(weights && tensorAttribute(weights, 'value').data, new Float32Array([1, 2]));
});

test('frozen: without graph_meta.json placeholders are inputs, and tensors without consumers are outputs', async (t) => {
  const leftovers = [
    node('HistogramSummary', 'summary', ['tag', 'dense']),
    node('Const', 'unused', [], { dtype: attr.type(DT.float) }),
    node('NoOp', 'init', ['^w', '^dense']),
    node('Identity', 'pivot', ['x'], FLOAT),
    node('Const', 'branch', ['^pivot'], { dtype: attr.type(DT.float) }),
  ];
  const read = frozenIn(t);
  const tf = await read({ 'frozen_graph.pb': graph([...DENSE, ...leftovers]) });
  assert.deepEqual([names(tf.inputs), names(tf.outputs)], [['x'], ['dense']]);
  const two = [
    ...DENSE,
    node('Split', 'parts', ['axis', 'x'], { num_split: attr.int(3) }),
    constant('axis', intTensor([], [1])),
  ];
  const both = await read({ 'frozen_graph.pb': graph(two) });
  assert.deepEqual(names(both.outputs), ['dense', 'parts', 'parts:1', 'parts:2']);
});

test('frozen: a graph that was trained in place is not guessed at, the error lists what to choose from', async (t) => {
  const trained = [
    ...DENSE,
    node('Softmax', 'probabilities', ['dense'], FLOAT),
    placeholder('labels'),
    node('Mean', 'loss', ['probabilities', 'labels'], FLOAT),
    node('Mul', 'gradients/loss_grad/mul', ['loss', 'w'], FLOAT),
  ];
  const read = frozenIn(t);
  const files = { 'frozen_graph.pb': graph(trained) };
  await refuses(
    read(files),
    /trained in place/,
    /Name them with --output, or in a graph_meta\.json/,
    /labels \(Placeholder\)/,
    /probabilities \(Softmax\)/,
  );
  const tf = await read(files, { outputNames: ['probabilities'] });
  assert.deepEqual([names(tf.inputs), names(tf.outputs)], [['x'], ['probabilities']]);
});

test('frozen: the same graph reads from text, whatever its ending', async (t) => {
  const text = `# by hand
    node { name: "x" op: "Placeholder"
      attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { dim { size: -1 } dim { size: 2 } } } } }
    node { name: "k" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: "\\000\\000\\200?\\000\\000\\000@" } } } }
    node { name: "y" op: "Mul" input: "x" input: "k" attr { key: "T" value { type: DT_FLOAT } } }
    versions { producer: 27 }`;
  for (const name of ['frozen_graph.pbtxt', 'frozen_inference_graph.pb', 'my_model.pb']) {
    const tf = await frozenIn(t)({ [name]: text });
    const k = tf.nodes.get('k');
    assert.deepEqual(k && tensorAttribute(k, 'value').data, new Float32Array([1, 2]));
    assert.deepEqual(tf.inputs[0]?.shape, ['N', 2]);
  }
  await refuses(frozenIn(t)({ 'frozen_graph.pbtxt': 'node { name: }' }), /frozen_graph\.pbtxt: .*\(line 1\)/);
});

test('frozen: a binary graph whose first bytes look like text is still read as binary', async (t) => {
  const length = 'n'.charCodeAt(0);
  const long = 'x'.repeat(':'.charCodeAt(0));
  const bare = node('Placeholder', long, [], { dtype: attr.type(DT.float) });
  const first = Buffer.concat([bare, bytes(4, 'd'.repeat(length - bare.length - 2))]);
  assert.equal(first.length, length);
  const file = graph([first, node('Relu', 'y', [long], FLOAT)]);
  assert.match(file.toString('latin1'), /^\nn\n:x/);
  const tf = await frozenIn(t)({ 'frozen_graph.pb': file });
  assert.deepEqual(names(tf.inputs), [long]);
});

test('frozen: an assignment behind a condition is left out with a note, one that always runs is refused', async (t) => {
  const nodes = (target: string): Buffer[] => [
    ...DENSE,
    placeholder('training', [], DT.bool),
    node('Switch', 'switch', ['dense', 'training'], FLOAT),
    node('AssignSub', 'moving', [target, target], FLOAT),
    node('Identity', 'y', ['dense', '^moving'], FLOAT),
  ];
  const meta = { 'graph_meta.json': META(['x', 'training'], ['y']) };
  const directory = await folderOf(t, { ...meta, 'frozen_graph.pb': graph(nodes('switch:1')) });
  const { graph: tf, notes } = await readFrozenGraph(directory);
  assert.deepEqual([...tf.nodes.keys()], ['w', 'dense', 'y']);
  assert.match(notes.join('\n'), /only training runs are left out: moving/);
  await refuses(
    frozenIn(t)({ ...meta, 'frozen_graph.pb': graph(nodes('dense')) }),
    /AssignSub \(node "moving"\): changes/,
  );
});

test('frozen: inputs may cut the graph at any tensor, by name or by a shape given for it', async (t) => {
  const nodes = [
    node('Placeholder', 'jpeg', [], { dtype: attr.type(DT.string) }),
    node('DecodeJpeg', 'decode', ['jpeg'], { channels: attr.int(3) }),
    node('Cast', 'pixels', ['decode'], { SrcT: attr.type(DT.uint8), DstT: attr.type(DT.float) }),
    node('Relu', 'y', ['pixels'], FLOAT),
  ];
  const files = { 'frozen_graph.pb': graph(nodes), 'graph_meta.json': META(['jpeg'], ['y']) };
  const named = await frozenIn(t)(files, {
    inputNames: ['pixels:0'],
    inputShapes: { pixels: ['N', 8, 8, 3] },
  });
  assert.deepEqual(named.inputs, [
    { name: 'pixels', tensor: 'pixels:0', dtype: 'float32', shape: ['N', 8, 8, 3] },
  ]);
  assert.deepEqual([...named.nodes.keys()], ['y']);
  const shaped = await frozenIn(t)(files, { inputShapes: { decode: [4, 4, 3] } });
  assert.deepEqual(shaped.inputs, [{ name: 'decode', tensor: 'decode:0', dtype: 'uint8', shape: [4, 4, 3] }]);
  await refuses(
    frozenIn(t)(files, { inputNames: ['pixel'] }),
    /input "pixel" is not a tensor.*file names jpeg/s,
  );
  await refuses(frozenIn(t)(files, { inputNames: ['y:3'] }), /"y:3" is not a tensor/);
  await refuses(frozenIn(t)(files, { inputNames: ['pixels', 'pixels:0'] }), /two inputs are named "pixels"/);
});

test('frozen: an input can be a constant, and a placeholder with a default is its default unless it is named', async (t) => {
  const nodes = [
    placeholder('x'),
    placeholder('keep_prob', []),
    placeholder('flag', [], DT.bool),
    constant('half', floatTensor([], [0.5])),
    node('PlaceholderWithDefault', 'rate', ['half'], { dtype: attr.type(DT.float), shape: attr.shape([]) }),
    node('AddN', 'y', ['x', 'keep_prob', 'rate', 'flag'], FLOAT),
  ];
  const files = { 'frozen_graph.pb': graph(nodes) };
  const tf = await frozenIn(t)(files, { constants: { keep_prob: 1, flag: 0 } });
  assert.deepEqual(names(tf.inputs), ['x']);
  const [, keep = '', rate = '', flag = ''] = tf.nodes.get('y')?.inputs ?? [];
  const one = tf.nodes.get(keep.slice(0, -2));
  assert.deepEqual(one && tensorAttribute(one, 'value'), {
    dtype: 'float32',
    shape: [],
    data: new Float32Array([1]),
  });
  const off = tf.nodes.get(flag.slice(0, -2));
  assert.deepEqual(off && tensorAttribute(off, 'value'), {
    dtype: 'bool',
    shape: [],
    data: new Uint8Array([0]),
  });
  assert.equal(tf.nodes.get(rate.slice(0, -2))?.op, 'Identity');
  const open = await frozenIn(t)(files, { inputNames: ['x', 'rate'], constants: { keep_prob: 1, flag: 0 } });
  assert.deepEqual(names(open.inputs), ['x', 'rate']);
  await refuses(
    frozenIn(t)(files, { inputNames: ['x'] }),
    /also need keep_prob \(Placeholder\), flag \(Placeholder\)/,
  );
  await refuses(frozenIn(t)(files, { constants: { nothing: 1 } }), /"nothing" is not a tensor/);
});

test('frozen: where every input has a default, a single one is the input and several are asked for', async (t) => {
  const optional = (name: string): Buffer =>
    node('PlaceholderWithDefault', name, ['zero'], {
      dtype: attr.type(DT.float),
      shape: attr.shape([-1, 2]),
    });
  const zero = constant('zero', floatTensor([1, 2], [0, 0]));
  const one = await frozenIn(t)({
    'frozen_graph.pb': graph([zero, optional('x'), node('Relu', 'y', ['x'], FLOAT)]),
  });
  assert.deepEqual(one.inputs, [{ name: 'x', tensor: 'x:0', dtype: 'float32', shape: ['N', 2] }]);
  const two = {
    'frozen_graph.pb': graph([zero, optional('a'), optional('b'), node('Add', 'y', ['a', 'b'], FLOAT)]),
  };
  await refuses(frozenIn(t)(two), /all inputs have a default; name those to keep with --input: a \(.*b \(/);
  assert.deepEqual(names((await frozenIn(t)(two, { inputNames: ['b'] })).inputs), ['b']);
});

test('frozen: half, bfloat16 and repeated values become plain float32 tensors', async (t) => {
  const dims = bytes(2, shape([2, 2]));
  const half = Buffer.concat([int(1, DT.half), dims, ints(13, [0x3c00, 0xc000, 0x7c00, 0x0001])]);
  const bfloat = Buffer.concat([
    int(1, 14),
    dims,
    bytes(4, Buffer.from([0x80, 0x3f, 0x00, 0xc0, 0, 0, 0, 0])),
  ]);
  const repeated = floatTensor([2, 2], [5, 6], true);
  const zeros = Buffer.concat([int(1, DT.float), dims]);
  const list: [string, Buffer, number[]][] = [
    ['half', half, [1, -2, Number.POSITIVE_INFINITY, 2 ** -24]],
    ['bfloat', bfloat, [1, -2, 0, 0]],
    ['repeated', repeated, [5, 6, 6, 6]],
    ['zeros', zeros, [0, 0, 0, 0]],
  ];
  const nodes = list.map(([name, tensor]) => constant(name, tensor, DT.half));
  const tf = await frozenIn(t)({
    'frozen_graph.pb': graph([
      placeholder('x', [2], DT.half),
      ...nodes,
      node('AddN', 'y', ['x', ...list.map(([name]) => name)]),
    ]),
  });
  assert.equal(tf.inputs[0]?.dtype, 'float32');
  for (const [name, , expected] of list) {
    const found = tf.nodes.get(name);
    assert.deepEqual(found && tensorAttribute(found, 'value'), {
      dtype: 'float32',
      shape: [2, 2],
      data: new Float32Array(expected),
    });
    assert.equal(found && typeAttribute(found, 'dtype'), 'float32');
  }
});

test('frozen: tensors that claim what they do not have are refused, all of them in one error', async (t) => {
  const claims: [string, Buffer, RegExp][] = [
    [
      'huge',
      Buffer.concat([int(1, DT.float), bytes(2, shape([2 ** 20, 2 ** 20]))]),
      /repeated values expand/,
    ],
    ['endless', Buffer.concat([int(1, DT.float), bytes(2, shape([2 ** 40, 2 ** 40]))]), /over the limit/],
    [
      'short',
      Buffer.concat([int(1, DT.float), bytes(2, shape([4])), bytes(4, Buffer.alloc(8))]),
      /has 8 bytes/,
    ],
    ['many', floatTensor([1], [1, 2], true), /1 elements has 2 values/],
    ['complex', Buffer.concat([int(1, 8), bytes(2, shape([1]))]), /complex64 is not supported/],
    ['unknown', Buffer.concat([int(1, DT.float), bytes(2, int(3, true))]), /shape that is not known/],
  ];
  const nodes = [placeholder('x'), ...claims.map(([name, tensor]) => constant(name, tensor))];
  const file = graph([...nodes, node('AddN', 'y', ['x', ...claims.map(([name]) => name)])]);
  const patterns = claims.map(([name, , pattern]) => new RegExp(`node "${name}"\\): .*${pattern.source}`));
  await refuses(frozenIn(t)({ 'frozen_graph.pb': file }), /6 nodes cannot be converted/, ...patterns);
});

test('frozen: a loop of TensorFlow 1 is kept, any other cycle is refused', async (t) => {
  const loop = [
    placeholder('x'),
    node('Enter', 'enter', ['x'], { ...FLOAT, frame_name: attr.text('loop') }),
    node('Merge', 'merge', ['enter', 'next'], FLOAT),
    node('Switch', 'switch', ['merge', 'condition'], FLOAT),
    node('LoopCond', 'condition', ['less']),
    node('Less', 'less', ['merge', 'merge'], FLOAT),
    node('Tanh', 'step', ['switch:1'], FLOAT),
    node('NextIteration', 'next', ['step'], FLOAT),
    node('Exit', 'exit', ['switch'], FLOAT),
  ];
  const tf = await frozenIn(t)({ 'frozen_graph.pb': graph(loop) });
  assert.equal(tf.nodes.size, 8);
  const order = [...tf.nodes.keys()];
  assert.ok(order.indexOf('merge') < order.indexOf('step') && order.indexOf('step') < order.indexOf('next'));
  const cycle = [
    placeholder('x'),
    node('Add', 'a', ['x', 'b'], FLOAT),
    node('Relu', 'b', ['a'], FLOAT),
    node('Relu', 'y', ['b']),
  ];
  await refuses(frozenIn(t)({ 'frozen_graph.pb': graph(cycle) }), /a cycle that is not a loop: .*"[ab]"/);
});

test('frozen: files that are no graph are refused with what was expected', async (t) => {
  const read = frozenIn(t);
  await refuses(read({ 'readme.md': 'hello' }), /frozen_inference_graph\.pb; graphs found: none/);
  await refuses(read({ 'a.pb': 'x', 'b.pb': 'y' }), /graphs found: a\.pb, b\.pb/);
  await refuses(read({ 'frozen_graph.pb': '' }), /has no nodes/);
  await refuses(read({ 'frozen_graph.pb': Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]) }), /at byte 1/);
  const good = graph(DENSE);
  await refuses(
    read({ 'frozen_graph.pb': good, 'graph_meta.json': '{' }),
    /graph_meta\.json: it is not valid JSON/,
  );
  await refuses(
    read({ 'frozen_graph.pb': good, 'graph_meta.json': '{"input_names":[1]}' }),
    /input_names must be a list/,
  );
  await refuses(
    read({ 'frozen_graph.pb': good, 'graph_meta.json': META(['x'], []) }),
    /output_names is empty/,
  );
  await refuses(
    read({ 'frozen_graph.pb': good, 'graph_meta.json': META(['x'], ['gone']) }),
    /"gone", which is not in the file/,
  );
  await refuses(
    read({ 'frozen_graph.pb': graph([node('Relu', 'a', ['b']), node('Relu', 'a')]) }),
    /two nodes are named "a"/,
  );
  await refuses(
    read({ 'frozen_graph.pb': graph([placeholder('x'), node('Relu', 'y', ['x:y:z:1'])]) }),
    /"x:y:z:1" does not name a tensor/,
  );
  const unfrozen = [
    ...DENSE.slice(0, 1),
    node('VariableV2', 'w', [], { dtype: attr.type(DT.float) }),
    DENSE[2] as Buffer,
  ];
  await refuses(read({ 'frozen_graph.pb': graph(unfrozen) }), /the graph is not frozen.*w \(VariableV2\)/s);
});

test('frozen: a file cut anywhere is read or refused, never anything else', async (t) => {
  const file = graph(
    [...DENSE, node('PartitionedCall', 'y', ['dense'], { f: attr.func('f') })],
    [DOUBLE('f')],
  );
  for (let cut = 0; cut < file.length; cut += 3) {
    const running = frozenIn(t)({ 'frozen_graph.pb': file.subarray(0, cut) });
    await running.catch((error: unknown) => {
      assert.equal(error instanceof ServingError && error.code, 'bad_model', String(error));
    });
  }
});

/** y = x + x. */
function DOUBLE(name: string): FunctionSpec {
  return {
    name,
    inputs: { x: DT.float },
    outputs: { y: DT.float },
    nodes: [node('AddV2', 'sum', ['x', 'x'], FLOAT)],
    returns: { y: 'sum:z:0' },
  };
}

function call(op: string, name: string, inputs: readonly string[], callee: string): Buffer {
  return node(op, name, inputs, { f: attr.func(callee), Tout: attr.types([DT.float]) });
}

test('functions: calls of all three kinds are inlined, nested too, and their names stay unique', async (t) => {
  const outer: FunctionSpec = {
    ...DOUBLE('outer'),
    nodes: [call('StatefulPartitionedCall', 'inner', ['x'], 'f'), node('f', 'direct', ['inner:output:0'])],
    returns: { y: 'direct:y:0' },
  };
  const nodes = [
    placeholder('x'),
    call('PartitionedCall', 'call', ['x'], 'outer'),
    node('Relu', 'y', ['call'], FLOAT),
  ];
  const tf = await frozenIn(t)(
    { 'frozen_graph.pb': graph([...nodes, node('Relu', 'call/direct/sum', ['y'])], [outer, DOUBLE('f')]) },
    { outputNames: ['y', 'call/direct/sum'] },
  );
  const sums = [...tf.nodes.values()].filter((one) => one.op === 'AddV2');
  assert.equal(sums.length, 2);
  assert.deepEqual(sums[0]?.inputs, ['x:0', 'x:0']);
  assert.deepEqual(sums[1]?.inputs, [`${sums[0]?.name}:0`, `${sums[0]?.name}:0`]);
  assert.deepEqual(tf.nodes.get('y')?.inputs, [`${sums[1]?.name}:0`]);
  assert.equal(tf.functions.size, 0);
});

test('functions: outputs of operations with several are found by name, lists by their index', async (t) => {
  const body: FunctionSpec = {
    name: 'f',
    inputs: { x: DT.float },
    outputs: { a: DT.float, b: DT.int32, c: DT.float, d: DT.float },
    nodes: [
      constant('k', intTensor([], [2])),
      node('TopKV2', 'top', ['x', 'k:output:0'], FLOAT),
      node('Split', 'parts', ['k:output:0', 'x'], { ...FLOAT, num_split: attr.int(2) }),
      node('FusedBatchNormV3', 'norm', ['x', 'x', 'x', 'x', 'x'], FLOAT),
    ],
    returns: { a: 'top:values:0', b: 'top:indices:0', c: 'parts:output:1', d: 'norm:batch_variance:0' },
  };
  const tf = await frozenIn(t)(
    {
      'frozen_graph.pb': graph(
        [placeholder('x'), node('PartitionedCall', 'call', ['x'], { f: attr.func('f') })],
        [body],
      ),
    },
    { outputNames: ['call', 'call:1', 'call:2', 'call:3'].slice(0, 1) },
  );
  assert.deepEqual(tf.outputs, [{ name: 'call', tensor: 'call/top:0' }]);
  const all = { input_names: ['x'], output_names: ['call:0', 'call:1', 'call:2', 'call:3'] };
  const four = await frozenIn(t)({
    'graph_meta.json': JSON.stringify(all),
    'frozen_graph.pb': graph(
      [placeholder('x'), node('PartitionedCall', 'call', ['x'], { f: attr.func('f') })],
      [body],
    ),
  });
  assert.deepEqual(
    four.outputs.map(({ tensor }) => tensor),
    ['call/top:0', 'call/top:1', 'call/parts:1', 'call/norm:2'],
  );
  const wrong = { ...body, returns: { ...body.returns, a: 'top:scores:0' } };
  const bad = graph(
    [placeholder('x'), node('PartitionedCall', 'call', ['x'], { f: attr.func('f') })],
    [wrong],
  );
  await refuses(frozenIn(t)({ 'frozen_graph.pb': bad }), /node "top" \(TopKV2\) has no output "scores"/);
});

test("functions: attributes that stand for the caller get the caller's value", async (t) => {
  const body: FunctionSpec = {
    ...DOUBLE('f'),
    nodes: [node('Cast', 'sum', ['x'], { DstT: attr.placeholder('to') })],
    returns: { y: 'sum:y:0' },
  };
  const caller = node('PartitionedCall', 'y', ['x'], { f: attr.func('f', { to: attr.type(DT.int32) }) });
  const tf = await frozenIn(t)({ 'frozen_graph.pb': graph([placeholder('x'), caller], [body]) });
  const cast = tf.nodes.get('y/sum');
  assert.equal(cast && typeAttribute(cast, 'DstT'), 'int32');
});

test('functions: what a function holds is in memory once, however often it is called', async (t) => {
  const body: FunctionSpec = {
    ...DOUBLE('f'),
    nodes: [
      constant('weights', floatTensor([2], [1, 2])),
      node('AddV2', 'sum', ['x', 'weights:output:0'], FLOAT),
    ],
  };
  const nodes = [
    placeholder('x'),
    call('PartitionedCall', 'a', ['x'], 'f'),
    call('PartitionedCall', 'b', ['a'], 'f'),
  ];
  const tf = await frozenIn(t)({ 'frozen_graph.pb': graph(nodes, [body]) });
  const [a, b] = ['a/weights', 'b/weights'].map((name) => tf.nodes.get(name));
  assert.ok(a !== undefined && b !== undefined && a !== b);
  assert.equal(tensorAttribute(a, 'value'), tensorAttribute(b, 'value'));
});

test('functions: recursion, missing functions and wrong argument counts are refused', async (t) => {
  const run = (functions: readonly FunctionSpec[], inputs = ['x']): Promise<TfGraph> =>
    frozenIn(t)({
      'frozen_graph.pb': graph([placeholder('x'), call('PartitionedCall', 'y', inputs, 'f')], functions),
    });
  const calling = (name: string, callee: string): FunctionSpec => ({
    ...DOUBLE(name),
    nodes: [call('PartitionedCall', 'again', ['x'], callee)],
    returns: { y: 'again:output:0' },
  });
  await refuses(run([calling('f', 'f')]), /function "f" calls itself/);
  await refuses(run([calling('f', 'g'), calling('g', 'f')]), /function "f" calls itself/);
  await refuses(run([calling('f', 'g')]), /function "g" is called and is not in the file/);
  await refuses(run([DOUBLE('f')], ['x', 'x']), /gives function "f" 2 inputs, it takes 1/);
  await refuses(run([{ ...DOUBLE('f'), returns: {} }]), /returns nothing for its output "y"/);
  await refuses(run([{ ...DOUBLE('f'), returns: { y: 'gone:z:0' } }]), /"gone:z:0" does not name a tensor/);
  const chain = Array.from({ length: 150 }, (_, i) => calling(i === 0 ? 'f' : `f${i}`, `f${i + 1}`));
  await refuses(run([...chain, DOUBLE('f150')]), /more than 100 deep/);
  const body = (name: string, callee: string): FunctionSpec => ({
    ...DOUBLE(name),
    nodes: [
      call('PartitionedCall', 'a', ['x'], callee),
      call('PartitionedCall', 'b', ['a:output:0'], callee),
    ],
    returns: { y: 'b:output:0' },
  });
  const doubling = Array.from({ length: 40 }, (_, i) => body(i === 0 ? 'f' : `f${i}`, `f${i + 1}`));
  await refuses(run([...doubling, DOUBLE('f40')]), /inlining the functions gives more than 200000 nodes/);
});

test('functions: While keeps its bodies, calls within them are inlined, a body that calls itself is refused', async (t) => {
  const condition: FunctionSpec = {
    name: 'condition',
    inputs: { i: DT.float },
    outputs: { go: DT.bool },
    nodes: [node('Less', 'less', ['i', 'i'], FLOAT)],
    returns: { go: 'less:z:0' },
  };
  const body: FunctionSpec = {
    name: 'body',
    inputs: { i: DT.float },
    outputs: { next: DT.float },
    nodes: [call('PartitionedCall', 'twice', ['i'], 'f')],
    returns: { next: 'twice:output:0' },
  };
  const loop = (name: string): Buffer =>
    node('StatelessWhile', 'loop', ['x'], {
      T: attr.types([DT.float]),
      cond: attr.func('condition'),
      body: attr.func(name),
    });
  const tf = await frozenIn(t)({
    'frozen_graph.pb': graph([placeholder('x'), loop('body')], [condition, body, DOUBLE('f')]),
  });
  assert.deepEqual([...tf.functions.keys()].toSorted(), ['body', 'condition']);
  assert.deepEqual([...(tf.functions.get('body')?.nodes.keys() ?? [])], ['twice/sum']);
  assert.deepEqual(tf.functions.get('body')?.outputs, [{ name: 'next', tensor: 'twice/sum:0' }]);
  assert.deepEqual(tf.functions.get('body')?.inputs, [{ name: 'i', dtype: 'float32' }]);
  const itself = { ...body, nodes: [loop('body')], returns: { next: 'loop:output:0' } };
  const inner = {
    ...itself,
    nodes: [node('StatelessWhile', 'loop', ['i'], { cond: attr.func('condition'), body: attr.func('body') })],
  };
  await refuses(
    frozenIn(t)({ 'frozen_graph.pb': graph([placeholder('x'), loop('body')], [condition, inner]) }),
    /function "body" calls itself/,
  );
});

const HANDLE = {
  dtype: attr.type(DT.float),
  shape: attr.shape([2, 1]),
  shared_name: attr.text('dense/kernel'),
};
const VALUE = { 'layer/kernel/.ATTRIBUTES/VARIABLE_VALUE': { shape: [2, 1], data: [3, 4] } };
const SIGNATURE = { serving_default: { inputs: { x: 'serve_x:0' }, outputs: { y: 'call:0' } } };

/** A function that reads a variable, as Keras writes it. */
const SERVE: FunctionSpec = {
  name: 'serve',
  inputs: { x: DT.float, handle: DT.resource },
  outputs: { y: DT.float },
  nodes: [
    node('ReadVariableOp', 'read', ['handle'], { dtype: attr.type(DT.float) }),
    node('MatMul', 'product', ['x', 'read:value:0'], FLOAT),
  ],
  returns: { y: 'product:product:0' },
};

const RESTORE: FunctionSpec = {
  name: 'traced_restore',
  inputs: { file: DT.string, handle: DT.resource },
  outputs: { done: DT.string },
  nodes: [
    constant('names', textTensor(['layer/kernel/.ATTRIBUTES/VARIABLE_VALUE']), DT.string),
    constant('parts', textTensor(['']), DT.string),
    node('RestoreV2', 'restored', ['file', 'names:output:0', 'parts:output:0'], {
      dtypes: attr.types([DT.float]),
    }),
    node('Identity', 'value', ['restored:tensors:0'], FLOAT),
    node('AssignVariableOp', 'assign', ['handle', 'value:output:0']),
    node('Identity', 'done', ['file', '^assign'], { T: attr.type(DT.string) }),
  ],
  returns: { done: 'done:output:0' },
  effects: ['assign'],
};

function keras(functions: readonly FunctionSpec[] = [SERVE, RESTORE], restore = 'restore'): Uint8Array {
  const nodes = [
    placeholder('serve_x'),
    node('VarHandleOp', 'kernel', [], HANDLE),
    node('StatefulPartitionedCall', 'call', ['serve_x', 'kernel'], { f: attr.func('serve') }),
    placeholder('file', [], DT.string),
    node('StatefulPartitionedCall', 'restore', ['file', 'kernel'], { f: attr.func('traced_restore') }),
  ];
  return savedModel({ graph: graph(nodes, functions), signatures: SIGNATURE, restore });
}

function kernelOf(tf: TfGraph): unknown {
  const found = tf.nodes.get('kernel');
  return found && { op: found.op, ...tensorAttribute(found, 'value') };
}

test('SavedModel of TensorFlow 2: public names are the keys, variables come through the traced restore', async (t) => {
  const files = { 'saved_model.pb': keras(), ...bundleFiles('variables/variables', VALUE) };
  const model = await readSavedModel(await folderOf(t, files));
  assert.deepEqual(model.graph.inputs, [
    { name: 'x', tensor: 'serve_x:0', dtype: 'float32', shape: ['N', 2] },
  ]);
  assert.deepEqual(model.graph.outputs, [{ name: 'y', tensor: 'call/product:0' }]);
  assert.deepEqual(kernelOf(model.graph), {
    op: 'Const',
    dtype: 'float32',
    shape: [2, 1],
    data: new Float32Array([3, 4]),
  });
  const read = model.graph.nodes.get('call/read');
  assert.equal(read?.op, 'Identity');
  assert.deepEqual(
    [...model.graph.nodes.values()].map((one) => one.op),
    ['Const', 'Identity', 'MatMul'],
  );
  assert.deepEqual(model.files, [
    'saved_model.pb',
    'variables/variables.data-00000-of-00001',
    'variables/variables.index',
  ]);
});

test('SavedModel: changed bytes are read or refused, never anything else', async (t) => {
  const files = { 'saved_model.pb': keras(), ...bundleFiles('variables/variables', VALUE) };
  const directory = await folderOf(t, files);
  const change = fc.tuple(
    fc.constantFrom(...Object.entries(files)),
    fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }),
  );
  await fc.assert(
    fc.asyncProperty(change, async ([[name, content], changes]) => {
      const changed = Buffer.from(content);
      for (const [at, byte] of changes) changed[at % changed.length] = byte;
      await writeFile(join(directory, name), changed);
      await readSavedModel(directory).catch((error: unknown) => {
        assert.equal(error instanceof ServingError && error.code, 'bad_model', String(error));
      });
      await writeFile(join(directory, name), content);
    }),
    { numRuns: 150 },
  );
});

test('SavedModel of TensorFlow 2: without a restore function the object graph says where a variable is', async (t) => {
  const attribute = (name: string): Buffer =>
    bytes(
      1,
      bytes(
        2,
        bytes(1, 'VARIABLE_VALUE'),
        bytes(2, name),
        bytes(3, 'layer/kernel/.ATTRIBUTES/VARIABLE_VALUE'),
      ),
    );
  const objects = (...list: readonly Buffer[]): Record<string, Buffer> =>
    bundleFiles('variables/variables', {
      ...VALUE,
      _CHECKPOINTABLE_OBJECT_GRAPH: { shape: [], data: Buffer.concat(list) },
    });
  const model = keras([SERVE], '');
  const tf = await savedIn(t)({ 'saved_model.pb': model, ...objects(attribute('dense/kernel')) });
  assert.deepEqual(kernelOf(tf), {
    op: 'Const',
    dtype: 'float32',
    shape: [2, 1],
    data: new Float32Array([3, 4]),
  });
  const twice = { 'saved_model.pb': model, ...objects(attribute('dense/kernel'), attribute('dense/kernel')) };
  await refuses(
    savedIn(t)(twice),
    /VarHandleOp \(node "kernel"\): the variable has no value: it is not in variables\/variables\.index/,
  );
});

test('SavedModel: a variable whose file is missing, or whose value is of another shape, is refused', async (t) => {
  await refuses(
    savedIn(t)({ 'saved_model.pb': keras() }),
    /variables\.index is missing; copy the whole directory.*kernel \(VarHandleOp\)/s,
  );
  const old = { 'saved_model.pb': keras(), 'variables/variables-00000-of-00001': 'x' };
  await refuses(savedIn(t)(old), /first format of checkpoints/);
  const other = { 'layer/kernel/.ATTRIBUTES/VARIABLE_VALUE': { shape: [1, 2], data: [3, 4] } };
  const files = { 'saved_model.pb': keras(), ...bundleFiles('variables/variables', other) };
  await refuses(savedIn(t)(files), /variable is of shape \[2,1\] and its value in the file of \[1,2\]/);
});

test("SavedModel: a variable that a loop body takes is a tensor of the variable's type there", async (t) => {
  const condition: FunctionSpec = {
    name: 'condition',
    inputs: { x: DT.float, handle: DT.resource },
    outputs: { go: DT.bool },
    nodes: [node('Less', 'less', ['x', 'x'], FLOAT)],
    returns: { go: 'less:z:0' },
  };
  const body: FunctionSpec = {
    ...SERVE,
    name: 'body',
    outputs: { y: DT.float, same: DT.resource },
    returns: { y: 'product:product:0', same: 'handle' },
  };
  const serve: FunctionSpec = {
    ...SERVE,
    nodes: [
      node('While', 'loop', ['x', 'handle'], {
        T: attr.types([DT.float, DT.resource]),
        cond: attr.func('condition'),
        body: attr.func('body'),
      }),
    ],
    returns: { y: 'loop:output:0' },
  };
  const files = {
    'saved_model.pb': keras([serve, RESTORE, condition, body]),
    ...bundleFiles('variables/variables', VALUE),
  };
  const tf = await savedIn(t)(files);
  const loop = tf.nodes.get('call/loop');
  assert.deepEqual(loop && listAttribute(loop, 'T').types, ['float32', 'float32']);
  assert.deepEqual(loop?.inputs, ['serve_x:0', 'kernel:0']);
  const inside = tf.functions.get('body');
  assert.deepEqual(
    inside?.inputs.map(({ dtype }) => dtype),
    ['float32', 'float32'],
  );
  assert.deepEqual(inside?.outputs[1], { name: 'same', tensor: 'handle:0' });
  assert.equal(inside?.nodes.get('read')?.op, 'Identity');
  const assigning = { ...body, nodes: [...body.nodes, node('AssignAddVariableOp', 'grow', ['handle', 'x'])] };
  const bad = { ...files, 'saved_model.pb': keras([serve, RESTORE, condition, assigning]) };
  await refuses(savedIn(t)(bad), /AssignAddVariableOp \(node "grow"\): changes a variable/);
});

test('SavedModel: a signature that changes a variable is refused, naming the operation', async (t) => {
  const counting: FunctionSpec = {
    ...SERVE,
    nodes: [...SERVE.nodes, node('AssignAddVariableOp', 'count', ['handle', 'x'])],
    effects: ['count'],
  };
  const files = {
    'saved_model.pb': keras([counting, RESTORE]),
    ...bundleFiles('variables/variables', VALUE),
  };
  await refuses(
    savedIn(t)(files),
    /AssignAddVariableOp \(node "call\/count"\): changes a variable at every call/,
  );
});

test('SavedModel of TensorFlow 1: variables come through Assign from RestoreV2, in parts too, or start as a constant', async (t) => {
  const variable = (name: string, dims: readonly number[]): Buffer =>
    node('VariableV2', name, [], { dtype: attr.type(DT.float), shape: attr.shape(dims) });
  const nodes = [
    placeholder('x'),
    variable('w/part_0', [1, 1]),
    variable('w/part_1', [1, 1]),
    variable('b', [1]),
    variable('local', []),
    constant('zero', floatTensor([], [9])),
    node('Assign', 'local/Assign', ['local', 'zero'], FLOAT),
    constant('axis', intTensor([], [0])),
    node('ConcatV2', 'w', ['w/part_0', 'w/part_1', 'axis'], FLOAT),
    node('MatMul', 'product', ['x', 'w'], FLOAT),
    node('Identity', 'b/read', ['b'], FLOAT),
    node('AddN', 'y', ['product', 'b/read', 'local'], FLOAT),
    constant('file', textTensor(['model']), DT.string),
    constant('names', textTensor(['weights', 'weights', 'bias']), DT.string),
    constant('parts', textTensor(['2 1 0,1:0,1', '2 1 1,1:0,1', '']), DT.string),
    node('RestoreV2', 'restore', ['file', 'names', 'parts'], {
      dtypes: attr.types([DT.float, DT.float, DT.float]),
    }),
    node('Assign', 'a0', ['w/part_0', 'restore'], FLOAT),
    node('Assign', 'a1', ['w/part_1', 'restore:1'], FLOAT),
    node('Assign', 'a2', ['b', 'restore:2'], FLOAT),
    node('NoOp', 'restore_all', ['^a0', '^a1', '^a2']),
  ];
  const model = savedModel({
    graph: graph(nodes),
    signatures: { serving_default: { inputs: { x: 'x:0' }, outputs: { y: 'y:0' } } },
    restore: 'restore_all',
  });
  const values = { weights: { shape: [2, 1], data: [1, 2] }, bias: { shape: [1], data: [3] } };
  const directory = await folderOf(t, {
    'saved_model.pb': model,
    ...bundleFiles('variables/variables', values),
  });
  const { graph: tf, notes } = await readSavedModel(directory);
  const valueOf = (name: string): unknown => {
    const found = tf.nodes.get(name);
    return found && tensorAttribute(found, 'value').data;
  };
  assert.deepEqual(valueOf('w/part_0'), new Float32Array([1]));
  assert.deepEqual(valueOf('w/part_1'), new Float32Array([2]));
  assert.deepEqual(valueOf('b'), new Float32Array([3]));
  assert.deepEqual(valueOf('local'), new Float32Array([9]));
  assert.match(notes.join('\n'), /initial value: local/);
});

test('SavedModel: tags and signatures are chosen, and the error says what there is', async (t) => {
  const one = { serve_a: { inputs: { x: 'x:0' }, outputs: { a: 'dense:0' } } };
  const two = { ...one, serve_b: { inputs: { x: 'x:0' }, outputs: { b: 'dense:0' } } };
  const body = graph(DENSE);
  const read = savedIn(t);
  const single = await read({ 'saved_model.pb': savedModel({ graph: body, signatures: one }) });
  assert.deepEqual(names(single.outputs), ['a']);
  const several = { 'saved_model.pb': savedModel({ graph: body, signatures: two }) };
  await refuses(read(several), /no signature "serving_default"; choose one of serve_a, serve_b/);
  assert.deepEqual(names((await read(several, { signature: 'serve_b' })).outputs), ['b']);
  await refuses(read(several, { signature: 'c' }), /no signature "c"; it has serve_a, serve_b/);
  const none = { 'saved_model.pb': savedModel({ graph: body }) };
  await refuses(read(none), /no signature that gives anything/);
  const cut = await read(none, { inputNames: ['x'], outputNames: ['dense'] });
  assert.deepEqual([names(cut.inputs), names(cut.outputs)], [['x'], ['dense']]);
  const train = { graph: body, tags: ['train'], signatures: one };
  const tagged = {
    'saved_model.pb': savedModel(train, { graph: body, tags: ['serve', 'gpu'], signatures: two }),
  };
  assert.deepEqual(names((await read(tagged, { tags: ['train'] })).outputs), ['a']);
  await refuses(
    read(tagged, { tags: ['tpu'] }),
    /no graph with the tags \[tpu\]; it has \[train\] \[serve, gpu\]/,
  );
  assert.deepEqual(names((await read(tagged, { signature: 'serve_b' })).outputs), ['b']);
  await refuses(read({ 'saved_model.pb': '' }), /holds no graph/);
  await refuses(read({ 'other.pb': '' }), /neither saved_model\.pb nor saved_model\.pbtxt/);
});

test('checkpoint: files of variables that are missing, cut off or damaged are reported once, not by variable', async (t) => {
  const variable = (name: string) => node('VariableV2', name, [], { dtype: attr.type(DT.float) });
  const many = ['w', 'a', 'b', 'c', 'd', 'e', 'f'];
  const nodes = [
    placeholder('x'),
    ...many.map(variable),
    ...many.map((name, i) => node('MatMul', `m${i}`, [i === 0 ? 'x' : `m${i - 1}`, name], FLOAT)),
  ];
  const meta = metaGraph({ graph: graph(nodes) });
  const values = Object.fromEntries(many.map((name) => [name, { shape: [2, 2], data: [1, 2, 3, 4] }]));
  const files = bundleFiles('m', values);
  const data = files['m.data-00000-of-00001'] as Buffer;
  const options = { outputNames: ['m6'] };
  const cases: readonly (readonly [Record<string, Buffer>, RegExp])[] = [
    [{ 'm.index': files['m.index'] as Buffer }, /^m\.meta: m\.data-00000-of-00001 is missing \(/],
    [
      { ...files, 'm.data-00000-of-00001': Buffer.alloc(2) },
      /^m\.meta: m\.data-00000-of-00001 is damaged or cut off \(/,
    ],
    [
      { ...files, 'm.data-00000-of-00001': Buffer.alloc(data.length) },
      /^m\.meta: m\.data-00000-of-00001 is damaged: bytes do not have their checksum \(/,
    ],
  ];
  for (const [broken, pattern] of cases)
    await refuses(
      checkpointIn(t)({ 'm.meta': meta, ...broken }, options),
      pattern,
      /^[^\n]*\(needed for \w, \w, \w, \w, \w and 2 more\)\. Copy all files of the model again$/,
    );
});

test('SavedModel: a missing data file is one sentence, and who reads the variable has no problem of its own', async (t) => {
  const { 'variables/variables.index': index } = bundleFiles('variables/variables', VALUE);
  await refuses(
    savedIn(t)({ 'saved_model.pb': keras(), 'variables/variables.index': index as Buffer }),
    /^saved_model\.pb: variables\/variables\.data-00000-of-00001 is missing \(needed for [^\n]*\)\. Copy all files of the model again$/,
  );
  const other = { 'layer/kernel/.ATTRIBUTES/VARIABLE_VALUE': { shape: [1, 2], data: [3, 4] } };
  await refuses(
    savedIn(t)({ 'saved_model.pb': keras(), ...bundleFiles('variables/variables', other) }),
    /: one node cannot be converted:\n[^\n]*variable is of shape \[2,1\][^\n]*$/,
  );
});

test('frozen: a size of 0 is no shape of an input, and a byte order mark before the names is read over', async (t) => {
  const files = {
    'frozen_graph.pb': graph(DENSE),
    'graph_meta.json': `\uFEFF${META(['x:0'], ['dense:0'])}`,
  };
  assert.deepEqual(names((await frozenIn(t)(files)).outputs), ['dense']);
  for (const sizes of [
    [0, 2],
    [1, 0],
  ])
    await refuses(
      frozenIn(t)(files, { inputShapes: { x: sizes } }),
      /input "x": the shape \[[01],[02]\] of --input has a size that is none/,
    );
  assert.deepEqual((await frozenIn(t)(files, { inputShapes: { x: [1, 2] } })).inputs[0]?.shape, [1, 2]);
});

test('SavedModel: two names of one input tensor are one input, and inputs are sorted by name', async (t) => {
  const signatures = {
    serving_default: { inputs: { z: 'x:0', b: 'w2:0', a: 'x:0' }, outputs: { y: 'sum:0' } },
  };
  const nodes = [placeholder('x'), placeholder('w2'), node('Add', 'sum', ['x', 'w2'], FLOAT)];
  const directory = await folderOf(t, { 'saved_model.pb': savedModel({ graph: graph(nodes), signatures }) });
  const { graph: tf, notes } = await readSavedModel(directory);
  assert.deepEqual(names(tf.inputs), ['a', 'b']);
  assert.deepEqual(notes, ['input z is the same tensor as a and was left out']);
});

test('checkpoint: the prefix comes from the file "checkpoint", its path cut down to its name', async (t) => {
  const nodes = [
    placeholder('x'),
    node('VariableV2', 'w', [], { dtype: attr.type(DT.float) }),
    DENSE[2] as Buffer,
  ];
  const meta = metaGraph({ graph: graph(nodes) });
  const values = { w: { shape: [2, 1], data: [5, 6] } };
  const files = {
    'model.ckpt-9.meta': meta,
    ...bundleFiles('model.ckpt-9', values),
    ...bundleFiles('model.ckpt-1', { w: { shape: [2, 1], data: [0, 0] } }),
  };
  const state =
    'model_checkpoint_path: "/home/someone/../../etc/model.ckpt-9"\nall_model_checkpoint_paths: "x"';
  const tf = await checkpointIn(t)({ ...files, checkpoint: state });
  const w = tf.nodes.get('w');
  assert.deepEqual(w && tensorAttribute(w, 'value').data, new Float32Array([5, 6]));
  assert.deepEqual([names(tf.inputs), names(tf.outputs), tf.file], [['x'], ['dense'], 'model.ckpt-9.meta']);
  await refuses(checkpointIn(t)(files), /several checkpoints.*model\.ckpt-1, model\.ckpt-9/s);
  const lone = { 'm.meta': meta, ...bundleFiles('m', values) };
  assert.deepEqual(names((await checkpointIn(t)(lone)).outputs), ['dense']);
  await refuses(checkpointIn(t)(bundleFiles('m', values)), /m\.meta is missing.*weights only/s);
  await refuses(checkpointIn(t)({ 'm.meta': meta }), /here is no \.index/);
  const signed = metaGraph({
    graph: graph(nodes),
    signatures: { s: { inputs: { a: 'x:0' }, outputs: { b: 'dense:0' } } },
  });
  const named = await checkpointIn(t)({ 'm.meta': signed, ...bundleFiles('m', values) });
  assert.deepEqual([names(named.inputs), names(named.outputs)], [['a'], ['b']]);
});

test('frozen: a shape has 254 dimensions at most, each a whole number or unknown', async (t) => {
  const read = (dims: readonly number[]) =>
    frozenIn(t)({ 'frozen_graph.pb': graph([placeholder('x', dims), node('Neg', 'y', ['x'], FLOAT)]) });
  for (const dims of [new Array<number>(254).fill(1), [-1, 0, 2 ** 40]]) {
    const [input] = (await read(dims)).inputs;
    assert.deepEqual(
      input?.shape,
      dims.map((dim) => (dim === -1 ? 'N' : dim)),
    );
  }
  await refuses(read(new Array<number>(255).fill(1)), /a shape has 255 dimensions, at most 254 are possible/);
  await refuses(read([-2]), /a dimension must be a whole number >= -1, got -2/);
  await refuses(read([2 ** 53]), /a dimension must be a whole number >= -1/);
});
