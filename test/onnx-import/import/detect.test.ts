/** Which model a directory holds, by the layouts the contract names, and what is said when it holds none, or two. */
import assert from 'node:assert/strict';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { detectModel, needsImport } from '../../../onnx-import/source/detect.ts';
import { temporaryFolder } from '../../support/runner.ts';

/** A directory with these files; of names alone, each has four bytes. */
async function directoryOf(
  t: TestContext,
  files: Readonly<Record<string, string | Uint8Array>> | readonly string[],
): Promise<string> {
  const folder = join(await temporaryFolder(t), 'model');
  await mkdir(folder);
  const isNames = (value: typeof files): value is readonly string[] => Array.isArray(value);
  const entries = isNames(files) ? files.map((name) => [name, 'data'] as const) : Object.entries(files);
  for (const [name, content] of entries) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

const LAYOUTS: readonly (readonly [kind: string, files: readonly string[], parts: readonly string[]])[] = [
  ['onnx', ['model.onnx', 'weights.bin', 'readme.txt'], ['model.onnx']],
  ['onnx', ['m.ONNX'], ['m.ONNX']],
  // A tokenizer beside an ONNX model is no second model.
  ['onnx', ['model.onnx', 'tokenizer.model', 'test.pb'], ['model.onnx']],
  [
    'tf_saved_model',
    [
      'saved_model.pb',
      'keras_metadata.pb',
      'variables/variables.index',
      'variables/variables.data-00000-of-00001',
      'assets/vocab.txt',
    ],
    [
      'assets/vocab.txt',
      'saved_model.pb',
      'variables/variables.data-00000-of-00001',
      'variables/variables.index',
    ],
  ],
  ['xgboost', ['model.json', 'labels.txt', 'config.json'], ['model.json']],
  ['xgboost', ['my_xgb.json'], ['my_xgb.json']],
  ['lightgbm', ['model.txt', 'labels.txt'], ['model.txt']],
  ['tf_saved_model', ['saved_model.pbtxt'], ['saved_model.pbtxt']],
  ['tf_saved_model', ['saved_model.pb', 'saved_model.pbtxt'], ['saved_model.pb']],
  [
    'tf_frozen',
    ['frozen_inference_graph.pb', 'graph_meta.json'],
    ['frozen_inference_graph.pb', 'graph_meta.json'],
  ],
  ['tf_frozen', ['frozen_graph.pb'], ['frozen_graph.pb']],
  ['tf_frozen', ['inception.pb', 'labels.txt'], ['inception.pb']],
  [
    'tf_checkpoint',
    ['checkpoint', 'm.meta', 'm.index', 'm.data-00000-of-00001', 'graph.pbtxt'],
    ['checkpoint', 'm.data-00000-of-00001', 'm.index', 'm.meta'],
  ],
  [
    'tf_checkpoint',
    ['m-1.meta', 'm-1.index', 'm-2.meta', 'm-2.index'],
    ['m-1.index', 'm-1.meta', 'm-2.index', 'm-2.meta'],
  ],
  ['caffe', ['net.prototxt', 'net.caffemodel'], ['net.caffemodel', 'net.prototxt']],
  ['caffe', ['net.prototxt'], ['net.prototxt']],
  [
    'caffe',
    ['deploy.prototxt', 'solver.prototxt', 'train_val.prototxt', 'x.caffemodel'],
    ['deploy.prototxt', 'x.caffemodel'],
  ],
  ['caffe', ['test.pt', 'x.caffemodel'], ['test.pt', 'x.caffemodel']],
  ['openvino', ['ir.xml', 'ir.bin'], ['ir.bin', 'ir.xml']],
  ['openvino', ['ir.xml', 'other.bin'], ['ir.xml']],
  ['pytorch', ['model.pt'], ['model.pt']],
  ['bigdl', ['net.model', 'net.bin'], ['net.bin', 'net.model']],
  ['bigdl', ['net.bigdl', 'spiece.model'], ['net.bigdl']],
];

describe('a directory', () => {
  for (const [kind, files, parts] of LAYOUTS) {
    test(`with ${files.join(', ')} is ${kind}, and its files are ${parts.join(', ')}`, async (t) => {
      const found = await detectModel(await directoryOf(t, files));
      assert.deepEqual([found.kind, found.files], [kind, parts]);
    });
  }

  test('is looked into through links, and not at its hidden files', async (t) => {
    const folder = await directoryOf(t, ['.hidden.onnx']);
    const elsewhere = await directoryOf(t, ['blob']);
    await symlink(join(elsewhere, 'blob'), join(folder, 'model.onnx'));
    assert.deepEqual((await detectModel(folder)).files, ['model.onnx']);
  });
});

const REFUSED: readonly (readonly [string, Readonly<Record<string, string>>, RegExp])[] = [
  [
    'is empty',
    {},
    /model holds no model, found no files; expected one, such as model\.onnx, .*; docs\/how-to\/import-a-model\.md#prepare-the-directory lists all$/,
  ],
  ['has other files', { 'a.txt': 'x' }, /holds no model, found a\.txt; expected one, such as model\.onnx/],
  [
    'has two ONNX files',
    { 'a.onnx': 'x', 'b.onnx': 'x' },
    /expected one model, found 2: a\.onnx \(ONNX\), b\.onnx/,
  ],
  [
    'has a model twice in two formats',
    { 'a.onnx': 'x', 'frozen_inference_graph.pb': 'x' },
    /found 2: a\.onnx \(ONNX\), frozen_inference_graph\.pb \(TensorFlow frozen graph\); choose one: --file/,
  ],
  [
    'has two frozen graphs',
    { 'frozen_graph.pb': 'x', 'frozen_inference_graph.pb': 'x' },
    /found 2: frozen_graph/,
  ],
  ['has two graphs of any name', { 'a.pb': 'x', 'b.pb': 'x' }, /found 2: a\.pb .*, b\.pb/],
  ['has two nets', { 'a.prototxt': 'x', 'b.prototxt': 'x' }, /found 2: a\.prototxt \(Caffe\), b\.prototxt/],
  [
    'has two weights for one net',
    { 'a.prototxt': 'x', '1.caffemodel': 'x', '2.caffemodel': 'x' },
    /found 2: 1\.caffe/,
  ],
  ['has a pickle', { 'model.pkl': 'x' }, /model\.pkl is a Python object, .* skl2onnx\.to_onnx\(/],
  [
    'has a joblib file',
    { 'model.joblib': 'x' },
    /model\.joblib is a Python object, .* save_model\("model\.json"\)/,
  ],
  ['has a Keras file', { 'net.h5': 'x' }, /net\.h5 is a Keras file; in Python: .*export/],
  [
    'has a web page in place of an OpenVINO xml',
    { 'net.xml': '<!DOCTYPE html><html>404</html>' },
    /expected a file of OpenVINO IR, found a web page/,
  ],
  ['has a TensorFlow Lite file', { 'net.tflite': 'x' }, /net\.tflite is .*; import the SavedModel/],
  ['has a Lightning checkpoint', { 'last.ckpt': 'x' }, /load_from_checkpoint\("last\.ckpt"\)\.to_onnx\(/],
  ['has a file of llama.cpp', { 'q4.gguf': 'x' }, /q4\.gguf is .* llama\.cpp, which is not served/],
  ['has a Core ML file', { 'net.mlmodel': 'x' }, /net\.mlmodel is a Core ML model; import the model/],
  [
    'has files of MXNet',
    { 'net-symbol.json': '{}', 'net-0000.params': 'x' },
    /mxnet\.onnx\.export_model\(.*"net-0000\.params"/,
  ],
  [
    'has files of PaddlePaddle',
    { 'inference.pdmodel': 'x' },
    /inference\.pdmodel is of PaddlePaddle; after pip install paddlepaddle paddle2onnx packaging: `paddle2onnx --model_dir/,
  ],
  ['has weights alone', { 'net.safetensors': 'x' }, /weights without a graph/],
  [
    'has Caffe weights without a net',
    { 'x.caffemodel': 'x' },
    /a Caffe model is two files, and its \*\.prototxt is missing/,
  ],
  ['has an empty model', { 'm.onnx': '' }, /m\.onnx: expected a file of ONNX, found an empty file/],
  [
    'has a web page in place of the model',
    { 'm.onnx': '\n<!DOCTYPE html><html>404</html>' },
    /m\.onnx: expected a file of ONNX, found a web page/,
  ],
  [
    'has a Git LFS pointer in place of the weights',
    { 'm.prototxt': 'x', 'm.caffemodel': 'version https://git-lfs.github.com/spec/v1\noid sha256:1\n' },
    /m\.caffemodel: expected a file of Caffe, found a Git LFS pointer instead of the file; `git lfs pull` fetches it/,
  ],
  [
    'has a Git LFS pointer in place of the variables',
    {
      'saved_model.pb': 'x',
      'variables/variables.data-00000-of-00001': 'version https://git-lfs.github.com/spec/v1\n',
    },
    /variables\.data-00000-of-00001: .* Git LFS pointer/,
  ],
  [
    'has a packed model',
    { 'frozen_graph.pb': '\u001f\u008b\u0008' },
    /found a gzip archive; unpack it first/,
  ],
];

describe('a directory is refused, and told what was found and expected, when it', () => {
  for (const [what, files, message] of REFUSED) {
    test(what, async (t) => {
      const latin1 = Object.entries(files).map(
        ([name, text]) => [name, Buffer.from(text, 'latin1')] as const,
      );
      const folder = await directoryOf(t, Object.fromEntries(latin1));
      await assert.rejects(detectModel(folder), { code: 'bad_model', message });
    });
  }

  test('is not there, or is a file of something else', async (t) => {
    const folder = await directoryOf(t, ['model.onnx']);
    const missing = {
      code: 'bad_model',
      message: /model directory .*nowhere cannot be read: there is no such directory/,
    };
    await assert.rejects(detectModel(join(folder, 'nowhere')), missing);
    await writeFile(join(folder, 'notes.md'), 'x');
    await assert.rejects(detectModel(join(folder, 'notes.md')), {
      code: 'bad_model',
      message: /notes\.md is no file of a model that can be imported; name the file that begins the model/,
    });
  });

  test('or its model may not be read', {
    skip: process.getuid?.() === 0 && 'root may read everything',
  }, async (t) => {
    const folder = await directoryOf(t, ['model.onnx']);
    await chmod(join(folder, 'model.onnx'), 0);
    await assert.rejects(detectModel(folder), {
      code: 'bad_model',
      message: /model\.onnx cannot be read: permission/,
    });
    await chmod(folder, 0);
    await assert.rejects(detectModel(folder), {
      code: 'bad_model',
      message: /cannot be read: permission denied/,
    });
    await chmod(folder, 0o755);
  });
});

test('a directory needs an import when it holds something other than ONNX', async (t) => {
  const needs = async (files: readonly string[]) => needsImport(await directoryOf(t, files));
  assert.equal(await needs(['model.onnx']), false);
  // The import chooses, or says how to.
  assert.equal(await needs(['a.onnx', 'b.onnx']), true);
  assert.equal(await needs([]), false);
  assert.equal(await needsImport('/no/such/directory'), false);
  assert.equal(await needs(['saved_model.pb']), true);
  assert.equal(await needs(['model.onnx', 'model.pt']), true);
  assert.equal(await needs(['readme.txt']), true);
});
