/** Two ONNX files in a row become one, which answers as onnxruntime does when it runs one after the other. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { importModel } from '../../../onnx-import/import/import.ts';
import { readOnnx } from '../../../onnx-import/onnx/facts.ts';
import { portsOf } from '../../../onnx-import/onnx/join/ports.ts';
import { fieldsOf } from '../../../onnx-import/onnx/rewrite/fields.ts';
import { convertOptionsOf } from '../../../onnx-import/options.ts';
import { detectModel } from '../../../onnx-import/source/detect.ts';
import { bytes, type Chunk, integer, message, text } from '../../../onnx-import/wire/chunk.ts';
import { messageOf } from '../../../onnx-import/wire/message.ts';
import { modelOnTheWay } from '../../../release/cache.ts';
import { parseConfig } from '../../support/config.ts';
import { models } from '../../support/models.ts';
import {
  type Element,
  identityModel,
  type ModelSpec,
  type NodeSpec,
  nodeProto,
  onnxModel,
  type ValueSpec,
  type WeightSpec,
} from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';
import { ort } from '../support/pytorch/answers.ts';

const [PRE, MODEL] = ['preprocessor.onnx', 'model.onnx'];
const ROWS = 3;

const node = (op: string, inputs: string, outputs: string, more: Partial<NodeSpec> = {}): NodeSpec => ({
  op,
  // Unique in a graph, and the same in both files.
  name: `of ${outputs.split(' ')[0]}`,
  inputs: inputs.split(' '),
  outputs: outputs.split(' '),
  ...more,
});
const port = (name: string, shape: ValueSpec['shape'] = ['N', 3], dtype: Element = 'float32'): ValueSpec => ({
  name,
  dtype,
  shape,
});
const weight = (name: string, ...data: number[]): WeightSpec => ({
  name,
  dtype: 'float32',
  shape: [data.length],
  data: Float32Array.from(data),
});
/** The body of an If that computes `inner` of a value around it. */
const branch = (op: string, outer: string) => ({
  nodes: [node(op, `${outer} w`, 'inner'), node('Neg', 'inner', 'branched')],
  outputs: [port('branched', undefined)],
});
const choice = (condition: string, outer: string, output: string): NodeSpec =>
  node('If', condition, output, {
    attributes: { then_branch: branch('Add', outer), else_branch: branch('Mul', outer) },
  });

/** Both files use the names w, h, inner, branched and isOn, also of nodes, and the second has its own x. */
const FIRST: ModelSpec = {
  inputs: [port('x')],
  outputs: [port('y'), port('unused')],
  weights: [weight('w', 0.1, 0.7, -1.3), weight('zero', 0)],
  nodes: [
    node('Mul', 'x w', 'h'),
    node('ReduceMax', 'w', 'most', { attributes: { keepdims: 0 } }),
    node('Greater', 'most zero', 'flags'),
    node('ReduceMax', 'asInts', 'flag', { attributes: { keepdims: 0 } }),
    choice('isOn', 'h', 'y'),
    node('Exp', 'h', 'unused'),
  ].flatMap((each) => {
    if (each.outputs[0] === 'flags')
      return [each, node('Cast', 'flags', 'asInts', { attributes: { to: 6 } })];
    return each.op === 'If' ? [node('Cast', 'flag', 'isOn', { attributes: { to: 9 } }), each] : [each];
  }),
};
const SECOND: ModelSpec = {
  inputs: [port('y', ['batch', 3]), port('bias', ['batch', 3])],
  outputs: [port('z', ['batch', 3]), port('h', ['batch', 'N'])],
  weights: [
    weight('w', 3.3, -0.2, 0.9),
    { name: 'isOn', dtype: 'bool', shape: [], data: new Uint8Array([0]) },
  ],
  nodes: [
    node('Sin', 'y', 'x'),
    choice('isOn', 'x', 'inner_'),
    node('Add', 'inner_ bias', 'z'),
    node('Mul', 'x y', 'before_'),
    node('Div', 'before_ w', 'h'),
  ],
};

async function pair(t: TestContext, first: Uint8Array, second: Uint8Array): Promise<string> {
  return folderOf(t, { [PRE]: first, [MODEL]: second });
}

async function joined(t: TestContext, folder: string) {
  const out = join(await temporaryFolder(t), 'out');
  const options = { out, process: models, measure: false, convert: { before: PRE } };
  const { directory, importReport } = await importModel(folder, options);
  return { file: join(directory, MODEL), importReport };
}

type Feeds = Readonly<Record<string, object>>;

async function run(t: TestContext, file: string, feeds: Feeds) {
  const session = await ort.InferenceSession.create(file);
  t.after(() => session.release());
  return session.run(feeds);
}

