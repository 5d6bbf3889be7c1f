/** What is said of files that are no model of a kind that is imported: one line, with the command that leads to ONNX. */
import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { importModel } from '../../../onnx-import/import/import.ts';
import { adviceOn } from '../../../onnx-import/source/advice/no-model.ts';
import { detectModel } from '../../../onnx-import/source/detect.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { folderOf } from '../support/folder.ts';

const MOST = 280;

const NAMES: readonly (readonly [names: readonly string[], advice: RegExp])[] = [
  [['net.caffemodel'], /its \*\.prototxt is missing$/],
  [['net.keras'], /keras\.models\.load_model\("net\.keras"\)\.export\("saved"\) makes a SavedModel$/],
  [['net.hdf5'], /is a Keras file/],
  [
    ['model.weights.h5'],
    /holds weights of Keras without a graph; .*model\.load_weights\("model\.weights\.h5"\)/,
  ],
  [['config.json', 'tf_model.h5'], /holds weights of Transformers; .*from_tf=True.*`optimum-cli export onnx/],
  [['weights.hdf5'], /holds weights of Keras without a graph/],
  [['gesture.task'], /`unzip gesture\.task -d model`, and convert the \*\.tflite in it by tf2onnx$/],
  [['net.tflite'], /`python -m tf2onnx\.convert --tflite net\.tflite --output model\.onnx`$/],
  [['model.pickle'], /code and is never loaded; in Python: skl2onnx\.to_onnx/],
  [
    ['model.skops'],
    /skl2onnx\.to_onnx\(skops\.io\.load\("model\.skops", trusted=skops\.io\.get_untrusted_types\(file="model\.skops"\)\), X\[:1\]\)/,
  ],
  [
    ['model.cbm'],
    /catboost\.CatBoost\(\)\.load_model\("model\.cbm"\)\.save_model\("model\.onnx", format="onnx"\)$/,
  ],
  [['model.rds'], /xgb\.save\(model, "model\.ubj"\)/],
  [['model.mojo'], /onnxmltools\.convert_h2o\(open\("model\.mojo", "rb"\)\.read\(\)\)$/],
  [['tree.pmml'], /tree\.pmml is PMML/],
  [['net.torchscript'], /rename it to model\.pt$/],
  [['last.ckpt'], /load_from_checkpoint\("last\.ckpt"\)\.to_onnx\(/],
  [
    ['config.json', 'pytorch_model.bin'],
    /pytorch_model\.bin holds weights in a pickle .*`optimum-cli export onnx/,
  ],
  [['pytorch_model-00001-of-00002.bin'], /holds weights in a pickle/],
  [['best.pth.tar'], /torch\.onnx\.export\(model, \(x,\), "model\.onnx"\)$/],
  [['net.mar'], /`unzip net\.mar -d model`/],
  [['asr.nemo'], /nemo\.core\.ModelPT\.restore_from\("asr\.nemo"\)\.export\("model\.onnx"\)$/],
  [['net.pte'], /ExecuTorch; import the model it was made from, after torch\.onnx\.export/],
  [
    ['model.safetensors'],
    /model\.safetensors holds weights without a graph; .*`optimum-cli export onnx --model \. --task TASK onnx\/`/,
  ],
  [['flax_model.msgpack'], /from_flax=True/],
  [['adapter_config.json', 'adapter_model.safetensors'], /merge_and_unload\(\)\.save_pretrained\("merged"\)/],
  [['model_index.json'], /pipeline of Diffusers; `optimum-cli export onnx/],
  [['__0_0.distcp'], /format_utils dcp_to_torch \. model\.pth`/],
  [['export.pkl'], /fastai, which is code; .*load_learner\("export\.pkl"\)\.model\.eval\(\)/],
  [['model.pkl.gz'], /code and is never loaded/],
  [['model.joblib.z'], /code and is never loaded/],
  [['finalized.sav'], /code and is never loaded/],
  [['model.deprecated'], /with xgboost<3\.1: .*\.save_model\("model\.json"\)$/],
  [
    ['init_net.pb', 'predict_net.pb'],
    /`convert-caffe2-to-onnx predict_net\.pb --caffe2-init-net init_net\.pb -o model\.onnx`/,
  ],
  [
    ['deploy_graph.json', 'deploy_lib.so', 'deploy_param.params'],
    /deploy_lib\.so is compiled for one processor/,
  ],
  [['__model__', '__params__'], /paddle2onnx --model_dir \. --model_filename __model__/],
  [['net.dnn'], /cntk\.Function\.load\("net\.dnn"\)/],
  [['spiece.model'], /spiece\.model is a tokenizer; the model itself is not there/],
  [['config.json', 'model.bin', 'shared_vocabulary.json'], /model of CTranslate2, which is not turned back/],
  [['mlc-chat-config.json', 'params_shard_0.bin'], /compiled for MLC/],
  [['model.onnxtxt'], /onnx\.save\(onnx\.load\("model\.onnxtxt"\), "model\.onnx"\)$/],
  [['model.onnx.crdownload'], /a download that did not finish; fetch it again$/],
  [['net.mat'], /from which nothing leads to ONNX; serve it as a worker/],
  [['README.md'], /serve-your-own-code\.md serves a model of another library$/],
  [['q4.gguf'], /llama\.cpp, which is not served/],
  [['net.mlmodel'], /onnxmltools\.convert_coreml\(/],
  [['net.mlpackage'], /compiled for Core ML; import the model it was made from/],
  [
    ['net-symbol.json', 'net-0000.params'],
    /mxnet\.onnx\.export_model\("net-symbol\.json", "net-0000\.params"/,
  ],
  [
    ['inference.pdmodel', 'inference.pdiparams'],
    /`paddle2onnx --model_dir \. --model_filename inference\.pdmodel --params_filename inference\.pdiparams --save_file model\.onnx`$/,
  ],
  [
    ['inference.json', 'inference.pdiparams', 'inference.yml'],
    /--model_filename inference\.json --params_filename inference\.pdiparams/,
  ],
  [['inference.pdiparams'], /its graph, inference\.json or inference\.pdmodel, is missing$/],
  [['net.pdparams'], /layer\.set_state_dict\(paddle\.load\("net\.pdparams"\)\), then paddle\.onnx\.export\(/],
  [['net.ncnn.param', 'net.ncnn.bin'], /net\.ncnn\.param is a model of ncnn/],
  [['net.mnn'], /import the model that its converter read$/],
  [['lid.176.bin'], /fastText, which has no ONNX; serve it as a worker/],
  [['yolov4.weights'], /holds weights of Darknet without a graph; serve them as a worker with cv2/],
  [['net.ort'], /import the \*\.onnx it was made from$/],
  [['net.engine'], /TensorRT; import the ONNX file that trtexec --onnx read$/],
  [['net.plan'], /TensorRT/],
  [['net.rknn'], /Rockchip; import the ONNX file that rknn\.load_onnx read$/],
  [['net.dlc'], /Qualcomm; import the ONNX file/],
  [['net.om'], /Ascend; import the ONNX file that atc/],
  [['net.hef'], /Hailo/],
  [['net.kmodel'], /compiled for one device/],
  [['a.tar.gz', 'b.tar.gz'], /is an archive; unpack it, and import the folder$/],
  [['model.zip'], /is an archive/],
  [['model.onnx.gz'], /is an archive/],
  [['weights.npz'], /weights\.npz holds weights without a graph/],
  [['model.bin'], /model\.bin does not say what it is: OpenVINO needs its \*\.xml beside it/],
];

async function refusal(path: string): Promise<string> {
  return detectModel(path).then(
    () => 'not refused',
    (error: Error) => error.message,
  );
}

describe('a folder without a model, but with', () => {
  for (const [names, advice] of NAMES)
    test(names.join(', '), async (t) => {
      const folder = await temporaryFolder(t);
      for (const name of names) await writeFile(join(folder, name), 'x');
      const said = (await refusal(folder)).replace(/^.* holds no model, found [^;]*; /, '');
      assert.match(said, advice);
      assert.ok(said.length <= MOST, `${said.length} characters: ${said}`);
    });

  test('what is a folder itself', async (t) => {
    const folder = await temporaryFolder(t);
    await mkdir(join(folder, 'net.mlpackage', 'Data'), { recursive: true });
    await assert.rejects(detectModel(folder), {
      message: /found no files; net\.mlpackage is compiled for Core ML/,
    });
  });

  test('one below', async (t) => {
    const folder = await folderOf(t, { 'net/1/model.plan': 'x' });
    assert.match(await refusal(folder), /found no files; in net\/1: model\.plan is compiled for one GPU/);
    const spark = await folderOf(t, { 'metadata/part-00000': '{}', 'stages/0_lr/metadata/part-00000': '{}' });
    assert.match(await refusal(spark), /onnxmltools\.convert_sparkml\(/);
    const deep = await folderOf(t, { 'a/b/c/d/e/model.onnx': 'x' });
    assert.match(await refusal(deep), /found no files; .*a\/b\/c\/d\/e holds a model: name that folder$/);
  });

  test('a config.json that names the task of the export', async (t) => {
    const exported = async (architecture: string, more = {}) =>
      refusal(
        await folderOf(t, {
          'config.json': JSON.stringify({ architectures: [architecture] }),
          'model.safetensors': 'x',
          ...more,
        }),
      );
    assert.match(
      await exported('BertForSequenceClassification'),
      /--model \. --task text-classification onnx\//,
    );
    assert.match(await exported('ViTForImageClassification'), /--task image-classification/);
    assert.match(await exported('GPT2LMHeadModel'), /--task text-generation-with-past/);
    assert.match(await exported('BertForMaskedLM', { 'modules.json': '[]' }), /--task feature-extraction/);
    assert.match(await exported('Unheard'), /--task TASK/);
  });

  test('the config.json of timm', async (t) => {
    const folder = await folderOf(t, {
      'config.json': '{\n  "architecture": "resnet18", "num_classes": 10}',
      'pytorch_model.bin': 'x',
    });
    assert.match(await refusal(folder), /timm \(resnet18\); .*timm\.create_model\("local-dir:\."/);
  });

  test('nothing that is known', () => assert.equal(adviceOn(['README.md', 'labels.txt']), undefined));
});

const CONTENTS: readonly (readonly [name: string, content: string, message: RegExp])[] = [
  [
    'model.json',
    '{"format": "graph-model", "modelTopology": {"node": []}, "weightsManifest": []}',
    /model\.json: expected a model of XGBoost, found a graph of TensorFlow\.js; `python -m tf2onnx\.convert --tfjs model\.json --output model\.onnx`$/,
  ],
  [
    'model.json',
    '{"format": "layers-model"}',
    /found a model of TensorFlow\.js; `tensorflowjs_converter --input_format/,
  ],
  ['model.json', '{"modelTopology": {}, "weightsManifest": []}', /found a model of TensorFlow\.js/],
  [
    'model.json',
    '{"features_info": {}, "model_info": {}, "oblivious_trees": []}',
    /found a model of CatBoost; .*load_model\("model\.json", format="json"\)/,
  ],
  [
    'model.json',
    '{"features_info": {}, "oblivious_trees": [], "scale_and_bias": [1, [0]]}',
    /found a model of CatBoost/,
  ],
  ['model.json', '{"name": "tree", "tree_info": []}', /found what dump_model of LightGBM writes/],
  [
    'xgb.json',
    '[{"nodeid": 0}]',
    /xgb\.json: expected a model of XGBoost, found a list, as dump_model of XGBoost/,
  ],
  [
    'model.json',
    '{"base_code": {"magic": "pir"}, "program": {}}',
    /paddle2onnx .*--model_filename model\.json/,
  ],
  ['model.json', '{"nodes": [], "arg_nodes": [], "heads": []}', /found a graph of MXNet/],
  ['model.json', '{"a": 1}', /"learner"/],
  ['model.xml', '<PMML version="4.4"></PMML>', /model\.xml is PMML, from which nothing leads to ONNX/],
];

describe('a file that is named as a model of another kind', () => {
  for (const [name, content, message] of CONTENTS)
    test(`${name} with ${content}`, async (t) => {
      const folder = join(await temporaryFolder(t), 'model');
      await mkdir(folder);
      await writeFile(join(folder, name), content);
      const out = join(folder, '..', 'out');
      await assert.rejects(importModel(folder, { out, version: '1', measure: false }), {
        code: 'bad_model',
        message,
      });
    });
});

const HEADS: readonly (readonly [name: string, head: string, message: RegExp])[] = [
  ['model.onnx', '\x80\x04\x95', /expected a file of ONNX, found a pickle of Python; .*skl2onnx\.to_onnx/],
  [
    'model.onnx',
    '\x89HDF\r\n\x1a\n',
    /found an HDF5 file.*; rename it to model\.h5; model\.h5 is a Keras file/,
  ],
  [
    'model.onnx',
    '\x1c\0\0\0TFL3',
    /rename it to model\.tflite; .*`python -m tf2onnx\.convert --tflite model\.tflite/,
  ],
  ['model.onnx', 'GGUF\x03', /found a GGUF file of llama\.cpp/],
  ['model.onnx', '\x08\0\0\0ORTM', /import the \*\.onnx it was made from$/],
  ['model.onnx', '\x40\0\0\0\0\0\0\0{"w":', /found a file of safetensors/],
  [
    'model.pb',
    '\x08\x08\x12\x07pytorch',
    /found an ONNX model; model\.pb is an ONNX model; rename it to model\.onnx$/,
  ],
  ['model.pt', '\x08\x08\x3a\x07', /rename it to model\.onnx$/],
  [
    'graph.pb',
    '\x08\x01\x12\x07',
    /found a SavedModel; graph\.pb is a SavedModel; rename it to saved_model\.pb$/,
  ],
  ['clf.model', '\x80\x04\x95', /found a pickle of Python/],
  ['svm.model', 'svm_type c_svc', /found a model of LIBSVM; .*serve it as a worker/],
  ['j48.model', '\xac\xed\0\x05', /store a model of BigDL by saveModule/],
  ['xgb.model', 'binf\0\0', /with xgboost<3\.1/],
  ['churn.json', '{"learner":{', /churn\.json is a model of XGBoost; rename it to model\.json$/],
  ['churn.txt', 'tree\nversion=v4', /churn\.txt is a model of LightGBM; rename it to model\.txt$/],
  ['xgb.bin', '{L\0\0\0\0\0\0\0\x07learner', /xgb\.bin is a model of XGBoost; rename it to model\.ubj$/],
  ['dump.json', '[\n  { "nodeid": 0', /dump\.json is a dump of XGBoost/],
  ['model', 'CBM1', /load_model\("model"\)\.save_model\("model\.onnx", format="onnx"\)$/],
];

describe('the first bytes say what a file is', () => {
  for (const [name, head, message] of HEADS)
    test(`${name} with ${JSON.stringify(head)}`, async (t) => {
      const folder = await folderOf(t, { [name]: Buffer.from(head, 'latin1') });
      assert.match(await refusal(folder), message);
    });

  test('trees under another ending are read as what they are', async (t) => {
    const kindOf = async (name: string, head: string) => {
      const folder = await folderOf(t, { [name]: Buffer.from(head, 'latin1') });
      const { kind, files } = await detectModel(folder);
      return [kind, ...files];
    };
    assert.deepEqual(await kindOf('xgboost-model', '{L\0\0'), ['xgboost', 'xgboost-model']);
    assert.deepEqual(await kindOf('churn.model', '{"learner":{}}'), ['xgboost', 'churn.model']);
    assert.deepEqual(await kindOf('churn.model', 'tree\nversion=v4\n'), ['lightgbm', 'churn.model']);
    assert.deepEqual(await kindOf('model.bst', 'tree\r\nversion=v4\r\n'), ['lightgbm', 'model.bst']);
    assert.deepEqual(await kindOf('net.model', '\x0a\x03net'), ['bigdl', 'net.model']);
  });

  test('one file as the argument gets the same advice', async (t) => {
    const folder = await folderOf(t, { 'net.tflite': 'x', 'notes.md': 'x' });
    assert.match(await refusal(join(folder, 'net.tflite')), /tf2onnx\.convert --tflite net\.tflite/);
    assert.match(
      await refusal(join(folder, 'notes.md')),
      /name the file that begins the model, or its directory$/,
    );
  });

  test('a link to nothing is called one', async (t) => {
    const folder = await temporaryFolder(t);
    await symlink('blobs/aa', join(folder, 'model.onnx'));
    assert.match(
      await refusal(folder),
      /it is a link to blobs\/aa, which is not there; put the file itself in its place$/,
    );
  });
});
