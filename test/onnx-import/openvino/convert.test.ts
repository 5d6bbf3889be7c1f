/** What the reader of OpenVINO models accepts, names and refuses, and when it frees a static batch. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { convertIr } from '../../../onnx-import/formats/openvino/convert.ts';
import type { OvNode } from '../../../onnx-import/formats/openvino/node.ts';
import { bodyOf } from '../../../onnx-import/formats/openvino/ops/bodies.ts';
import type { Element } from '../../../onnx-import/formats/openvino/xml.ts';
import { importModel } from '../../../release/import.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { answerOf, bytesOf, filesOf, type LayerText, netText, shaped } from '../support/openvino.ts';

const parameter = (shape: readonly number[]): LayerText => ({
  id: 0,
  name: 'data',
  type: 'Parameter',
  data: { element_type: 'f32', shape: shape.join() },
  shapes: [shape],
});

/** One layer between a parameter and a result. */
function single(
  layer: Omit<LayerText, 'id' | 'from' | 'shapes'>,
  input: readonly number[],
  output = input,
): string {
  return netText(11, [
    parameter(input),
    { id: 1, name: 'answer', from: [0], shapes: [output], ...layer },
    { id: 2, type: 'Result', from: [1] },
  ]);
}

const RELU = single({ type: 'ReLU' }, [1, 3]);

const REFUSED: readonly (readonly [what: string, xml: string, message: RegExp])[] = [
  [
    'an attribute that no rule knows',
    single({ type: 'ReLU', data: { mystery: 1 } }, [1, 3]),
    /has an attribute that is not supported: mystery/,
  ],
  ['a state', single({ type: 'ReadValue', opset: 'opset6' }, [1, 3]), /ReadValue .*keeps a state/],
  ['random numbers', single({ type: 'RandomUniform', opset: 'opset8' }, [1, 3]), /its answers are random/],
  [
    'an operation of an extension',
    single({ type: 'ReLU', opset: 'extension' }, [1, 3]),
    /it is of the set "extension"/,
  ],
  [
    'a shape that is not that of the layer',
    single({ type: 'ReLU' }, [1, 3], [1, 4]),
    /gives \[1,3\], the file says \[1,4\]/,
  ],
  [
    'a dtype that is not that of the layer',
    single({ type: 'ReLU', precision: 'I32' }, [1, 3]),
    /gives float32, the file says I32/,
  ],
  [
    'a version that is not known',
    RELU.replace('version="11"', 'version="12"'),
    /is of IR version 12; 2 to 11 are read/,
  ],
  ['a document type', RELU.replace('<net', '<!DOCTYPE net [<!ENTITY a "b">]><net'), /has a document type/],
  ['something else', '<html/>', /is no OpenVINO model: expected <net>, found <html>/],
  ['no XML', '<net version="11"><layers>', /is no XML/],
  ['a circle', RELU.replace('from-layer="0"', 'from-layer="1"'), /take from each other in a circle/],
  [
    'an edge from nowhere',
    RELU.replace('from-layer="0"', 'from-layer="9"'),
    /takes from layer 9, which is not there/,
  ],
  ['no output', RELU.replace('type="Result"', 'type="ReLU"'), /has no output/],
];
for (const [what, xml, message] of REFUSED) {
  test(`${what} is refused`, () => {
    assert.throws(() => convertIr(filesOf(xml), {}), { code: 'bad_model', message });
  });
}

test('all layers that are not supported are named at once, with file and name', () => {
  const xml = netText(11, [
    parameter([1, 3]),
    { id: 1, name: 'first', type: 'Unheard', from: [0], shapes: [[1, 3]] },
    { id: 2, name: 'second', type: 'Assign', opset: 'opset6', from: [0], shapes: [[1, 3]] },
    { id: 3, type: 'Result', from: [1] },
  ]);
  assert.throws(() => convertIr(filesOf(xml), {}), {
    message:
      /net\.xml: 2 nodes cannot be converted:\n {2}Unheard \(node "first"\).*\n {2}Assign \(node "second"\)/,
  });
});

test('constants beyond the file, of another size or without a file are refused', () => {
  const withConstant = (offset: number, size: number) =>
    netText(11, [
      parameter([1, 3]),
      { id: 1, type: 'Const', data: { element_type: 'f32', shape: '1,3', offset, size }, shapes: [[1, 3]] },
      { id: 2, type: 'Add', from: [0, 1], shapes: [[1, 3]] },
      { id: 3, type: 'Result', from: [2] },
    ]);
  const weights = bytesOf(Float32Array.of(1, 2, 3));
  const convert = (xml: string) => () => convertIr(filesOf(xml, weights), {});
  assert.doesNotThrow(convert(withConstant(0, 12)));
  assert.throws(convert(withConstant(4, 12)), /needs bytes 4 to 16 of net\.bin, which has 12/);
  assert.throws(convert(withConstant(0, 8)), /needs 12 bytes, it has 8/);
  assert.throws(
    () => convertIr({ ...filesOf(withConstant(0, 12)), weights: undefined }, {}),
    /no \.bin file/,
  );
});

