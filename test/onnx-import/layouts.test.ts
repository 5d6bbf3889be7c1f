/** The folders that people have: of hubs, of other servers, with variants, and single files. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { detectModel, needsImport } from '../../onnx-import/source/detect.ts';
import { modelOnTheWay } from '../../release/cache.ts';
import { importModel } from '../../release/import.ts';
import { parseConfig } from '../support/config.ts';
import { models } from '../support/models.ts';
import { identityModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { folderOf } from './support/folder.ts';

const MODEL = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 'features'] }]);

/** Which file of a folder with these is the model. */
async function found(t: TestContext, names: readonly string[], choice = {}) {
  const folder = await folderOf(t, Object.fromEntries(names.map((name) => [name, MODEL])));
  const { directory, files, notes = [] } = await detectModel(folder, choice);
  return { file: join(directory, files[0] as string).slice(folder.length + 1), note: notes.join('; ') };
}

test('the plain model is taken, and a flag takes a variant', async (t) => {
  const names = ['onnx/model.onnx', 'onnx/model_quantized.onnx', 'onnx/model_fp16.onnx', 'config.json'];
  const plain = await found(t, names);
  assert.equal(plain.file, 'onnx/model.onnx');
  assert.match(
    plain.note,
    /model\.onnx was taken, the plain one; --variant or --file chooses another: model_fp16\.onnx, model_quantized\.onnx/,
  );
  assert.equal((await found(t, names, { variant: 'quantized' })).file, 'onnx/model_quantized.onnx');
  assert.equal((await found(t, names, { file: 'model_fp16.onnx' })).file, 'onnx/model_fp16.onnx');
  await assert.rejects(
    found(t, names, { variant: 'O9' }),
    /--variant O9: expected one model whose name ends in _O9; found /,
  );
  assert.equal((await found(t, ['best.onnx', 'best.pt'], { file: 'best.onnx' })).file, 'best.onnx');
  await assert.rejects(
    found(t, ['best.onnx', 'best.pt']),
    /found 2: best\.onnx \(ONNX\), best\.pt \(PyTorch\); choose one: --file best\.onnx/,
  );
  await assert.rejects(found(t, ['decoder.onnx', 'encoder.onnx']), /choose one: --file decoder\.onnx/);
  await assert.rejects(
    found(t, ['a.onnx'], { file: 'b.onnx' }),
    /--file b\.onnx: there is no such model; found a\.onnx/,
  );
});

test('a folder may hold its model further down, and versions have numbers', async (t) => {
  assert.equal((await found(t, ['models/net/1/model.onnx'])).file, 'models/net/1/model.onnx');
  const versions = await found(t, ['2/saved_model.pb', '10/saved_model.pb', '9/saved_model.pb']);
  assert.equal(versions.file, '10/saved_model.pb');
  assert.match(versions.note, /version 10 was taken, the highest of 10, 9, 2/);
  await assert.rejects(
    found(t, ['a/model.onnx', 'b/model.onnx']),
    /found models in a, b; name one of these: .*a$/,
  );
  const folder = await folderOf(t, { 'a.onnx': MODEL, 'b.onnx': MODEL });
  const single = await detectModel(join(folder, 'b.onnx'));
  assert.deepEqual([single.home, single.files], [folder, ['b.onnx']]);
  assert.equal(await needsImport(join(folder, 'b.onnx')), true);
});

test("SageMaker's model.tar.gz is unpacked, as a file and alone in a folder, and errors name the archive", async (t) => {
  const from = await folderOf(t, {
    'net/1/model.onnx': MODEL,
    'net/1/labels.txt': 'a\nb\nc\n',
    'code/inference.py': 'print()',
  });
  const folder = await temporaryFolder(t);
  const archive = join(folder, 'model.tar.gz');
  execFileSync('tar', ['-czf', archive, '-C', from, '.']);
  for (const place of [archive, folder]) {
    const { files, notes = [] } = await detectModel(place);
    assert.deepEqual(files, ['model.onnx']);
    assert.match(notes.join('; '), /model\.tar\.gz was unpacked, 3 files; code\/ of the archive is not run/);
    assert.equal(await needsImport(place), true);
  }
  const out = join(folder, 'out');
  const { importReport } = await importModel(archive, { out, version: '1', process: models, measure: false });
  assert.equal(importReport.source.files[0]?.path, 'model.onnx');
  await writeFile(join(from, 'net/1/other.onnx'), MODEL);
  execFileSync('tar', ['-czf', archive, '-C', from, '.']);
  await assert.rejects(detectModel(archive), (error: Error) => {
    assert.ok(error.message.includes(`${archive}/net/1`), error.message);
    assert.doesNotMatch(error.message, /unpacked-model-/);
    return true;
  });
});