/** Any numbers, of which none is whole. */
function tensor(seed: number, columns = 3): object {
  const data = Float32Array.from({ length: ROWS * columns }, (_, i) => Math.sin(seed + i * 1.7) * 5);
  return new ort.Tensor('float32', data, [ROWS, columns]);
}

/** @param wires the second's inputs by the first's outputs */
async function assertSame(
  t: TestContext,
  folder: string,
  file: string,
  { first, rest, wires }: { first: Feeds; rest?: Feeds; wires: Readonly<Record<string, string>> },
): Promise<void> {
  const before = await run(t, join(folder, PRE), first);
  const given = Object.entries(wires).map(([output, input]) => [
    input,
    before[output] ?? assert.fail(output),
  ]);
  const wanted = await run(t, join(folder, MODEL), { ...rest, ...Object.fromEntries(given) });
  const got = await run(t, file, { ...first, ...rest });
  assert.deepEqual(Object.keys(got), Object.keys(wanted));
  for (const [name, { data, dims }] of Object.entries(wanted)) {
    assert.deepEqual(got[name]?.data, data, name);
    assert.deepEqual(got[name]?.dims, dims, name);
    assert.ok(new Set(Array.from(data, Number)).size > 1, `${name} shows nothing`);
  }
}

test('names that both files use stay apart, also in bodies, and an input that is left stays one', async (t) => {
  const folder = await pair(t, onnxModel(FIRST), onnxModel(SECOND));
  const { file, importReport } = await joined(t, folder);
  const wires = { y: 'y' };
  await assertSame(t, folder, file, { first: { x: tensor(1) }, rest: { bias: tensor(2) }, wires });
  assert.deepEqual(
    importReport.inputs.map(({ name }) => name),
    ['x', 'bias'],
  );
  assert.deepEqual(
    importReport.outputs.map(({ name }) => name),
    ['z', 'h'],
  );
  assert.match(
    importReport.notes.join('\n'),
    /preprocessor\.onnx was joined in front of model\.onnx: its output "y" is input "y"\npreprocessor\.onnx: nothing reads "unused"/,
  );
  const sources = importReport.source.files.map(({ path }) => path);
  assert.deepEqual(sources, [MODEL, PRE]);
  assert.equal(importReport.verification?.batching.verdict, 'proven');
});

test('one output goes into one input, also where input and output have the same names in both', async (t) => {
  const chain = (op: string) =>
    onnxModel({
      inputs: [port('input')],
      outputs: [port('output')],
      nodes: [node(op, 'input', 'hidden'), node('Mul', 'hidden input', 'output')],
    });
  const folder = await pair(t, chain('Sin'), chain('Cos'));
  const { file } = await joined(t, folder);
  await assertSame(t, folder, file, { first: { input: tensor(3) }, wires: { output: 'input' } });
});

test('what is passed on unchanged keeps its name as an output', async (t) => {
  const first = onnxModel({ inputs: [port('x')], outputs: [port('y')], nodes: [node('Sin', 'x', 'y')] });
  const second = onnxModel({
    inputs: [port('y')],
    outputs: [port('z'), port('y')],
    nodes: [node('Exp', 'y', 'z')],
  });
  const folder = await pair(t, first, second);
  const { file } = await joined(t, folder);
  await assertSame(t, folder, file, { first: { x: tensor(4) }, wires: { y: 'y' } });
});

test('two outputs go into two inputs by their names', async (t) => {
  const first = onnxModel({
    inputs: [port('x')],
    outputs: [port('b'), port('a')],
    nodes: [node('Sin', 'x', 'a'), node('Exp', 'a', 'b')],
  });
  const second = onnxModel({
    inputs: [port('a'), port('b')],
    outputs: [port('z')],
    nodes: [node('Sub', 'a b', 'z')],
  });
  const folder = await pair(t, first, second);
  const { file } = await joined(t, folder);
  await assertSame(t, folder, file, { first: { x: tensor(5) }, wires: { a: 'a', b: 'b' } });
});

/** A model whose function `local.Inner` is this operator. */
function calling(op: string, input: string, output: string): Uint8Array {
  const body = message([
    text(1, 'Inner'),
    text(4, 'a'),
    text(5, 'b'),
    bytes(7, nodeProto(node(op, 'a', 'b'))),
    bytes(9, message([text(1, ''), integer(2, 17)])),
    text(10, 'local'),
  ]);
  const model = onnxModel({
    inputs: [port(input)],
    outputs: [port(output)],
    nodes: [node('Inner', input, output, { domain: 'local' })],
    domains: { local: 1 },
  });
  return Buffer.concat([model, ...bytes(25, body).parts]);
}