test('names with escapes are read, and shown as they are', () => {
  const { graph } = convertIr(filesOf(RELU.replace('name="data"', 'name="&lt;lambda&gt; &amp; &#120;"')), {});
  assert.deepEqual(
    graph.inputs.map(({ name }) => name),
    ['<lambda> & x'],
  );
});

test('an output has the name of its tensor, or else that of its layer', () => {
  const named = (names: string) =>
    convertIr(
      filesOf(RELU.replace(/(name="answer".*?)<port id="10"/, `$1<port names="${names}" id="10"`)),
      {},
    ).graph.outputs[0]?.name;
  assert.equal(named('logits'), 'logits');
  assert.equal(named('answer:0,Identity:0'), 'answer');
  assert.equal(named('Func/output/_1:0,scores:0'), 'scores');
  assert.equal(convertIr(filesOf(RELU), {}).graph.outputs[0]?.name, 'answer');
});

test('a static batch is freed, and reshapes follow it', async () => {
  const target = BigInt64Array.of(1n, 6n);
  const xml = netText(11, [
    parameter([1, 2, 3]),
    {
      id: 1,
      type: 'Const',
      precision: 'I64',
      data: { element_type: 'i64', shape: '2', offset: 0, size: 16 },
      shapes: [[2]],
    },
    { id: 2, type: 'Reshape', data: { special_zero: 'false' }, from: [0, 1], shapes: [[1, 6]] },
    { id: 3, type: 'Result', from: [2] },
  ]);
  const numbers = Array.from({ length: 12 }, (_, i) => i);
  const { shape, data } = await answerOf(xml, [shaped([2, 2, 3], ...numbers)], bytesOf(target));
  assert.deepEqual([shape, data], [[2, 6], numbers]);
});

test('Squeeze without axes removes those of size 1 of a shape that is known, and is refused where a size is free', async () => {
  const xml = single({ type: 'Squeeze' }, [2, 1, 3, 1], [2, 3]);
  const numbers = [1, 2, 3, 4, 5, 6];
  assert.deepEqual(await answerOf(xml, [shaped([2, 1, 3, 1], ...numbers)]), { shape: [2, 3], data: numbers });
  const free = single({ type: 'Squeeze' }, [2, -1, 1], [2]);
  assert.throws(
    () => convertIr(filesOf(free), {}),
    /removes axes of size 1 of a free shape; give it with --input/,
  );
});

test('Interpolate takes a scale that is a little below the quotient of two sizes for that quotient', async () => {
  const [from, to] = [11, 13];
  const constant = (id: number, precision: string, offset: number, bytes: number): LayerText => ({
    id,
    type: 'Const',
    precision,
    data: { element_type: precision.toLowerCase(), shape: '1', offset, size: bytes },
    shapes: [[1]],
  });
  const data = {
    mode: 'nearest',
    shape_calculation_mode: 'scales',
    coordinate_transformation_mode: 'asymmetric',
    nearest_mode: 'floor',
  };
  const xml = netText(11, [
    parameter([2, from]),
    constant(1, 'I64', 0, 8),
    constant(2, 'F32', 16, 4),
    constant(3, 'I64', 8, 8),
    { id: 4, type: 'Interpolate', opset: 'opset4', data, from: [0, 1, 2, 3], shapes: [[2, to]] },
    { id: 5, type: 'Result', from: [4] },
  ]);
  const weights = bytesOf(BigInt64Array.of(0n, 1n), Float32Array.of(to / from));
  const row = Array.from({ length: from }, (_, i) => i);
  const { shape } = await answerOf(xml, [shaped([2, from], ...row, ...row)], weights);
  assert.deepEqual(shape, [2, to]);
});

/** A sum that broadcasts as PaddlePaddle does: the second operand lies along the axes from `axis` on. */
function pdpd(a: readonly number[], b: readonly number[], axis: number): string {
  return netText(11, [
    parameter(a),
    { ...parameter(b), id: 1, name: 'other' },
    { id: 2, type: 'Add', data: { auto_broadcast: 'pdpd', axis }, from: [0, 1], shapes: [a] },
    { id: 3, type: 'Result', from: [2] },
  ]);
}

