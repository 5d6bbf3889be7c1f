/** Labels that an import finds: where they are from, which output they belong to, and when they belong to none. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { readNames } from '../../../lib/registry/names.ts';
import { listOf } from '../../../onnx-import/onnx/labels.ts';
import { bytes, message, text as textField } from '../../../onnx-import/wire/chunk.ts';
import { modelOnTheWay } from '../../../release/cache.ts';
import { importModel } from '../../../release/import.ts';
import { models, UNMEASURED } from '../../support/models.ts';
import { type ModelSpec, onnxModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';

const float = (name: string, ...shape: (number | string)[]) => ({ name, dtype: 'float32', shape }) as const;
const QUICK = { version: '1', process: models, ...UNMEASURED };
const CLASSES = ['cat', 'dog', 'fish'];

const relu = (columns: number | string = 3): ModelSpec => ({
  inputs: [float('x', 'N', 3)],
  outputs: [float('y', 'N', columns)],
  nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
});

/** The model with entries of metadata. */
function withMetadata(spec: ModelSpec, entries: Readonly<Record<string, string>>): Buffer {
  const fields = Object.entries(entries).map(([key, value]) =>
    bytes(14, message([textField(1, key), textField(2, value)])),
  );
  return Buffer.concat([onnxModel(spec), ...fields.flatMap(({ parts }) => parts)]);
}

async function imported(t: TestContext, files: Readonly<Record<string, string | Uint8Array>>) {
  const directory = await folderOf(t, files);
  const out = join(await temporaryFolder(t), 'out');
  const { importReport } = await importModel(directory, { out, ...QUICK });
  const names = await readFile(join(out, 'names.json'), 'utf8').catch(() => '{}');
  const { labels } = JSON.parse(names) as { labels?: unknown };
  return { labels, notes: importReport.notes.filter((note) => note.includes('labels')) };
}

test('labels of the metadata, of a file beside the model, or of names.json, the nearest to the user first', async (t) => {
  const model = withMetadata(relu(), { names: "{0: 'cat', 1: \"dog\", 2: 'fi\\'sh'}", author: 'x' });
  const own = await imported(t, { 'm.onnx': model });
  assert.deepEqual(own.labels, { y: ['cat', 'dog', "fi'sh"] });
  assert.deepEqual(own.notes, [
    'output "y" has 3 labels (from "names" in the metadata of the model file): cat, dog, fi\'sh',
  ]);
  const beside = { 'm.onnx': model, 'labels.txt': 'a\nb\nc\n' };
  assert.deepEqual((await imported(t, beside)).notes, ['output "y" has 3 labels (from labels.txt): a, b, c']);
  const named = { ...beside, 'names.json': '{"labels": {"y": ["p", "q", "r"]}}' };
  assert.deepEqual((await imported(t, named)).labels, { y: ['p', 'q', 'r'] });
  const config = {
    'm.onnx': onnxModel(relu()),
    'config.json': '{"id2label": {"0": "a", "1": "b", "2": "c"}}',
  };
  assert.match((await imported(t, config)).notes.join(), /from id2label of config\.json/);
});

test('a model whose labels only an import finds is imported before it serves', async (t) => {
  const start = async (files: Readonly<Record<string, string | Uint8Array>>) => {
    const directory = await folderOf(t, files);
    const options = { job: DEFAULT_JOB, cacheDir: await temporaryFolder(t), ...QUICK };
    const served = await modelOnTheWay(directory, options);
    const names = await readNames(served.directory, [float('y', 'N', 3)]);
    return { isImported: served.directory !== directory, names };
  };
  const inFile = withMetadata(relu(), { names: "{0: 'cat', 1: 'dog', 2: 'fish'}" });
  const found = await start({ 'm.onnx': inFile });
  assert.deepEqual(found, { isImported: true, names: { columns: {}, labels: { y: CLASSES } } });
  // The file leaves the number of columns free: only a run shows which output has three.
  const open = { ...relu('C'), outputs: [float('y', 'N', 'C'), float('z', 'N', 'C')] };
  const nodes = [
    ...open.nodes,
    { op: 'ReduceSum', inputs: ['x', 'axis'], outputs: ['z'], attributes: { keepdims: 1 } },
  ];
  const weights = [{ name: 'axis', dtype: 'int64', shape: [1], data: BigInt64Array.of(1n) }] as const;
  const free = onnxModel({ ...open, nodes, weights });
  const measured = await start({ 'm.onnx': free, 'labels.txt': CLASSES.join('\n') });
  assert.deepEqual(measured, { isImported: true, names: { columns: {}, labels: { y: CLASSES } } });
  const plain = await start({ 'm.onnx': onnxModel(relu()), 'labels.txt': CLASSES.join('\n') });
  assert.deepEqual(plain, { isImported: false, names: { columns: {}, labels: { y: CLASSES } } });
  const told = await start({ 'm.onnx': inFile, 'names.json': '{"labels": {"y": ["p", "q", "r"]}}' });
  assert.deepEqual(told.isImported, false);
});

