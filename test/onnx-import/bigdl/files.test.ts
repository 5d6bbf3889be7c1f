/** What is in a BigDL file and beside it: storages, weights, graphs, versions, names, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ConvertOptions } from '../../../onnx-import/source/convert-options.ts';
import { type Case, convertBytes, readCases, runGraph, shapesOf, tensorOf } from '../support/bigdl/cases.ts';
import { moduleBytes, type TestModule, textsAttribute } from '../support/bigdl/writer.ts';

const TWO: ConvertOptions = { inputShapes: { input: [1, 2] } };
const LINEAR = { type: 'nn.Linear', attributes: { inputSize: 2, outputSize: 2, withBias: false } };

/** The answers to 1, 10 and to 0, 1. */
async function answers(module: TestModule, options = TWO): Promise<number[]> {
  const made = await convertBytes(moduleBytes(module), options);
  const [[output]] = (await runGraph(made, [
    [tensorOf({ shape: [2, 2], data: [1, 10, 0, 1] })],
  ])) as unknown as [[{ data: Float32Array }]];
  return [...output.data];
}

function refused(model: Buffer, message: RegExp, options = TWO): Promise<void> {
  return assert.rejects(convertBytes(model, options), { code: 'bad_model', message });
}

test('a tensor is a view of its storage: offset from 1, strides in any order', async () => {
  const storages = [{ size: [6], stride: [1], storage: 5, data: [9, 9, 1, 2, 3, 4] }];
  const straight = { size: [2, 2], stride: [2, 1], offset: 3, storage: 5 };
  assert.deepEqual(await answers({ ...LINEAR, storages, parameters: [straight] }), [21, 43, 2, 4]);
  const turned = { ...straight, stride: [1, 2] };
  assert.deepEqual(await answers({ ...LINEAR, storages, parameters: [turned] }), [31, 42, 3, 4]);
  const repeated = { ...straight, stride: [0, 1] };
  assert.deepEqual(await answers({ ...LINEAR, storages, parameters: [repeated] }), [21, 21, 2, 2]);
});

test('old files hold a weight and a bias, with their storages in them', async () => {
  const attributes = { inputSize: 2, outputSize: 2, withBias: true };
  const weight = { size: [2, 2], stride: [2, 1], storage: 1, data: [1, 2, 3, 4] };
  const bias = { size: [2], stride: [1], storage: 2, data: [100, 200] };
  assert.deepEqual(await answers({ type: 'nn.Linear', attributes, weight, bias }), [121, 243, 102, 204]);
});

test('modules of BigDL 2 and of Analytics Zoo are read by their other packages', async () => {
  const relu = moduleBytes({ type: 'dllib.nn.MulConstant', attributes: { constant: -1.5, inplace: false } });
  const dense = moduleBytes({ type: 'dllib.keras.layers.Activation', children: [relu] });
  const zoo = Buffer.from(
    dense.toString('latin1').replace('bigdl.dllib.keras', 'zoo.pipelin.keras'),
    'latin1',
  );
  assert.equal(zoo.length, dense.length);
  assert.deepEqual(await answers({ type: 'dllib.nn.Sequential', children: [dense] }), [-1.5, -15, -0, -1.5]);
});

const OUTSIDE = [
  { size: [2, 2], stride: [2, 1], offset: 4, storage: 5 },
  { size: [2, 2], stride: [2, 1], offset: 0, storage: 5 },
  { size: [2, 2], stride: [2, -1], offset: 3, storage: 5 },
  { size: [2, 2], stride: [2], offset: 1, storage: 5 },
  { size: [65_536, 65_536], stride: [0, 0], offset: 1, storage: 5 },
];
for (const tensor of OUTSIDE)
  test(`a tensor of ${String(tensor.size)}, ${String(tensor.stride)} at ${tensor.offset} in 6 numbers is refused`, async () => {
    const storages = [{ size: [6], stride: [1], storage: 5, data: [1, 2, 3, 4, 5, 6] }];
    await refused(moduleBytes({ ...LINEAR, storages, parameters: [tensor] }), /nn\.Linear/);
  });

