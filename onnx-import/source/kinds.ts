/** The kinds of models and the layout of their directories. */

export type ModelKind =
  | 'onnx'
  | 'hugging_face'
  | 'tf_saved_model'
  | 'tf_frozen'
  | 'tf_checkpoint'
  | 'caffe'
  | 'pytorch'
  | 'openvino'
  | 'bigdl'
  | 'xgboost'
  | 'lightgbm';

/** Kinds whose file is ONNX already. */
export function isOnnx(kind: ModelKind): boolean {
  return kind === 'onnx' || kind === 'hugging_face';
}

interface KindFacts {
  readonly title: string;
  /** The files that make up a model. */
  readonly layout: string;
}

export const KINDS: Readonly<Record<ModelKind, KindFacts>> = {
  onnx: { title: 'ONNX', layout: '*.onnx' },
  hugging_face: {
    title: 'Hugging Face',
    layout: 'model.onnx or onnx/model.onnx, with tokenizer.json and config.json',
  },
  tf_saved_model: {
    title: 'TensorFlow SavedModel',
    layout: 'saved_model.pb or saved_model.pbtxt, with variables/',
  },
  tf_frozen: {
    title: 'TensorFlow frozen graph',
    layout: 'frozen_inference_graph.pb, with graph_meta.json',
  },
  tf_checkpoint: { title: 'TensorFlow checkpoint', layout: '*.meta, *.index and *.data-*' },
  caffe: { title: 'Caffe', layout: '*.prototxt, with *.caffemodel' },
  xgboost: { title: 'XGBoost', layout: 'model.json or *.ubj' },
  lightgbm: { title: 'LightGBM', layout: 'model.txt' },
  pytorch: {
    title: 'PyTorch',
    layout: '*.pt, *.pth, *.ptl or *.jit',
  },
  openvino: { title: 'OpenVINO IR', layout: '*.xml, with *.bin' },
  bigdl: { title: 'BigDL', layout: '*.model or *.bigdl, with *.bin' },
};
