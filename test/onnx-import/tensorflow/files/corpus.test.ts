/** Every TensorFlow model of the shared corpus becomes one graph with the names its manifest gives. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readCheckpoint } from '../../../../onnx-import/formats/tensorflow/files/checkpoint.ts';
import { readFrozenGraph } from '../../../../onnx-import/formats/tensorflow/files/frozen.ts';
import { readSavedModel } from '../../../../onnx-import/formats/tensorflow/files/saved-model.ts';
import { splitTensor, type TfGraph, type TfModel } from '../../../../onnx-import/formats/tensorflow/graph.ts';
import type { ConvertOptions } from '../../../../onnx-import/source/convert-options.ts';
import { sharedPath } from '../../../support/fixtures.ts';

type Read = (directory: string, options: ConvertOptions) => Promise<TfModel>;
const READERS: Readonly<Record<string, Read>> = {
  tf_frozen: readFrozenGraph,
  tf_saved_model: readSavedModel,
  tf_checkpoint: readCheckpoint,
};

interface Named {
  readonly name: string | null;
  readonly dtype?: string;
}

interface Manifest {
  readonly inputs: readonly Named[];
  readonly outputs: readonly Named[];
  readonly feedConst?: Readonly<Record<string, number | boolean>>;
}

/** Models whose files are the matter; all others load. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  counter:
    /no signature "serving_default"; choose one of get_counter, incr_counter, incr_counter_by, reset_counter/,
  rust_regression: /no signature "serving_default"; choose one of b, train, w/,
  tfnet_example1: /variables\.index is missing.*logits\/kernel/s,
};

function sameNames(
  found: readonly { readonly name: string }[],
  wanted: readonly Named[],
  what: string,
): void {
  assert.equal(found.length, wanted.length, what);
  if (wanted.some(({ name }) => name === null)) return;
  const sorted = (list: readonly Named[]): string[] =>
    list.map(({ name }) => String(name)).toSorted((a, b) => (a < b ? -1 : 1));
  assert.deepEqual(sorted(found), sorted(wanted), what);
}

/** Every input of every node is there, and comes before it but in a loop of TensorFlow 1. */
function isWhole(tf: TfGraph): void {
  const seen = new Set(tf.inputs.map(({ tensor }) => splitTensor(tensor).node));
  for (const node of tf.nodes.values()) {
    for (const input of node.inputs) {
      const producer = splitTensor(input).node;
      assert.ok(
        seen.has(producer) || (node.op === 'Merge' && tf.nodes.has(producer)),
        `${node.name} <- ${input}`,
      );
    }
    assert.ok(
      !/Variable|VarHandle|ReadVariableOp|PartitionedCall|^Assign/.test(node.op),
      `${node.op} ${node.name}`,
    );
    seen.add(node.name);
  }
  for (const { tensor } of tf.outputs) assert.ok(seen.has(splitTensor(tensor).node), tensor);
}

for (const [format, read] of Object.entries(READERS)) {
  const folder = sharedPath(`corpus/${format}`);
  const models = existsSync(folder) ? readdirSync(folder) : [];
  test(`the corpus has models of ${format}`, {
    skip: !existsSync(folder) && `needs ../shared/corpus/${format}`,
  }, () => {
    assert.ok(models.length > 0);
  });
  for (const model of models) {
    const directory = join(folder, model);
    const manifest = JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8')) as Manifest;
    const constants = Object.fromEntries(
      Object.entries(manifest.feedConst ?? {}).map(([name, value]) => [name, Number(value)]),
    );
    const refused = REFUSED[model];
    if (refused !== undefined) {
      test(`${format}/${model} is refused, saying why`, async () => {
        await assert.rejects(read(directory, { constants }), { code: 'bad_model', message: refused });
      });
      continue;
    }
    test(`${format}/${model} loads with the names of its manifest`, async () => {
      const { graph: tf, files } = await read(directory, { constants });
      // Manifests without a reference name nothing.
      if (manifest.outputs.length > 0) {
        sameNames(tf.inputs, manifest.inputs, 'inputs');
        sameNames(tf.outputs, manifest.outputs, 'outputs');
      }
      for (const { name, dtype } of manifest.inputs) {
        if (name === null || dtype === undefined) continue;
        assert.equal(tf.inputs.find((input) => input.name === name)?.dtype, dtype, name);
      }
      isWhole(tf);
      for (const file of files) assert.ok(existsSync(join(directory, file)), file);
    });
  }
}

test('signatures of the counter that add or assign are refused, naming the operation; reading it is not', async (t) => {
  const directory = sharedPath('corpus/tf_saved_model/counter');
  if (!existsSync(directory)) {
    t.skip('needs ../shared/corpus/tf_saved_model/counter');
    return;
  }
  for (const [signature, op] of [
    ['incr_counter', 'AssignAdd'],
    ['incr_counter_by', 'AssignAdd'],
    ['reset_counter', 'Assign'],
  ]) {
    const pattern = new RegExp(`${op} \\(node ".*"\\): changes a variable`);
    await assert.rejects(readSavedModel(directory, { signature: signature ?? '' }), {
      code: 'bad_model',
      message: pattern,
    });
  }
  const { graph: tf } = await readSavedModel(directory, { signature: 'get_counter' });
  assert.deepEqual(tf.outputs, [{ name: 'output', tensor: 'counter:0' }]);
});

test('preprocessing is cut off by naming the tensor behind it', async (t) => {
  const directory = sharedPath('corpus/tf_saved_model/sts_deep_image');
  if (!existsSync(directory)) {
    t.skip('needs ../shared/corpus/tf_saved_model/sts_deep_image');
    return;
  }
  const decodes = (tf: TfGraph): boolean => [...tf.nodes.values()].some((node) => node.op === 'DecodeJpeg');
  const whole = await readSavedModel(directory);
  assert.ok(decodes(whole.graph));
  const [first] = [...whole.graph.nodes.values()].filter((node) => node.op === 'Conv2D');
  const cut = await readSavedModel(directory, { inputNames: [first?.inputs[0] ?? ''] });
  assert.ok(!decodes(cut.graph));
  assert.equal(cut.graph.inputs[0]?.dtype, 'float32');
});