test('pdpd broadcasts from an axis on, by default at the end, and refuses an axis that leaves no room', async () => {
  const zeros = shaped([2, 3, 2], ...new Array<number>(12).fill(0));
  const first = [10, 10, 10, 10, 10, 10, 20, 20, 20, 20, 20, 20];
  const middle = [1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3];
  const last = [5, 6, 5, 6, 5, 6, 5, 6, 5, 6, 5, 6];
  for (const [size, axis, numbers, expected] of [
    [2, 0, [10, 20], first],
    [3, 1, [1, 2, 3], middle],
    [2, 2, [5, 6], last],
    [2, -1, [5, 6], last],
  ] as const) {
    const { data } = await answerOf(pdpd([2, 3, 2], [size], axis), [zeros, shaped([size], ...numbers)]);
    assert.deepEqual(data, expected, String(axis));
  }
  for (const [a, b, axis, message] of [
    [[2, 3], [2, 3], 1, /axis 1 leaves no room for \[2,3\]/],
    [[2, 3], [3], 2, /axis 2 leaves no room for \[3\]/],
    [[3], [2, 3], 0, /broadcasts \[3\] to \[2,3\], which pdpd does not/],
  ] as const)
    assert.throws(() => convertIr(filesOf(pdpd(a, b, axis)), {}), { code: 'bad_model', message });
});

async function imported(t: TestContext, xml: string) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'net.xml'), xml);
  const out = join(await temporaryFolder(t), 'out');
  const options = { out, version: '1', measure: false, process: models };
  return (await importModel(folder, options)).importReport;
}

test('a model without constants is imported from its xml alone, with a free batch', async (t) => {
  const report = await imported(t, RELU);
  assert.deepEqual(
    report.inputs.map(({ shape }) => shape),
    [['N', 3]],
  );
  assert.deepEqual(
    report.source.files.map(({ path }) => path),
    ['net.xml'],
  );
  assert.equal(report.verification?.batching.verdict, 'proven');
});

test('the batch stays where the rows of a freed one depend on each other', async (t) => {
  const report = await imported(t, single({ type: 'SoftMax', opset: 'opset8', data: { axis: 0 } }, [2, 3]));
  assert.deepEqual(
    report.inputs.map(({ shape }) => shape),
    [[2, 3]],
  );
  assert.match(report.notes.join(), /the batch stays 2, as in the file/);
});

test('a constant beside a free batch is repeated along the axis that the batch has', async () => {
  const x = shaped([2, 3, 2], ...Array.from({ length: 12 }, (_, i) => 100 + i));
  // The batch in the middle, [3, N, 2] beside [3, 1, 2], and as the last axis, [2, 3, N] beside [2, 3, 1].
  for (const [axis, order, shape, rows] of [
    [2, [1, 0, 2], [3, 1, 2], (h: number) => [2 * h, 2 * h + 1]],
    [0, [2, 1, 0], [2, 3, 1], (h: number) => [h, 3 + h]],
  ] as const) {
    const weights = bytesOf(
      BigInt64Array.from(order, BigInt),
      Float32Array.from({ length: 6 }, (_, i) => i),
    );
    const int64 = { precision: 'I64', data: { element_type: 'i64', shape: '3', offset: 0, size: 24 } };
    const joined = (shape as readonly number[]).with(axis, 4);
    const xml = netText(11, [
      parameter([1, 3, 2]),
      { id: 1, type: 'Const', ...int64, shapes: [[3]] },
      { id: 2, type: 'Transpose', from: [0, 1], shapes: [shape] },
      {
        id: 3,
        type: 'Const',
        data: { element_type: 'f32', shape: shape.join(), offset: 24, size: 24 },
        shapes: [shape],
      },
      { id: 4, type: 'Concat', data: { axis }, from: [2, 3], shapes: [joined] },
      { id: 5, type: 'Transpose', from: [4, 1], shapes: [[1, 3, 4]] },
      { id: 6, type: 'Result', from: [5] },
    ]);
    const data = [0, 1].flatMap((n) =>
      [0, 1, 2].flatMap((h) => [100 + 6 * n + 2 * h, 101 + 6 * n + 2 * h, ...rows(h)]),
    );
    assert.deepEqual(await answerOf(xml, [x], weights), { shape: [2, 3, 4], data });
  }
});

test('a port without an id is joined to none', () => {
  assert.doesNotThrow(() => convertIr(filesOf(RELU), {}));
  const nameless = RELU.replace('<input><port id="0"', '<input><port').replace(
    ' to-layer="1" to-port="0"',
    ' to-layer="1"',
  );
  assert.throws(() => convertIr(filesOf(nameless), {}), { code: 'bad_model' });
});