const CONFIG = `
name: "net"  # of Triton
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "x_out" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
parameters { key: "a" value: { string_value: "b" } }
dynamic_batching { }
`;

async function triton(t: TestContext, config = CONFIG, files: object = {}) {
  const model = { '1/model.onnx': MODEL, '3/model.onnx': MODEL, '2/model.onnx': MODEL };
  return folderOf(t, { 'config.pbtxt': config, 'labels.txt': 'a\nb\nc\n', ...model, ...files });
}

async function imported(t: TestContext, directory: string) {
  const out = join(await temporaryFolder(t), 'out');
  return (await importModel(directory, { out, version: '1', measure: false, process: models })).importReport;
}

test('a repository of Triton gives its version, sizes, labels and limit', async (t) => {
  const report = await imported(t, await triton(t));
  const notes = report.notes.join('\n');
  assert.match(notes, /config\.pbtxt: version 3 was taken, 3\/model\.onnx/);
  assert.match(notes, /label_filename of config\.pbtxt/);
  assert.deepEqual(report.config, ['batchSize: 8']);
  const chosen = CONFIG.replace(
    'max_batch_size: 8',
    'max_batch_size: 8 version_policy: { specific: { versions: [1, 2] } }',
  );
  assert.match((await imported(t, await triton(t, chosen))).notes.join(), /version 2 was taken/);
});

test('what Triton says otherwise than the model, and other platforms, are refused', async (t) => {
  const refused = async (change: (config: string) => string) =>
    imported(t, await triton(t, change(CONFIG))).then(
      () => 'not refused',
      (error: Error) => error.message,
    );
  assert.match(
    await refused((config) => config.replace('name: "x" ', 'name: "y" ')),
    /the model has no input "y"; it has x/,
  );
  assert.match(
    await refused((config) => config.replace('x_out', 'z')),
    /the model has no output "z"; it has x_out/,
  );
  const fixed = (config: string) =>
    config.replace('dims: [ 3 ] } ]', 'dims: [ 3, 4 ] } ]').replace(/output .*\n/, '');
  assert.match(
    await refused(fixed),
    /input "x" has the dims \[3,4\] behind the batch, and the model \[N,features\]/,
  );
  assert.match(
    await refused((config) => config.replace('onnxruntime_onnx', 'tensorrt_plan')),
    /"tensorrt_plan" is not onnxruntime_onnx; a plan belongs to one kind of GPU/,
  );
  assert.match(
    await refused((config) => config.replace('labels.txt', 'none.txt')),
    /label_filename none\.txt: there is no such file/,
  );
  assert.match(
    await refused((config) => `${config} default_model_filename: "other.onnx"`),
    /other\.onnx: there is no such file, which config\.pbtxt names/,
  );
});

const REPORTED = fileURLToPath(
  new URL('../../../shared/corpus/reported/folders/triton_repository', import.meta.url),
);
const skip = existsSync(REPORTED) ? false : 'needs ../shared/corpus/reported';
test('the reported repository starts as it is, and a choice is kept apart in the cache', {
  skip,
}, async (t) => {
  const cacheDir = await temporaryFolder(t);
  const start = (directory: string, config: string) =>
    modelOnTheWay(directory, { job: parseConfig(config, 'test'), cacheDir, version: '1', process: models });
  const { notes } = await start(REPORTED, 'jobName: a');
  assert.match(notes.join('\n'), /version 1 was taken, 1\/model\.onnx/);
  const folder = await folderOf(t, { 'm.onnx': MODEL, 'm_int8.onnx': MODEL });
  const [plain, variant] = [
    await start(folder, 'jobName: a'),
    await start(folder, 'import: {variant: int8}'),
  ];
  assert.notEqual(plain.directory, variant.directory);
  assert.match(
    plain.notes.join(),
    /m\.onnx was taken, the plain one; import\.variant in config\.yaml or import\.file in config\.yaml chooses another/,
  );
});
