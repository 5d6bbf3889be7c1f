/** Operators of ai.onnx.ml: classical models, whose rows are the first of two axes. */
import type { Call, RowRule } from '../rows/call.ts';
import { MOST_TEXTS } from '../rows/node.ts';
import { ONE, product, type Shape, type Size, size } from '../rows/size.ts';
import { type Data, fixedOf } from '../rows/value.ts';
import { unaryRows } from './elementwise.ts';
import { reshape } from './layout.ts';
import { all, type Operators } from './operator.ts';

/** A matrix with one row for each record; a vector would be taken for one row. */
function table(call: Call): { x: Data; shape: Shape } {
  const x = call.data(0);
  const shape = call.shape(x);
  if (x.kind === 'rows' && (shape.length !== 2 || x.axis !== 0))
    call.end('its input is no table with one row for each record');
  return { x, shape };
}

/** One vector for each row. */
const regressor: RowRule = (call) => {
  const { x, shape } = table(call);
  const targets = call.attribute('n_targets')?.int ?? call.attribute('targets')?.int;
  return call.moved(x, [shape[0] as Size, call.dimOr(targets)]);
};

/** A label and scores for each row. */
const classifier: RowRule = (call) => {
  const { x, shape } = table(call);
  const label: Data =
    x.kind === 'rows' ? call.rows([shape[0] as Size], { ...x, axis: 0 }) : fixedOf([shape[0] as Size]);
  return [label, call.moved(x, [shape[0] as Size, call.dim()])];
};

const sameTable: RowRule = (call) => {
  const { x, shape } = table(call);
  return call.moved(x, shape);
};

const oneHot: RowRule = (call) => {
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
const arrayFeatures: RowRule = (call) => {
  const { x, shape } = table(call);
  const places = call.data(1);
  const rows = shape.length === 1 ? [ONE] : shape.slice(0, -1);
  if (places.kind !== 'rows') return call.moved(x, [...rows, call.dim()]);
  if (x.kind === 'rows') call.end('its rows take from all rows');
  const list = reshape(call, places, [product(places.shape)]);
  return call.moved(list, [...rows, ...list.shape], rows.length);
};

const featureVectors: RowRule = (call) => {
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

const mapped: RowRule = (call) => call.end('its outputs are maps, one list for all rows');

/** Words per text, counted for each row of a table. */
const tfIdf: RowRule = (call) => {
  const { x, shape } = table(call);
  return call.moved(x, [shape[0] as Size, call.dim()]);
};

/** Each text on its own, unless stop words are left out: then one text is shorter and moves the others. */
const normalizer: RowRule = (call) => {
  const x = call.data(0);
  const shape = call.shape(x);
  if ((call.attribute('stopwords')?.count ?? 0) > 0) call.end('it leaves out texts, which moves the others');
  return call.moved(x, shape);
};

/** The parts of each text, in rows as long as the longest of them. */
const tokenizer: RowRule = (call) => {
  const x = call.data(0);
  if (x.kind === 'rows') call.end('its rows are as long as the longest text of the run');
  return fixedOf(x.shape && [...x.shape, call.dim()]);
};

const ML: Operators = {
  ArrayFeatureExtractor: { rows: arrayFeatures },
  FeatureVectorizer: { rows: featureVectors },
  OneHotEncoder: { rows: oneHot },
  ZipMap: { rows: mapped },
  ...all('Binarizer CategoryMapper LabelEncoder', { rows: unaryRows }),
  ...all('Imputer Normalizer Scaler', { rows: sameTable }),
  ...all('LinearClassifier SVMClassifier TreeEnsembleClassifier', { rows: classifier }),
  ...all('LinearRegressor SVMRegressor TreeEnsemble TreeEnsembleRegressor', { rows: regressor }),
};

export const CLASSICAL: Operators = {
  ...Object.fromEntries(Object.entries(ML).map(([name, operator]) => [`ai.onnx.ml:${name}`, operator])),
  StringNormalizer: { rows: normalizer },
  TfIdfVectorizer: { rows: tfIdf },
  'com.microsoft:Tokenizer': { rows: tokenizer },
};