test('functions of one name stay those of their file', async (t) => {
  const folder = await pair(t, calling('Sin', 'x', 'y'), calling('Exp', 'y', 'z'));
  const { file } = await joined(t, folder);
  await assertSame(t, folder, file, { first: { x: tensor(6) }, wires: { y: 'y' } });
});

/** The model with these fields at the end of its graph. */
function withInGraph(model: Uint8Array, ...added: readonly Chunk[]): Uint8Array {
  const fields = fieldsOf(model).map(({ number, content, raw }) =>
    number === 7
      ? Buffer.concat([...bytes(7, message([{ parts: [content], length: content.length }, ...added])).parts])
      : raw,
  );
  return Buffer.concat(fields);
}

test('types of inner values and free sizes of one name stay those of their file', async (t) => {
  const typed = (name: string, sizes: readonly (number | string)[]) => {
    const dims = sizes.map((size) =>
      bytes(1, message([typeof size === 'number' ? integer(1, size) : text(2, size)])),
    );
    const tensorType = message([integer(1, 1), bytes(2, message(dims))]);
    return bytes(13, message([text(1, name), bytes(2, message([bytes(1, tensorType)]))]));
  };
  const first = onnxModel({
    inputs: [port('x', ['rows', 'N'])],
    outputs: [port('y', ['rows', 1])],
    nodes: [node('Exp', 'x', 'h'), node('ReduceMean', 'h', 'y', { attributes: { axes: [1] } })],
  });
  const second = onnxModel({
    inputs: [port('y', ['N', 1]), port('more', ['N', 'rows'])],
    outputs: [port('z', ['N', 'rows'])],
    nodes: [node('Sin', 'y', 'h'), node('Add', 'h more', 'z')],
  });
  const folder = await pair(
    t,
    withInGraph(first, typed('h', ['rows', 'N'])),
    withInGraph(second, typed('h', ['N', 1]), typed('y', ['N', 1])),
  );
  const { file } = await joined(t, folder);
  const feeds = { first: { x: tensor(7, 5) }, rest: { more: tensor(8, 4) } };
  await assertSame(t, folder, file, { ...feeds, wires: { y: 'y' } });
  const { inputs, outputs } = portsOf(MODEL, messageOf(readOnnx(file), 'graph') ?? {});
  assert.deepEqual(
    [...inputs, ...outputs].map(({ name, shape }) => [name, shape]),
    [
      ['x', ['rows', 'N']],
      ['more', ['rows', 'after_rows']],
      ['z', ['rows', 'after_rows']],
    ],
  );
});

const one = (input: ValueSpec, output: ValueSpec, more: Partial<ModelSpec> = {}) =>
  onnxModel({
    inputs: [input],
    outputs: [output],
    nodes: [node('Identity', input.name, output.name)],
    ...more,
  });
const Y = one(port('y'), port('z'));

const REFUSED: readonly (readonly [what: string, first: Uint8Array, second: Uint8Array, message: RegExp])[] =
  [
    [
      'another type',
      one(port('x', ['N', 3], 'uint8'), port('y', ['N', 3], 'uint8')),
      Y,
      /output "y" is not what input "y" takes; outputs of preprocessor\.onnx: y uint8 \[N,3\]; inputs of model\.onnx: y float32 \[N,3\]/,
    ],
    [
      'another size',
      one(port('x', ['N', 4]), port('y', ['N', 4])),
      Y,
      /outputs of preprocessor\.onnx: y float32 \[N,4\]; inputs of model\.onnx: y float32 \[N,3\]/,
    ],
    ['another rank', one(port('x', ['N', 3, 1]), port('y', ['N', 3, 1])), Y, /is not what input "y" takes/],
    [
      'names of which none is the same',
      identityModel([port('a'), port('b')]),
      Y,
      /no output has the name of an input; export .*; outputs of preprocessor\.onnx: a_out float32 \[N,3\], b_out/,
    ],
    [
      'another opset',
      one(port('x'), port('y'), { opset: 15 }),
      Y,
      /operators of ONNX in version 15, and model\.onnx in version 17; .*convert_version\(onnx\.load\("preprocessor\.onnx"\), 17\)/,
    ],
    [
      'another version of a domain',
      one(port('x'), port('y'), { domains: { 'ai.onnx.ml': 2 } }),
      one(port('y'), port('z'), { domains: { 'ai.onnx.ml': 3 } }),
      /operators of ai\.onnx\.ml in version 2, and model\.onnx in version 3; .*export both with the same$/,
    ],
    [
      'an input of one name in both',
      one(port('x'), port('y')),
      onnxModel({
        inputs: [port('x'), port('y')],
        outputs: [port('z')],
        nodes: [node('Add', 'x y', 'z')],
      }),
      /both an input of preprocessor\.onnx and an input of model\.onnx are called "x"/,
    ],
    [
      'an output with the name of an input',
      one(port('x'), port('y')),
      one(port('y'), port('x')),
      /both an input of preprocessor\.onnx and an output of model\.onnx are called "x"/,
    ],
  ];

