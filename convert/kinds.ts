/**
 * The kinds of models, the layout of their directories and, for kinds that are detected but not imported,
 * instructions for converting them to ONNX.
 */

export type ModelKind =
  | 'onnx'
  | 'tf_saved_model'
  | 'tf_frozen'
  | 'tf_checkpoint'
  | 'caffe'
  | 'pytorch'
  | 'openvino'
  | 'bigdl';

interface KindFacts {
  readonly title: string;
  /** The files that make up a model. */
  readonly layout: string;
  /** How to convert to ONNX, for kinds that are not imported. */
  readonly recipe?: string;
}

export const KINDS: Readonly<Record<ModelKind, KindFacts>> = {
  onnx: { title: 'ONNX', layout: '*.onnx' },
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
  pytorch: {
    title: 'PyTorch',
    layout: '*.pt',
    recipe:
      'in Python: torch.onnx.export(model.eval(), example_input, "model.onnx", opset_version=17, ' +
      'input_names=["input"], dynamic_axes={"input": {0: "batch"}})',
  },
  openvino: {
    title: 'OpenVINO IR',
    layout: '*.xml and *.bin',
    recipe:
      'export the model the IR was made from (by ovc or mo) to ONNX, or import that model here when it is of ' +
      'TensorFlow or Caffe',
  },
  bigdl: {
    title: 'BigDL',
    layout: '*.model',
    recipe:
      'in BigDL: model.saveCaffe("deploy.prototxt", "model.caffemodel") makes a Caffe model, which is imported',
  },
};
