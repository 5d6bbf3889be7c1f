/** What to do about files of other frameworks, of devices, and about what hides a model or holds none. */
import { type AdviceTable, compiled, OPTIMUM, weights } from './builders.ts';
import { mxnet, paddle } from './converters.ts';

/** The first that matches counts. */
export const OTHERS: AdviceTable = [
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
  [/\.so$/i, compiled('one processor by TVM or another compiler', 'the model that it read')],
  [/\.params$/i, mxnet],
  [
    /^__model__$/,
    () =>
      'this is a model of PaddlePaddle 1; `paddle2onnx --model_dir . --model_filename __model__ --params_filename __params__ --save_file model.onnx`',
  ],
  [
    /\.(dnn|cntk)$/i,
    (file) =>
      `${file} is a model of CNTK, whose package no newer Python than 3.6 installs; there, which was not tried: cntk.Function.load("${file}").save("model.onnx", format=cntk.ModelFormat.ONNX)`,
  ],
  [
    /^predict_net\.pb$/i,
    (file) =>
      `${file} is a net of Caffe2; \`convert-caffe2-to-onnx ${file} --caffe2-init-net init_net.pb -o model.onnx\` of PyTorch 1`,
  ],
  [
    /^(TransformerChain|TrainingInfo)$/,
    () => 'this is a model of ML.NET; in C#: mlContext.Model.ConvertToOnnx(model, data, stream)',
  ],
  [
    /^model\.ini$/,
    () => 'this is a model of H2O; in Python: onnxmltools.convert_h2o of its zip archive, the MOJO',
  ],
  [
    /^stages$/,
    () =>
      'this is a pipeline of Spark; in Python: onnxmltools.convert_sparkml(PipelineModel.load(path), "model", initial_types) makes an ONNX model',
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
    /\.(mnn|tnnproto|tnnmodel|tmfile|nnef)$/i,
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
      'serve them as a worker with cv2.dnn.readNetFromDarknet (docs/how-to/serve-your-own-code.md), or import an ONNX export of the same net',
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
    /\.(nb|axmodel|bmodel|kmodel|xmodel|blob|vmfb|neff|neuron)$/i,
    compiled('one device', 'the model that its compiler read'),
  ],

  // What holds no model, or hides one.
  [
    /\.(onnxtxt|onnxtext|textproto|onnxjson|onnx\.json)$/i,
    (file) => `${file} is ONNX as text; in Python: onnx.save(onnx.load("${file}"), "model.onnx")`,
  ],
  [
    /\.(part|partial|crdownload|download|incomplete|aria2)$/i,
    (file) => `${file} is a download that did not finish; fetch it again`,
  ],
  [
    /^(spiece|tokenizer|sentencepiece.*|source|target)\.model$/i,
    (file) => `${file} is a tokenizer; the model itself is not there, ${OPTIMUM} writes one of Hugging Face`,
  ],
  [
    /^(shared_vocabulary|vocabulary)\.(json|txt)$/i,
    () =>
      'this is a model of CTranslate2, which is not turned back; export the model that it was converted from: `optimum-cli export onnx --model NAME onnx/`',
  ],
  [
    /^(mlc-chat-config|ndarray-cache|tensor-cache)\.json$/i,
    compiled('MLC', 'the model that it was made from, after `optimum-cli export onnx --model NAME onnx/`'),
  ],
  [
    /\.(zip|tar|tgz|7z|rar)$|\.(tar|onnx|pt|pb|json)\.(gz|bz2|xz|zst)$/i,
    (file) => `${file} is an archive; unpack it, and import the folder`,
  ],
  [/\.(npz|npy)$/i, weights('', 'export the model to ONNX with the framework that trained it')],
];

/** Where the content of such a file says nothing either. */
export const UNKNOWN: AdviceTable = [
  [
    /\.bin$/i,
    (file) =>
      `${file} does not say what it is: OpenVINO needs its *.xml beside it, ONNX its *.onnx; of Hugging Face ${OPTIMUM} makes ONNX, and of XGBoost xgboost.Booster(model_file="${file}").save_model("model.json") in Python`,
  ],
  [
    /\.ser$/i,
    (file) =>
      `${file} is an object of Java's serialization; store a model of BigDL by saveModule, and serve one of another library as a worker (docs/how-to/serve-your-own-code.md)`,
  ],
  [
    /\.(libsvm|vw|mat|bson|jld2|pfa|crfsuite|kv|mdl|dat)$/i,
    (file) =>
      `${file} is of a library from which nothing leads to ONNX; serve it as a worker (docs/how-to/serve-your-own-code.md)`,
  ],
];
