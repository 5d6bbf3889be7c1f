/** Files that look like models and are none that can be imported, with what to do about each. */

/** The first that matches counts. */
const ADVICE: readonly (readonly [pattern: RegExp, advice: (file: string) => string])[] = [
  [/\.caffemodel$/i, () => 'a Caffe model is two files, and its *.prototxt is missing'],
  [
    /\.(h5|hdf5|keras)$/i,
    (file) =>
      `${file} is a Keras file; in Python: keras.models.load_model("${file}").export("saved") makes a SavedModel`,
  ],
  [/\.tflite$/i, (file) => `${file} is a TensorFlow Lite model; import the SavedModel it was made from`],
  [
    /\.(pkl|pickle|joblib|dill)$/i,
    (file) =>
      `${file} is a Python object, which is code and is never loaded; in Python: skl2onnx.to_onnx(model, X[:1]) makes an ONNX model of scikit-learn, save_model("model.json") one of XGBoost, booster_.save_model("model.txt") one of LightGBM`,
  ],
  [/\.torchscript$/i, (file) => `${file} is a TorchScript archive of PyTorch; rename it to model.pt`],
  [
    /\.ckpt$/i,
    (file) =>
      `${file} is a checkpoint of PyTorch Lightning, weights without code; in Python: MyModule.load_from_checkpoint("${file}").to_onnx("model.onnx", example_input)`,
  ],
  [
    /\.safetensors$/i,
    (file) =>
      `${file} holds weights without a graph; export the model to ONNX: optimum-cli export onnx --model . onnx/ for one of Hugging Face`,
  ],
  [
    /\.gguf$/i,
    (file) =>
      `${file} is a language model for llama.cpp, which is not served; export the model it was made from to ONNX`,
  ],
  [
    /\.mlmodel$/i,
    (file) =>
      `${file} is a Core ML model; import the model it was made from, or in Python: onnxmltools.convert_coreml(coremltools.utils.load_spec("${file}"))`,
  ],
  [
    /\.params$/i,
    (file) =>
      `${file} holds weights of MXNet; in Python: mxnet.onnx.export_model("model-symbol.json", "${file}", [shape]) makes an ONNX model`,
  ],
  [
    /\.(pdmodel|pdiparams)$/i,
    (file) =>
      `${file} is a model of PaddlePaddle; paddle2onnx --model_dir . --model_filename model.pdmodel --params_filename model.pdiparams --save_file model.onnx`,
  ],
];

/** What to do about the first of these files that is known; undefined when none is. */
export function adviceOn(names: readonly string[]): string | undefined {
  for (const [pattern, advice] of ADVICE) {
    const file = names.find((name) => pattern.test(name));
    if (file !== undefined) return advice(file);
  }
  return undefined;
}
