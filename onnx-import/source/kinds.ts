/** The kinds of models. */

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
}

export const KINDS: Readonly<Record<ModelKind, KindFacts>> = {
  onnx: { title: 'ONNX' },
  hugging_face: { title: 'Hugging Face' },
  tf_saved_model: { title: 'TensorFlow SavedModel' },
  tf_frozen: { title: 'TensorFlow frozen graph' },
  tf_checkpoint: { title: 'TensorFlow checkpoint' },
  caffe: { title: 'Caffe' },
  xgboost: { title: 'XGBoost' },
  lightgbm: { title: 'LightGBM' },
  pytorch: { title: 'PyTorch' },
  openvino: { title: 'OpenVINO IR' },
  bigdl: { title: 'BigDL' },
};
