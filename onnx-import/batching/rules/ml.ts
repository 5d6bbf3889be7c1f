/** Operators of ai.onnx.ml: classical models, whose rows are the first of two axes. */
import { MOST_TEXTS } from '../../onnx/skim.ts';
import type { Call, Rule } from '../call.ts';
import { ONE, product, type Size, size } from '../size.ts';
import { type Data, fixedOf, type Shape } from '../value.ts';
import { unary } from './elementwise.ts';
import { reshape } from './layout.ts';

/** A matrix with one row for each record; a vector would be taken for one row. */
function table(call: Call): { x: Data; shape: Shape } {
  const x = call.data(0);
  const shape = call.shape(x);
  if (x.kind === 'rows' && (shape.length !== 2 || x.axis !== 0))
    call.end('its input is no table with one row for each record');
  return { x, shape };
}

/** One vector for each row. */
const regressor: Rule = (call) => {
  const { x, shape } = table(call);
  const targets = call.attribute('n_targets')?.int ?? call.attribute('targets')?.int;
  return call.moved(x, [shape[0] as Size, call.dimOr(targets)]);
};

/** A label and scores for each row. */
const classifier: Rule = (call) => {
  const { x, shape } = table(call);
  const label: Data =
    x.kind === 'rows' ? call.rows([shape[0] as Size], { ...x, axis: 0 }) : fixedOf([shape[0] as Size]);
  return [label, call.moved(x, [shape[0] as Size, call.dim()])];
};

const sameTable: Rule = (call) => {
  const { x, shape } = table(call);
  return call.moved(x, shape);
};

const oneHot: Rule = (call) => {
  const x = call.data(0);
  const categories = ['cats_int64s', 'cats_strings'].map((name) => call.attribute(name)?.count ?? 0);
  const count = Math.max(...categories);
  const isKnown = count > 0 && count < MOST_TEXTS;
  return call.moved(x, [...call.shape(x), isKnown ? size(count) : call.dim()]);
};

/**
 * Columns of the last axis, whose places are one list for all rows; or, of a table that is fixed, such as the names of
 * classes, those that each row asks for.
 */
const arrayFeatures: Rule = (call) => {
  const { x, shape } = table(call);
  const places = call.data(1);
  const rows = shape.length === 1 ? [ONE] : shape.slice(0, -1);
  if (places.kind !== 'rows') return call.moved(x, [...rows, call.dim()]);
  if (x.kind === 'rows') call.end('its rows take from all rows');
  const list = reshape(call, places, [product(places.shape)]);
  return call.moved(list, [...rows, ...list.shape], rows.length);
};

const featureVectors: Rule = (call) => {
  const values = call.all();
  const first = values.find(({ kind }) => kind === 'rows');
  if (!first) return fixedOf();
  for (const value of values) {
    const isTable = value.kind === 'rows' && value.axis === 0 && value.shape.length === 2;
    if (!isTable) call.end('its inputs are no tables with one row for each record');
  }
  return sameBlocks(call, values)
    ? call.moved(first, [call.shape(first)[0] as Size, call.dim()])
    : call.end('its inputs have other rows');
};

function sameBlocks(call: Call, values: readonly Data[]): boolean {
  const key = (dim: Size | undefined) => JSON.stringify(dim);
  return new Set(values.map((value) => key(call.shape(value)[0]))).size === 1;
}

const mapped: Rule = (call) => call.end('its outputs are maps, one list for all rows');

/** Words per text, counted for each row of a table. */
const tfIdf: Rule = (call) => {
  const { x, shape } = table(call);
  return call.moved(x, [shape[0] as Size, call.dim()]);
};

/** Each text on its own, unless stop words are left out: then one text is shorter and moves the others. */
const normalizer: Rule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  if ((call.attribute('stopwords')?.count ?? 0) > 0) call.end('it leaves out texts, which moves the others');
  return call.moved(x, shape);
};

const ML_RULES: Readonly<Record<string, Rule>> = {
  ArrayFeatureExtractor: arrayFeatures,
  Binarizer: unary,
  CategoryMapper: unary,
  FeatureVectorizer: featureVectors,
  Imputer: sameTable,
  LabelEncoder: unary,
  LinearClassifier: classifier,
  LinearRegressor: regressor,
  Normalizer: sameTable,
  OneHotEncoder: oneHot,
  SVMClassifier: classifier,
  SVMRegressor: regressor,
  Scaler: sameTable,
  TreeEnsemble: regressor,
  TreeEnsembleClassifier: classifier,
  TreeEnsembleRegressor: regressor,
  ZipMap: mapped,
};

export const ML: Readonly<Record<string, Rule>> = {
  ...Object.fromEntries(Object.entries(ML_RULES).map(([name, rule]) => [`ai.onnx.ml:${name}`, rule])),
  StringNormalizer: normalizer,
  TfIdfVectorizer: tfIdf,
};