for (const [what, first, second, expected] of REFUSED) {
  test(`${what} is refused with what both files say`, async (t) => {
    const folder = await pair(t, first, second);
    await assert.rejects(joined(t, folder), { code: 'bad_model', message: expected });
  });
}

test('weights in another file are refused with how they get into the file', async (t) => {
  const entry = (key: string, value: string) => bytes(13, message([text(1, key), text(2, value)]));
  const outside = message([
    integer(1, 3),
    integer(2, 1),
    text(8, 'w'),
    entry('location', 'w.bin'),
    integer(14, 1),
  ]);
  const model = withInGraph(one(port('x'), port('y')), bytes(5, outside));
  const folder = await pair(t, model, Y);
  await writeFile(join(folder, 'w.bin'), new Uint8Array(12));
  await assert.rejects(joined(t, folder), {
    code: 'bad_model',
    message:
      /preprocessor\.onnx: its weights lie in w\.bin, .*onnx\.save\(onnx\.load\("preprocessor\.onnx"\), "copy\.onnx"\)/,
  });
});

test('a folder whose files fit says how to join them; others do not hear of it', async (t) => {
  const folder = await pair(t, one(port('x'), port('y')), Y);
  await assert.rejects(
    detectModel(folder),
    /choose one: --file model\.onnx, or join them, as preprocessor\.onnx gives what model\.onnx takes: --before preprocessor\.onnx$/,
  );
  const apart = await pair(t, one(port('x', [4]), port('y', [4])), Y);
  await assert.rejects(detectModel(apart), /choose one: --file model\.onnx$/);
  await assert.rejects(detectModel(folder, { before: 'other.onnx', file: MODEL }), {
    code: 'bad_config',
    message: '--before other.onnx: there is no such ONNX file beside model.onnx; found preprocessor.onnx',
  });
  const other = await folderOf(t, { 'model.pt': new Uint8Array(8), [PRE]: Y });
  await assert.rejects(detectModel(other, { before: PRE }), /is a model of PyTorch/);
});

test('three files in a row are refused', () => {
  assert.deepEqual(convertOptionsOf({ before: ['./a.onnx'] }), { before: 'a.onnx' });
  assert.throws(() => convertOptionsOf({ before: ['a.onnx', 'b.onnx'] }), {
    code: 'bad_config',
    message: /one file is joined with the model; a longer chain is a worker's/,
  });
  assert.throws(
    () => parseConfig('import: {before: [a.onnx, b.onnx]}', 'test'),
    /import\.before: expected the name of one file; a longer chain is a worker, got/,
  );
});

test('files that say how pictures are prepared are refused beside a file that may do the same', async (t) => {
  const folder = await pair(t, one(port('x'), port('y')), Y);
  const processor = { image_processor_type: 'ViTImageProcessor', size: { height: 4, width: 4 } };
  await writeFile(join(folder, 'preprocessor_config.json'), JSON.stringify(processor));
  await assert.rejects(joined(t, folder), {
    code: 'bad_model',
    message:
      /preprocessor_config\.json says how pictures are prepared, and preprocessor\.onnx runs before model\.onnx/,
  });
});

test('a service joins at its start, and again when either file changes', async (t) => {
  const folder = await pair(t, one(port('x'), port('y')), Y);
  const cacheDir = await temporaryFolder(t);
  const job = parseConfig('import: {before: preprocessor.onnx}', 'test');
  const start = () => modelOnTheWay(folder, { job, cacheDir, version: '1', process: models });
  const before = await start();
  assert.equal((await start()).fromCache, true);
  assert.match(before.notes.join('\n'), /preprocessor\.onnx was joined in front of model\.onnx/);
  await writeFile(join(folder, PRE), one(port('raw'), port('y')));
  const after = await start();
  assert.notEqual(after.directory, before.directory);
  assert.deepEqual(
    after.importReport?.inputs.map(({ name }) => name),
    ['raw'],
  );
  const plain = modelOnTheWay(folder, { job: parseConfig('', 'test'), cacheDir, version: '1' });
  await assert.rejects(
    plain,
    /gives what model\.onnx takes: import\.before in config\.yaml preprocessor\.onnx/,
  );
});
