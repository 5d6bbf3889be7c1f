/**
 * The models among file names, by what the formats prescribe. Ambiguous names (`*.model` is also a tokenizer's, `*.pb`
 * also a SavedModel's fingerprint) count only if nothing clearer is there.
 */
import { chosenNets } from './caffe-nets.ts';
import type { ModelKind } from './kinds.ts';

export interface Candidate {
  readonly kind: ModelKind;
  /** The file by which it was detected. */
  readonly file: string;
}

/** What people name the files of XGBoost and LightGBM, whose endings say nothing. */
const TREES_JSON = /^(model|.*(xgb|xgboost|booster).*)\.json$/i;
const TREES_TEXT = /^(model|.*(lgb|lgbm|lightgbm|booster).*)\.txt$/i;

/** Of SentencePiece. */
const TOKENIZERS = /^(spiece|tokenizer|sentencepiece.*|source|target)\.model$/i;
/** The two halves of a net of Caffe2. */
const CAFFE2 = ['init_net.pb', 'predict_net.pb'];

/** One candidate per model; anything but one is an error. */
export function candidatesIn(names: readonly string[]): Candidate[] {
  const named = (kind: ModelKind, pattern: RegExp) =>
    names.filter((name) => pattern.test(name)).map((file) => ({ kind, file }));
  const plain = [
    ...named('onnx', /\.onnx$/i),
    ...named('tf_saved_model', /^saved_model\.pb$/),
    ...(names.includes('saved_model.pb') ? [] : named('tf_saved_model', /^saved_model\.pbtxt$/)),
    ...frozenGraphs(names),
    ...checkpoints(names),
    ...caffe(names),
    ...openvino(names),
    // SageMaker's has no ending, and *.bst is of XGBoost or of LightGBM: the content tells.
    ...named('xgboost', /\.(ubj|xgb|bst)$|^xgboost-model$/i),
    ...named('lightgbm', /\.(lgb|lgbm)$/i),
    ...named('bigdl', /\.bigdl$/i),
    ...named('pytorch', /\.(pt|pth|ptl|pt2|jit)$/i).filter(({ file }) => !chosenNets(names).includes(file)),
  ];
  if (plain.length > 0) return plain;
  const trees = [...named('xgboost', TREES_JSON), ...named('lightgbm', TREES_TEXT)];
  if (trees.length > 0) return trees;
  const bigdl = named('bigdl', /\.model$/i).filter(({ file }) => !TOKENIZERS.test(file));
  if (bigdl.length > 0) return bigdl;
  // Without constants a model of OpenVINO needs no second file.
  const nets = named('openvino', /\.xml$/i);
  if (nets.length > 0) return nets;
  if (CAFFE2.every((name) => names.includes(name))) return [];
  // Binary first: a text graph is often there only to be read by people.
  const graphs = named('tf_frozen', /\.pb$/i);
  return graphs.length > 0 ? graphs : named('tf_frozen', /\.pbtxt$/i);
}

/** The same graph may also be there as text. */
function frozenGraphs(names: readonly string[]): Candidate[] {
  const graphs = names.filter((name) => /^frozen_(inference_graph|graph|model)\.pb(txt)?$/.test(name));
  const texts = graphs.filter(
    (name) => name.endsWith('txt') && graphs.includes(name.slice(0, -'txt'.length)),
  );
  return graphs.filter((name) => !texts.includes(name)).map((file) => ({ kind: 'tf_frozen', file }));
}

/** Several steps are still one model: the file `checkpoint` names the one that counts. */
function checkpoints(names: readonly string[]): Candidate[] {
  const file = names.find((name) => name.endsWith('.meta')) ?? names.find((name) => name.endsWith('.index'));
  return file === undefined ? [] : [{ kind: 'tf_checkpoint', file }];
}

/** One candidate per net, or per file of weights if there are more of those. */
function caffe(names: readonly string[]): Candidate[] {
  const nets = chosenNets(names);
  const weights = names.filter((name) => /\.caffemodel$/i.test(name));
  if (nets.length === 0) return [];
  const models = weights.length > nets.length ? weights : nets;
  return models.map((file) => ({ kind: 'caffe', file }));
}

function openvino(names: readonly string[]): Candidate[] {
  return names
    .filter((name) => /\.xml$/i.test(name) && names.includes(weightsOf(name)))
    .map((file) => ({ kind: 'openvino', file }));
}

export function weightsOf(xml: string): string {
  return xml.replace(/\.xml$/i, '.bin');
}
