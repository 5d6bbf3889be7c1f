/** Lookup tables of every origin, and files that lie about them: one clear error each. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import { convertTensorflow } from '../../../../onnx-import/formats/tensorflow/convert.ts';
import { readSavedModel } from '../../../../onnx-import/formats/tensorflow/files/saved-model.ts';
import { folderOf } from '../../support/folder.ts';
import {
  attr,
  constant,
  DT,
  graph,
  intTensor,
  longTensor,
  node,
  placeholder,
  savedModel,
  textTensor,
} from '../../support/tensorflow.ts';
import { runGraph } from '../ops/graph.ts';

const TABLE = node('HashTableV2', 'table', [], {
  key_dtype: attr.type(DT.string),
  value_dtype: attr.type(DT.int64),
  shared_name: attr.text('t'),
});
const FIND = [
  constant('unknown', longTensor([], [-1]), DT.int64),
  node('LookupTableFindV2', 'found', ['table', 'x', 'unknown'], {
    Tin: attr.type(DT.string),
    Tout: attr.type(DT.int64),
  }),
];
const X = placeholder('x', [-1], DT.string);

interface Sample {
  readonly nodes: readonly Uint8Array[];
  readonly files?: Readonly<Record<string, string>>;
  readonly asset?: string;
}

async function look(t: TestContext, { nodes, files = {}, asset }: Sample): Promise<string[]> {
  const model = savedModel({
    graph: graph([X, TABLE, ...FIND, ...nodes]),
    signatures: { serving_default: { inputs: { x: 'x:0' }, outputs: { y: 'found:0' } } },
    ...(asset === undefined ? {} : { assets: { 'path:0': asset } }),
  });
  const folder = await folderOf(t, { 'saved_model.pb': model, ...files });
  const { graph: read } = await readSavedModel(folder);
  const x: Tensor = { dtype: 'string', shape: [4], data: ['a', 'b', '', 'A'] };
  const [y] = await runGraph(convertTensorflow(read, {}), { x });
  return [...(y?.data ?? [])].map(String);
}

const fill = (keys: Uint8Array, values: Uint8Array, op = 'InitializeTableV2'): Uint8Array[] => [
  constant('keys', keys, DT.string),
  constant('values', values, DT.int64),
  node(op, 'fill', ['table', 'keys', 'values'], { Tkey: attr.type(DT.string), Tval: attr.type(DT.int64) }),
];
const fromFile = (attributes: Readonly<Record<string, number>> = {}): Uint8Array[] => [
  constant('path', textTensor(['/home/somebody/words.txt']), DT.string),
  node('InitializeTableFromTextFileV2', 'fill', ['table', 'path'], {
    key_index: attr.int(-2),
    value_index: attr.int(-1),
    ...Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, attr.int(value)])),
  }),
];

test('a table is filled from constants, with one key twice when its values are equal', async (t) => {
  const nodes = fill(textTensor(['a', 'b', 'a', '']), longTensor([4], [7, 8, 7, 9]));
  assert.deepEqual(await look(t, { nodes }), ['7', '8', '9', '-1']);
});

test('a table is filled from the lines of an asset, whatever path it had elsewhere', async (t) => {
  const sample = { nodes: fromFile(), files: { 'assets/words.txt': 'b\r\na\n' }, asset: 'words.txt' };
  assert.deepEqual(await look(t, sample), ['1', '0', '-1', '-1']);
  const first = { ...sample, nodes: fromFile({ vocab_size: 1 }) };
  assert.deepEqual(await look(t, first), ['-1', '0', '-1', '-1']);
});

const ASSET = { files: { 'assets/words.txt': 'a\nb\n' }, asset: 'words.txt' };
const REFUSED: readonly (readonly [title: string, sample: Sample, message: RegExp])[] = [
  ['nothing fills it', { nodes: [] }, /HashTableV2 \(node "table"\): the table has no content/],
  [
    'it has more keys than values',
    { nodes: fill(textTensor(['a', 'b']), longTensor([1], [1])) },
    /keys of shape \[2\] and values of shape \[1\]/,
  ],
  [
    'one key has two values',
    { nodes: fill(textTensor(['a', 'a']), longTensor([2], [1, 2])) },
    /two values for the key "a"/,
  ],
  [
    'its values are of another type',
    { nodes: fill(textTensor(['a', 'b']), intTensor([2], [1, 2])) },
    /from string to int64 and is filled with string to int32/,
  ],
  [
    'its content is computed',
    { nodes: [node('Mystery', 'keys'), ...fill(textTensor(['a']), longTensor([1], [1])).slice(1)] },
    /computed by node "fill"/,
  ],
  [
    'two nodes fill it with other things',
    {
      nodes: [
        ...fill(textTensor(['a']), longTensor([1], [1])),
        constant('other', longTensor([1], [2]), DT.int64),
        node('LookupTableImportV2', 'again', ['table', 'keys', 'other']),
      ],
    },
    /several nodes fill the table/,
  ],
  [
    'its constant claims a billion entries',
    {
      nodes: fill(
        Buffer.concat([
          textTensor([]).subarray(0, 2),
          Buffer.from([0x12, 0x08, 0x12, 0x06, 0x08, 0x80, 0x94, 0xeb, 0xdc, 0x03]),
        ]),
        longTensor([1], [1]),
      ),
    },
    /expand to more than/,
  ],
  ['its file is no asset', { nodes: fromFile() }, /from a file that is not in the model's folder/],
  [
    'its asset is outside of the folder',
    { nodes: fromFile(), asset: '../../words.txt' },
    /outside of the model's directory/,
  ],
  ['its asset is missing', { nodes: fromFile(), asset: 'words.txt' }, /assets\/words\.txt is missing/],
  [
    'its asset has an empty line',
    { nodes: fromFile(), ...ASSET, files: { 'assets/words.txt': 'a\n\nb\n' } },
    /line 2 is empty/,
  ],
  [
    'its asset has a word twice',
    { nodes: fromFile(), ...ASSET, files: { 'assets/words.txt': 'a\na\n' } },
    /two values for the key "a"/,
  ],
  [
    'its asset is too short',
    { nodes: fromFile({ vocab_size: 3 }), ...ASSET },
    /has 2 lines, the table takes 3/,
  ],
  [
    'its asset has no such column',
    { nodes: fromFile({ value_index: 1 }), ...ASSET },
    /line 1 has too few columns/,
  ],
  [
    'its asset has words for numbers',
    { nodes: fromFile({ value_index: 0 }), ...ASSET },
    /"a" where a number belongs/,
  ],
  [
    'its asset has too many lines',
    { nodes: fromFile(), ...ASSET, files: { 'assets/words.txt': 'a\n'.repeat(2_000_001) } },
    /2,000,001 entries, at most 2,000,000/,
  ],
];

for (const [title, sample, message] of REFUSED)
  test(`a table is refused when ${title}`, async (t) => {
    await assert.rejects(look(t, sample), { code: 'bad_model', message });
  });

test('a table that the outputs look up in and a call changes is refused', async (t) => {
  const nodes = [
    ...fill(textTensor(['a']), longTensor([1], [1])),
    node('LookupTableInsertV2', 'insert', ['table', 'x', 'found']),
    node('Identity', 'after', ['found', '^insert'], { T: attr.type(DT.int64) }),
  ];
  const model = savedModel({
    graph: graph([X, TABLE, ...FIND, ...nodes]),
    signatures: { serving_default: { inputs: { x: 'x:0' }, outputs: { y: 'after:0' } } },
  });
  const folder = await folderOf(t, { 'saved_model.pb': model });
  await assert.rejects(
    readSavedModel(folder),
    /LookupTableInsertV2 \(node "insert"\): changes a variable at every call/,
  );
});

test('a change that no output reads is left out with a note', async (t) => {
  const nodes = [
    node('VarHandleOp', 'seed', [], {
      dtype: attr.type(DT.int64),
      shape: attr.shape([]),
      shared_name: attr.text('seed'),
    }),
    constant('one', longTensor([], [1]), DT.int64),
    node('AssignAddVariableOp', 'next', ['seed', 'one'], { dtype: attr.type(DT.int64) }),
    node('Identity', 'y', ['x', '^next'], { T: attr.type(DT.string) }),
  ];
  const model = savedModel({
    graph: graph([X, ...nodes]),
    signatures: { serving_default: { inputs: { x: 'x:0' }, outputs: { y: 'y:0' } } },
  });
  const { notes } = await readSavedModel(await folderOf(t, { 'saved_model.pb': model }));
  assert.ok(
    notes.some((note) => /no output reads are left out: next/.test(note)),
    notes.join('\n'),
  );
});
