/** What is said of files that are no model of a kind that is imported: one line, with the command that leads to ONNX. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { importModel } from '../../../onnx-import/import/import.ts';
import { detectModel } from '../../../onnx-import/source/detect.ts';
import { adviceOn } from '../../../onnx-import/source/no-model.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MOST = 280;

const NAMES: readonly (readonly [names: readonly string[], advice: RegExp])[] = [
  [['net.caffemodel'], /its \*\.prototxt is missing$/],
  [['net.keras'], /keras\.models\.load_model\("net\.keras"\)\.export\("saved"\) makes a SavedModel$/],
  [['net.hdf5'], /is a Keras file/],
  [
    ['model.weights.h5'],
    /holds weights of Keras without a graph; .*model\.load_weights\("model\.weights\.h5"\)/,
  ],
  [['tf_model.h5'], /holds weights of Keras without a graph/],
  [['net.tflite'], /`python -m tf2onnx\.convert --tflite net\.tflite --output model\.onnx`$/],
  [['model.pickle'], /code and is never loaded; in Python: skl2onnx\.to_onnx/],
  [['model.skops'], /skl2onnx\.to_onnx\(skops\.io\.load\("model\.skops"\), X\[:1\]\)/],
  [
    ['model.cbm'],
    /catboost\.CatBoost\(\)\.load_model\("model\.cbm"\)\.save_model\("model\.onnx", format="onnx"\)$/,
  ],
  [
    ['model.bst'],
    /rename it to model\.json or model\.ubj \(XGBoost, save_model\) or to model\.txt \(LightGBM\)$/,
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
    /model\.safetensors holds weights without a graph; .*`optimum-cli export onnx --model \. onnx\/`/,
  ],
  [['flax_model.msgpack'], /without a graph/],
  [['q4.gguf'], /llama\.cpp, which is not served/],
  [['net.mlmodel'], /onnxmltools\.convert_coreml\(/],
  [['net.mlpackage'], /compiled for Core ML; import the model it was made from/],
  [['net-symbol.json', 'net-0000.params'], /mxnet\.onnx\.export_model\(/],
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
  [['yolov4.weights'], /holds weights of Darknet without a graph/],
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

describe('a folder without a model, but with', () => {
  for (const [names, advice] of NAMES)
    test(names.join(', '), async (t) => {
      const folder = await temporaryFolder(t);
      for (const name of names) await writeFile(join(folder, name), 'x');
      const said = adviceOn(names.toSorted()) ?? '';
      assert.match(said, advice);
      assert.ok(said.length <= MOST, `${said.length} characters: ${said}`);
      await assert.rejects(detectModel(folder), (error: Error) => error.message.endsWith(said));
    });

  test('what is a folder itself', async (t) => {
    const folder = await temporaryFolder(t);
    await mkdir(join(folder, 'net.mlpackage', 'Data'), { recursive: true });
    await assert.rejects(detectModel(folder), {
      message: /found no files; net\.mlpackage is compiled for Core ML/,
    });
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