test('labels that fit no output, or more than one, belong to none, and the report says so', async (t) => {
  const two = { ...relu(), outputs: [float('y', 'N', 3), float('z', 'N', 3)] };
  const nodes = [...two.nodes, { op: 'Neg', inputs: ['x'], outputs: ['z'] }];
  const cases: readonly (readonly [ModelSpec, string])[] = [
    [relu(), 'cat\ndog'],
    [{ ...two, nodes }, CLASSES.join('\n')],
    // The file leaves the number of columns free; a run shows that there are three.
    [relu('C'), 'cat\ndog'],
  ];
  for (const [spec, lines] of cases) {
    const { labels, notes } = await imported(t, { 'm.onnx': onnxModel(spec), 'labels.txt': lines });
    assert.equal(labels, undefined);
    assert.match(
      notes.join(),
      /^labels\.txt: \d labels, which are not used, for they do not fit exactly one output: "y" has /,
    );
  }
  const free = await imported(t, { 'm.onnx': onnxModel(relu('C')), 'labels.txt': CLASSES.join('\n') });
  assert.deepEqual(free.labels, { y: CLASSES });
});

test('the table in which a model looks the best class up names the classes of its scores', async (t) => {
  const label = { name: 'label', dtype: 'string', shape: ['N'] } as const;
  const lookup = (nodes: ModelSpec['nodes']): ModelSpec => ({
    inputs: [float('x', 'N', 3)],
    outputs: [label, float('scores', 'N', 3)],
    domains: { 'ai.onnx.ml': 3 },
    nodes: [
      { op: 'Softmax', inputs: ['x'], outputs: ['scores'] },
      { op: 'Relu', inputs: ['x'], outputs: ['other'] },
      ...nodes,
    ],
  });
  const table = {
    op: 'Constant',
    inputs: [],
    outputs: ['table'],
    attributes: { value_strings: { strings: CLASSES } },
  };
  const best = (from: string) => ({
    op: 'ArgMax',
    inputs: [from],
    outputs: ['best'],
    attributes: { axis: 1, keepdims: 0 },
  });
  const gather = { op: 'Gather', inputs: ['table', 'best'], outputs: ['label'] };
  const encoder = {
    op: 'LabelEncoder',
    domain: 'ai.onnx.ml',
    inputs: ['best'],
    outputs: ['label'],
    attributes: { keys_int64s: [0, 1, 2], values_strings: { strings: CLASSES } },
  };
  for (const nodes of [
    [best('scores'), table, gather],
    [best('x'), table, gather],
    [best('scores'), encoder],
  ]) {
    const { labels, notes } = await imported(t, { 'm.onnx': onnxModel(lookup(nodes)) });
    assert.deepEqual(labels, { scores: CLASSES });
    assert.match(notes.join(), /3 labels \(from the model file\): cat, dog, fish/);
  }
  const turned = { ...encoder, attributes: { ...encoder.attributes, keys_int64s: [2, 1, 0] } };
  for (const nodes of [
    [best('other'), table, gather],
    [best('scores'), turned],
  ])
    assert.equal((await imported(t, { 'm.onnx': onnxModel(lookup(nodes)) })).labels, undefined);
});

test('a list of labels is a dict or a list of Python or JSON, whole and in order, or lines', () => {
  assert.deepEqual(listOf('[\'a\', "b"]'), ['a', 'b']);
  assert.deepEqual(listOf('["a", "b\\"c"]'), ['a', 'b"c']);
  assert.deepEqual(listOf('{"0": "a", "1": "b"}'), ['a', 'b']);
  assert.deepEqual(listOf('a\nb\n'), ['a', 'b']);
  for (const text of [
    '',
    'a',
    '[]',
    '{}',
    "{0: 'a', 2: 'b'}",
    "{1: 'a'}",
    '[1, 2]',
    "['a' 'b']",
    "['a",
    'a\n\nb',
  ])
    assert.equal(listOf(text), undefined, text);
});