test('weights that are in another file are asked for', async () => {
  const parameters = [{ size: [2, 2], stride: [2, 1], storage: 5 }];
  await refused(moduleBytes({ ...LINEAR, parameters }), /the file of weights belongs beside the model/);
});

test('an attribute that no rule knows is refused by name', async () => {
  await refused(moduleBytes({ type: 'nn.Tanh', attributes: { temperature: 2 } }), /not known: temperature/);
});

test('every module without a rule is named in one error', async () => {
  const children = ['nn.Frobnicate', 'nn.Tanh', 'nn.tf.Shape'].map((type) => moduleBytes({ type }));
  await refused(
    moduleBytes({ type: 'nn.Sequential', children }),
    /nn\.Frobnicate[\s\S]*nn\.tf\.Shape|nn\.tf\.Shape[\s\S]*nn\.Frobnicate/,
  );
});

test('shapes in order are those of the inputs, one for each', async () => {
  assert.deepEqual(
    await answers(
      { type: 'nn.MulConstant', attributes: { constant: 2, inplace: false } },
      { shapesInOrder: [[1, 2]] },
    ),
    [2, 20, 0, 2],
  );
  const model = graphOf(
    { right: [], left: [], difference: ['left', 'right'] },
    ['left', 'right'],
    ['difference'],
  );
  const made = await convertBytes(model, {
    inputShapes: { right: [1, 2] },
    shapesInOrder: [
      [1, 2],
      [1, 9],
    ],
  });
  assert.deepEqual(
    made.graph.inputs.map(({ shape }) => shape?.slice(1)),
    [[2], [2]],
  );
  await refused(model, /has 2 inputs \(left, right\), but 3 shapes are given/, {
    shapesInOrder: [
      [1, 2],
      [1, 2],
      [1, 2],
    ],
  });
  await refused(model, /the shape of input "right"; give it with/, { shapesInOrder: [[1, 2]] });
});

test('a file that says no shape asks for it, and names that it has not are refused', async () => {
  await refused(moduleBytes({ type: 'nn.Tanh' }), /give it with --input input:<shape>/, {});
  const other = { inputShapes: { input: [1, 2], data: [1, 2] } };
  await refused(moduleBytes({ type: 'nn.Tanh' }), /has no input "data"; its inputs are input/, other);
});

function graphOf(
  edges: Readonly<Record<string, readonly string[]>>,
  inputs: string[],
  outputs: string[],
): Buffer {
  const children = Object.entries(edges).map(([name, before]) =>
    moduleBytes({
      type: inputs.includes(name) ? 'nn.Input' : before.length > 1 ? 'nn.CSubTable' : 'nn.Tanh',
      name,
      before,
    }),
  );
  const attributes = { inputNames: textsAttribute(...inputs), outputNames: textsAttribute(...outputs) };
  return moduleBytes({ type: 'nn.StaticGraph', attributes, children });
}

test('inputs of a graph keep names that are given, in the order of the graph', async () => {
  const model = graphOf(
    { right: [], left: [], difference: ['left', 'right'] },
    ['left', 'right'],
    ['difference'],
  );
  const made = await convertBytes(model, { inputShapes: { left: [1, 2], right: [1, 2] } });
  assert.deepEqual(
    made.graph.inputs.map(({ name }) => name),
    ['left', 'right'],
  );
  const feed = [
    [5, 7],
    [1, 2],
  ].map((data) => tensorOf({ shape: [1, 2], data }));
  const [[output]] = (await runGraph(made, [feed])) as unknown as [[{ data: Float32Array }]];
  assert.deepEqual([...output.data], [4, 5]);
});

test("Analytics Zoo's GraphNet is the graph inside of it", async () => {
  const graph = graphOf(
    { right: [], left: [], difference: ['left', 'right'] },
    ['left', 'right'],
    ['difference'],
  );
  const net = moduleBytes({ type: 'dllib.net.GraphNet', children: [graph] });
  const made = await convertBytes(net, { inputShapes: { left: [1, 2], right: [1, 2] } });
  const feed = [
    [5, 7],
    [1, 2],
  ].map((data) => tensorOf({ shape: [1, 2], data }));
  const [[output]] = (await runGraph(made, [feed])) as unknown as [[{ data: Float32Array }]];
  assert.deepEqual([...output.data], [4, 5]);
});

