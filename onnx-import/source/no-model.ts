/**
 * Files that look like models and are none that can be imported, with what to do about each: the command of the tool that
 * wrote it, where there is one. Nothing is done for formats from which no tool leads to ONNX but to name the way back.
 */

type Advice = (file: string, names: readonly string[]) => string;

const OPTIMUM = '`optimum-cli export onnx --model . onnx/`';

const weights = (of: string, how: string): Advice => {
  return (file) => `${file} holds weights${of} without a graph; ${how.replaceAll('FILE', file)}`;
};

/** A program for one kind of device, which holds no graph that could be read back. */
const compiled = (what: string, source: string): Advice => {
  return (file) => `${file} is compiled for ${what}; import ${source}`;
};

/** The first that matches counts. */
const ADVICE: readonly (readonly [pattern: RegExp, advice: Advice])[] = [
  [/\.caffemodel$/i, () => 'a Caffe model is two files, and its *.prototxt is missing'],

  // TensorFlow and Keras.
  [
    /(^tf_model|\bweights.*)\.(h5|hdf5)$/i,
    weights(
      ' of Keras',
      'in Python: build the model, then model.load_weights("FILE") and model.export("saved") make a SavedModel',
    ),
  ],
  [
    /\.(h5|hdf5|keras)$/i,
    (file) =>
      `${file} is a Keras file; in Python: keras.models.load_model("${file}").export("saved") makes a SavedModel`,
  ],
  [
    /\.(tflite|lite)$/i,
    (file) =>
      `${file} is a TensorFlow Lite model; import the SavedModel it was made from, or \`python -m tf2onnx.convert --tflite ${file} --output model.onnx\``,
  ],

  // Objects of Python.
  [
    /\.(pkl|pickle|joblib|dill|cloudpickle)$/i,
    (file) =>
      `${file} is a Python object, which is code and is never loaded; in Python: skl2onnx.to_onnx(model, X[:1]) makes an ONNX model of scikit-learn, save_model("model.json") one of XGBoost, booster_.save_model("model.txt") one of LightGBM`,
  ],
  [
    /\.skops$/i,
    (file) =>
      `${file} is a model of scikit-learn; in Python: skl2onnx.to_onnx(skops.io.load("${file}"), X[:1]) makes an ONNX model`,
  ],
  [
    /\.cbm$/i,
    (file) =>
      `${file} is a model of CatBoost; in Python: catboost.CatBoost().load_model("${file}").save_model("model.onnx", format="onnx")`,
  ],
  [
    /\.bst$/i,
    (file) =>
      `${file} is a model of XGBoost or LightGBM; rename it to model.json or model.ubj (XGBoost, save_model) or to model.txt (LightGBM)`,
  ],
  [
    /\.(rds|rdata)$/i,
    (file) =>
      `${file} is an object of R; store the model with the library that trained it: xgb.save(model, "model.ubj") or lgb.save(model, "model.txt")`,
  ],
  [
    /\.mojo$/i,
    (file) => `${file} is a model of H2O; in Python: onnxmltools.convert_h2o(open("${file}", "rb").read())`,
  ],
  [/\.pmml$/i, pmml],

  // PyTorch.
  [/\.torchscript$/i, (file) => `${file} is a TorchScript archive of PyTorch; rename it to model.pt`],
  [
    /\.ckpt$/i,
    (file) =>
      `${file} is a checkpoint of PyTorch Lightning, weights without code; in Python: MyModule.load_from_checkpoint("${file}").to_onnx("model.onnx", example_input)`,
  ],
  [
    /^(pytorch_model|diffusion_pytorch_model|adapter_model)([.-].*)?\.bin$/i,
    weights(' in a pickle', `export the model to ONNX: ${OPTIMUM} for one of Hugging Face`),
  ],
  [
    /\.pth\.tar$/i,
    weights(
      ' in a pickle',
      'in Python: load them into the model, then torch.onnx.export(model, (x,), "model.onnx")',
    ),
  ],
  [
    /\.mar$/i,
    (file) =>
      `${file} is an archive of TorchServe; \`unzip ${file} -d model\`, and import the folder if its model is TorchScript or ONNX`,
  ],
  [
    /\.nemo$/i,
    (file) =>
      `${file} is a model of NeMo; in Python: nemo.core.ModelPT.restore_from("${file}").export("model.onnx")`,
  ],
  [
    /\.pte$/i,
    compiled(
      'ExecuTorch',
      'the model it was made from, after torch.onnx.export(model, (x,), "model.onnx") in Python',
    ),
  ],
  [
    /\.(safetensors|msgpack|ot)$/i,
    weights('', `export the model to ONNX: ${OPTIMUM} for one of Hugging Face`),
  ],
  [
    /\.(gguf|ggml|llamafile)$/i,
    (file) =>
      `${file} is a language model for llama.cpp, which is not served; export the model it was made from to ONNX`,
  ],

  // Other frameworks.
  [
    /\.mlmodel$/i,
    (file) =>
      `${file} is a Core ML model; import the model it was made from, or in Python: onnxmltools.convert_coreml(coremltools.utils.load_spec("${file}"))`,
  ],
  [
    /\.(mlpackage|mlmodelc)$/i,
    compiled('Core ML', 'the model it was made from: coremltools converts to Core ML alone'),
  ],
  [
    /\.params$/i,
    (file) =>
      `${file} holds weights of MXNet; in Python: mxnet.onnx.export_model("model-symbol.json", "${file}", [shape]) makes an ONNX model`,
  ],
  [/\.(pdmodel|pdiparams)$/i, paddle],
  [
    /\.pdparams$/i,
    weights(
      ' of PaddlePaddle',
      'in Python: layer.set_state_dict(paddle.load("FILE")), then paddle.onnx.export(layer, "model", input_spec=[...])',
    ),
  ],
  [
    /\.(ncnn\.)?param$/i,
    (file) =>
      `${file} is a model of ncnn, from which nothing leads to ONNX; import the TorchScript or ONNX file it was made from`,
  ],
  [
    /\.(mnn|tnnproto|tnnmodel|tmfile)$/i,
    (file) =>
      `${file} is a model of a runtime for phones, from which nothing leads to ONNX; import the model that its converter read`,
  ],
  [
    /\.ftz$|^lid\.\d+\.bin$|^cc\.\w+\.\d+\.bin$/i,
    (file) =>
      `${file} is a model of fastText, which has no ONNX; serve it as a worker (docs/how-to/serve-your-own-code.md)`,
  ],
  [
    /\.weights$/i,
    weights(
      ' of Darknet',
      'export the model to ONNX with the framework that trains it: `yolo export model=best.pt format=onnx` for Ultralytics',
    ),
  ],

  // Compiled.
  [
    /\.ort$/i,
    (file) =>
      `${file} is in onnxruntime's own format, which is not turned back; import the *.onnx it was made from`,
  ],
  [/\.(engine|plan|trt|uff)$/i, compiled('one GPU by TensorRT', 'the ONNX file that trtexec --onnx read')],
  [/\.rknn$/i, compiled('a chip of Rockchip', 'the ONNX file that rknn.load_onnx read')],
  [/\.dlc$/i, compiled('a chip of Qualcomm', 'the ONNX file that qairt-converter or snpe-onnx-to-dlc read')],
  [/\.om$/i, compiled('a chip of Ascend', 'the ONNX file that atc --framework=5 --model read')],
  [/\.(hef|har)$/i, compiled('a chip of Hailo', 'the ONNX file that hailo parser onnx read')],
  [
    /\.(nb|axmodel|bmodel|kmodel|xmodel|blob|vmfb|neff)$/i,
    compiled('one device', 'the model that its compiler read'),
  ],

  // What holds no model, or hides one.
  [
    /\.(zip|tar|tgz|7z|rar)$|\.(tar|onnx|pt|pb|json)\.(gz|bz2|xz|zst)$/i,
    (file) => `${file} is an archive; unpack it, and import the folder`,
  ],
  [/\.(npz|npy)$/i, weights('', 'export the model to ONNX with the framework that trained it')],
  [
    /\.bin$/i,
    (file) =>
      `${file} does not say what it is: OpenVINO needs its *.xml beside it, ONNX its *.onnx; of Hugging Face ${OPTIMUM} makes ONNX, and of XGBoost xgboost.Booster(model_file="${file}").save_model("model.json") in Python`,
  ],
];

