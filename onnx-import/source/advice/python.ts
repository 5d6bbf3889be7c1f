/** What to do about files that the frameworks of Python write, other than those that are imported. */
import { type AdviceTable, compiled, OPTIMUM, weights } from './builders.ts';
import { pmml } from './converters.ts';

/** The first that matches counts. */
export const PYTHON: AdviceTable = [
  [/\.caffemodel$/i, () => 'a Caffe model is two files, and its *.prototxt is missing'],

  // TensorFlow and Keras.
  [
    /^(tf_model\.h5|flax_model\.msgpack)$/i,
    (file) =>
      `${file} holds weights of Transformers; in Python, with the class that config.json names: Class.from_pretrained(".", from_${file.startsWith('tf') ? 'tf' : 'flax'}=True).save_pretrained("."), then ${OPTIMUM}`,
  ],
  [
    /\bweights.*\.(h5|hdf5)$/i,
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

  [
    /\.task$/i,
    (file) =>
      `${file} is a bundle of MediaPipe; \`unzip ${file} -d model\`, and convert the *.tflite in it by tf2onnx`,
  ],

  // Objects of Python.
  [
    /^export\.pkl$/i,
    (file) =>
      `${file} is a learner of fastai, which is code; in Python: torch.onnx.export(load_learner("${file}").model.eval(), (x,), "model.onnx")`,
  ],
  [
    /\.(pkl|pickle|joblib|dill|cloudpickle|sav|p)(\.(gz|z|bz2|xz|lzma|zst))?$/i,
    (file) =>
      `${file} is a Python object, which is code and is never loaded; in Python: skl2onnx.to_onnx(model, X[:1]) makes an ONNX model of scikit-learn, save_model("model.json") one of XGBoost, booster_.save_model("model.txt") one of LightGBM`,
  ],
  [
    /\.skops$/i,
    (file) =>
      `${file} is a model of scikit-learn; in Python: skl2onnx.to_onnx(skops.io.load("${file}", trusted=skops.io.get_untrusted_types(file="${file}")), X[:1]) makes an ONNX model, after a look at these types`,
  ],
  [
    /\.cbm$/i,
    (file) =>
      `${file} is a model of CatBoost; in Python: catboost.CatBoost().load_model("${file}").save_model("model.onnx", format="onnx")`,
  ],
  [
    /\.deprecated$/i,
    (file) =>
      `${file} is of XGBoost's old binary format; in Python, with xgboost<3.1: xgboost.Booster(model_file="${file}").save_model("model.json")`,
  ],
  [
    /\.xgbdump$/i,
    (file) =>
      `${file} is a dump of XGBoost for people to read; in Python: booster.save_model("model.json") stores the model`,
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

  [
    /^model_index\.json$/i,
    () =>
      `this is a pipeline of Diffusers; ${OPTIMUM.replace('TASK', 'text-to-image')} makes an ONNX model of each part, to be imported one by one`,
  ],
  [
    /^adapter_(config\.json|model\.(safetensors|bin))$/i,
    (file) =>
      `${file} belongs to an adapter (PEFT) without its base; in Python: peft.AutoPeftModel.from_pretrained(".").merge_and_unload().save_pretrained("merged"), then \`optimum-cli export onnx --model merged --task TASK onnx/\``,
  ],
  [
    /\.distcp$/i,
    () =>
      'these are shards of torch.distributed; `python -m torch.distributed.checkpoint.format_utils dcp_to_torch . model.pth` joins them, then load them into the model and torch.onnx.export(model, (x,), "model.onnx")',
  ],

  // PyTorch.
  [/\.torchscript$/i, (file) => `${file} is a TorchScript archive of PyTorch; rename it to model.pt`],
  [
    /\.ckpt$/i,
    (file) =>
      `${file} is a checkpoint of PyTorch Lightning, weights without code; in Python: MyModule.load_from_checkpoint("${file}").to_onnx("model.onnx", example_input)`,
  ],
  [
    /^(pytorch_model|diffusion_pytorch_model)([.-].*)?\.bin$/i,
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
    weights(
      '',
      `export the model to ONNX: ${OPTIMUM} for one of Hugging Face, torch.onnx.export(model, (x,), "model.onnx") in Python for another`,
    ),
  ],
  [
    /\.(gguf|ggml|llamafile)$/i,
    (file) =>
      `${file} is a language model for llama.cpp, which is not served; export the model it was made from to ONNX`,
  ],
];