test('a module in place is refused where another one takes its input, and converted in a chain', async () => {
  const place = moduleBytes({ type: 'nn.ReLU', attributes: { ip: true } });
  const other = moduleBytes({ type: 'nn.Tanh' });
  for (const children of [
    [place, other],
    [other, place],
  ])
    await refused(
      moduleBytes({ type: 'nn.ConcatTable', children }),
      /shares its input with a module that works in place/,
    );
  const chain = { type: 'nn.Sequential', children: [other, place, other] };
  assert.equal((await answers(chain)).length, 4);
});

const BROKEN: readonly (readonly [what: string, model: Buffer, message: RegExp])[] = [
  ['a loop', graphOf({ input: [], a: ['input', 'b'], b: ['a'] }, ['input'], ['b']), /is in a loop/],
  ['an unknown output', graphOf({ input: [] }, ['input'], ['nothing']), /has no module "nothing"/],
  ['a module without an input', graphOf({ input: [], a: [] }, ['input'], ['a']), /"a" has no input/],
  ['no outputs', graphOf({ input: [] }, ['input'], []), /names no outputs/],
];
for (const [what, model, message] of BROKEN)
  test(`a graph with ${what} is refused`, () => refused(model, message, { inputShapes: { input: [1, 2] } }));

const byName = (name: string) => readCases().find((each) => each.name === name) as Case;
const bytesOf = (text: string | undefined) => Buffer.from(text ?? '', 'base64');

test('a damaged file of weights is refused wherever it is damaged', async () => {
  const { model, weights, inputs } = byName('SeparateWeights');
  const right = bytesOf(weights);
  await convertBytes(bytesOf(model), shapesOf(inputs), right);
  for (let at = 0; at < right.length; at += 41) {
    const broken = Buffer.from(right);
    broken[at] = (broken[at] as number) ^ 0x55;
    for (const file of [broken, right.subarray(0, at)])
      await assert.rejects(convertBytes(bytesOf(model), shapesOf(inputs), file), {
        code: 'bad_model',
        message: /^net\.bin: /,
      });
  }
});

test('the size of a batch does not change the answer, whatever the batch of the given shape is', async () => {
  const { model, inputs, outputs } = byName('LeNet');
  for (const first of [1, 2, 64]) {
    const shape = [first, ...(inputs[0]?.shape.slice(1) ?? [])];
    const made = await convertBytes(bytesOf(model), { inputShapes: { input: shape } });
    assert.equal(made.graph.inputs[0]?.shape?.[0], 'N');
    const [[output]] = (await runGraph(made, [inputs.map(tensorOf)])) as unknown as [[{ shape: number[] }]];
    assert.deepEqual(output.shape, outputs[0]?.shape);
  }
});

test("a file of Java's serialization, and one that is cut off, are refused with how to save", async () => {
  const java = Buffer.from([0xac, 0xed, 0, 5, 0x73, 0x72]);
  for (const bytes of [java, moduleBytes({ ...LINEAR }).subarray(0, -3)])
    await refused(bytes, /the file is damaged, or no BigDL model; save it with saveModule, not with Java's/);
});

test('refused: a module of a graph that has two sources, or none', async () => {
  const options = { inputShapes: { left: [1, 2], right: [1, 2] } };
  for (const [nodes, message] of [
    [{ right: [], left: ['right'], sum: ['left', 'right'] }, /input "left" also follows other modules/],
    [{ right: [], left: [], lone: [], sum: ['left', 'lone'] }, /"lone" has no input/],
  ] as const)
    await assert.rejects(convertBytes(graphOf(nodes, ['left', 'right'], ['sum']), options), {
      code: 'bad_model',
      message,
    });
});