/** What to do about the first of these files that is known; undefined when none is. */
export function adviceOn(names: readonly string[]): string | undefined {
  for (const [pattern, advice] of ADVICE) {
    const file = names.find((name) => pattern.test(name));
    if (file !== undefined) return advice(file, names);
  }
  return undefined;
}

export function pmml(file: string): string {
  return `${file} is PMML, from which nothing leads to ONNX; export the model it was made from, as skl2onnx.to_onnx(model, X[:1]) for scikit-learn`;
}

/** PaddlePaddle 2 keeps its graph in *.pdmodel, 3 in a *.json of that name. */
function paddle(file: string, names: readonly string[]): string {
  const stem = file.replace(/\.\w+$/, '');
  const graph = [`${stem}.pdmodel`, `${stem}.json`].find((name) => names.includes(name));
  if (graph === undefined)
    return `${file} holds weights of PaddlePaddle; its graph, ${stem}.json or ${stem}.pdmodel, is missing`;
  return `${file} is of PaddlePaddle; \`${paddle2onnx(graph)}\``;
}

function paddle2onnx(graph: string): string {
  const params = graph.replace(/\.\w+$/, '.pdiparams');
  return `paddle2onnx --model_dir . --model_filename ${graph} --params_filename ${params} --save_file model.onnx`;
}

/** What a JSON document is that is no model of XGBoost; undefined when it is not known. */
export function adviceOnJson(file: string, document: unknown): string | undefined {
  // A list of numbers is read when it is asked for.
  if (typeof document === 'function' || Array.isArray(document))
    return 'a list, as dump_model of XGBoost writes it; in Python: booster.save_model("model.json")';
  if (typeof document !== 'object' || document === null) return undefined;
  const has = (...keys: readonly string[]) => keys.some((key) => Object.hasOwn(document, key));
  const { format } = document as { readonly format?: unknown };
  if (format === 'graph-model')
    return `a graph of TensorFlow.js; \`python -m tf2onnx.convert --tfjs ${file} --output model.onnx\``;
  if (format === 'layers-model' || has('modelTopology', 'weightsManifest'))
    return `a model of TensorFlow.js; \`tensorflowjs_converter --input_format=tfjs_layers_model --output_format=keras_saved_model ${file} saved\` makes a SavedModel`;
  if (has('oblivious_trees', 'features_info'))
    return `a model of CatBoost; in Python: catboost.CatBoost().load_model("${file}", format="json").save_model("model.onnx", format="onnx")`;
  if (has('tree_info'))
    return 'what dump_model of LightGBM writes; in Python: booster.save_model("model.txt")';
  if (has('base_code', 'program')) return `a graph of PaddlePaddle; \`${paddle2onnx(file)}\``;
  if (has('nodes', 'arg_nodes', 'heads'))
    return 'a graph of MXNet; in Python: mxnet.onnx.export_model("model-symbol.json", "model-0000.params", [shape]) makes an ONNX model';
  return undefined;
}