test('bodies within bodies are converted to a depth of 16', () => {
  const nested = (depth: number): Element => ({
    name: depth % 2 === 0 ? 'body' : 'then_body',
    attributes: new Map(),
    children: [
      { name: 'layers', attributes: new Map(), text: '', children: depth === 1 ? [] : [nested(depth - 1)] },
    ],
    text: '',
  });
  const nodeOf = (depth: number) => {
    const element = { name: 'layer', attributes: new Map(), children: [nested(depth)], text: '' };
    return { layer: { element }, net: { version: 11, file: 'net.xml' } } as unknown as OvNode;
  };
  assert.throws(() => bodyOf(nodeOf(18), 'body'), /has bodies within bodies, more than 16 deep/);
  assert.throws(() => bodyOf(nodeOf(17), 'then_body'), /more than 16 deep/);
  for (const depth of [2, 16]) assert.doesNotThrow(() => bodyOf(nodeOf(depth), 'body'));
  assert.throws(() => bodyOf(nodeOf(2), 'else_body'), /has no else_body/);
});

/** Pools [1, 2, 3, 4] in pairs unless said otherwise. */
const POOLS: readonly (readonly [type: string, data: Record<string, string>, answer: readonly number[]])[] = [
  ['MaxPool', { auto_pad: 'same_upper' }, [2, 3, 4, 4]],
  ['MaxPool', { auto_pad: 'same_lower' }, [1, 2, 3, 4]],
  ['MaxPool', { pads_begin: '0,1' }, [1, 2, 3, 4]],
  ['MaxPool', { pads_end: '0,1' }, [2, 3, 4, 4]],
  ['MaxPool', { pads_begin: '0,1', auto_pad: 'valid' }, [2, 3, 4]],
  ['MaxPool', { strides: '1,3' }, [2]],
  ['MaxPool', { strides: '1,3', rounding_type: 'ceil' }, [2, 4]],
  ['MaxPool', { strides: '1,4', pads_begin: '0,0', rounding_type: 'ceil_torch' }, [2]],
  ['MaxPool', { dilations: '1,2' }, [3, 4]],
  ['AvgPool', { auto_pad: 'same_upper', 'exclude-pad': 'true' }, [1.5, 2.5, 3.5, 4]],
  ['AvgPool', { auto_pad: 'same_upper', 'exclude-pad': 'false' }, [1.5, 2.5, 3.5, 2]],
  ['AvgPool', { strides: '1,3', rounding_type: 'ceil', 'exclude-pad': 'false' }, [1.5, 4]],
];

for (const [type, data, answer] of POOLS) {
  test(`${type} of pairs with ${JSON.stringify(data)}`, async () => {
    const given = { kernel: '1,2', strides: '1,1', ...(type === 'MaxPool' ? { dilations: '1,1' } : {}) };
    const opset = type === 'MaxPool' ? 'opset8' : 'opset14';
    const attributes = { pads_begin: '0,0', pads_end: '0,0', ...given, ...data };
    const xml = single({ type, opset, data: attributes }, [1, 1, 1, 4], [1, 1, 1, answer.length]);
    const made = await answerOf(xml, [shaped([1, 1, 1, 4], 1, 2, 3, 4)]);
    assert.deepEqual(made.data, answer);
  });
}

test('a convolution pads as its attributes say', async () => {
  const ask = async (data: Record<string, string>, size: number) => {
    const xml = netText(11, [
      parameter([1, 1, 1, 4]),
      {
        id: 1,
        type: 'Const',
        data: { element_type: 'f32', shape: '1,1,1,2', offset: 0, size: 8 },
        shapes: [[1, 1, 1, 2]],
      },
      {
        id: 2,
        name: 'answer',
        type: 'Convolution',
        from: [0, 1],
        data: { strides: '1,1', dilations: '1,1', pads_begin: '0,0', pads_end: '0,0', ...data },
        shapes: [[1, 1, 1, size]],
      },
      { id: 3, type: 'Result', from: [2] },
    ]);
    const weights = bytesOf(Float32Array.from([10, 1]));
    return (await answerOf(xml, [shaped([1, 1, 1, 4], 1, 2, 3, 4)], weights)).data;
  };
  assert.deepEqual(await ask({}, 3), [12, 23, 34]);
  assert.deepEqual(await ask({ auto_pad: 'same_upper' }, 4), [12, 23, 34, 40]);
  assert.deepEqual(await ask({ auto_pad: 'same_lower' }, 4), [1, 12, 23, 34]);
  assert.deepEqual(await ask({ pads_begin: '0,2' }, 5), [0, 1, 12, 23, 34]);
  assert.deepEqual(await ask({ auto_pad: 'same_upper', dilations: '1,2' }, 4), [2, 13, 24, 30]);
});
