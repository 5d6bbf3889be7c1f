/**
 * Makes a graph of a model of trees, or of a linear model of XGBoost. Its input is one table, [rows, features]: float32
 * for XGBoost, which rounds what it is given to float32, and float64 for LightGBM, which compares float64 numbers, so
 * that a value on a threshold goes where it goes there. Its output `prediction` has the shape of the library's `predict`:
 * [rows], or [rows, classes].
 */
import { badModel } from '../../lib/contract/errors.ts';
import { ELEMENT_TYPES } from '../graph/attributes.ts';
import { GraphBuilder } from '../graph/builder.ts';
import { tensorOf } from '../graph/numbers.ts';
import type { Body, Value } from '../graph/value.ts';
import { type Ensemble, treeParts } from './ensemble.ts';
import { type Link, linked } from './links.ts';

/** What a table and its answers may have of columns. */
const MAX_FEATURES = 1_000_000;
const MAX_TARGETS = 100_000;

/** @throws bad_model */
export function assertSizes(features: number, targets: number): void {
  const isRight = features >= 1 && features <= MAX_FEATURES && targets >= 1 && targets <= MAX_TARGETS;
  if (isRight) return;
  throw badModel(
    `${features} features and ${targets} outputs; expected 1 to ${MAX_FEATURES} and 1 to ${MAX_TARGETS}`,
  );
}

/** Up to here LightGBM takes a number for 0. */
export const ZERO = Math.fround(1e-35);
export const INPUT = 'features';
export const OUTPUT = 'prediction';
const ROWS = 'N';
const { float32: FLOAT32, float64: FLOAT64 } = ELEMENT_TYPES;

/** How the numbers of a column are prepared for its comparisons. */
export interface Columns {
  /** Whole numbers of categories: rounded down, or toward zero. */
  readonly categories: ReadonlySet<number>;
  readonly rounding: 'floor' | 'truncate';
  /** Columns whose zeros are missing values. */
  readonly zeroIsMissing: ReadonlySet<number>;
  /** A number that stands for a missing value in each column. */
  readonly missing?: number | undefined;
}

export interface LinearModel {
  readonly features: number;
  readonly targets: number;
  /** [features, targets] */
  readonly weights: Float32Array;
  readonly bias: readonly number[];
  /** A number that stands for a missing value. */
  readonly missing?: number | undefined;
}

/** @param columns asked for when all trees are read */
export function treeGraph(ensemble: Ensemble, columns: () => Columns, link: Link): Body {
  const { features, targets, dtype } = ensemble;
  const g = new GraphBuilder();
  const parts = [...treeParts(ensemble)];
  const table = prepared(g, g.input(INPUT, dtype, [ROWS, features]), columns(), ensemble);
  const results = [{ dtype, shape: [ROWS, targets] }] as const;
  const sums = parts.map(
    (attributes) =>
      g.add('ai.onnx.ml:TreeEnsemble', [table], attributes, { results, hint: 'sums' })[0] as Value,
  );
  const sum = added(g, sums);
  const { base } = ensemble;
  const based = base.some((value) => value !== 0)
    ? g.one('Add', [sum, g.floats(base, [targets], 'base')])
    : sum;
  return finished(g, based, targets, link);
}

/** The sum of all parts, in float64 so that their number makes no difference, as float32. */
function added(g: GraphBuilder, sums: readonly Value[]): Value {
  const [first] = sums as readonly [Value];
  if (sums.length === 1 && first.dtype === 'float32') return first;
  const wide = sums.map((sum) => (sum.dtype === 'float64' ? sum : g.one('Cast', [sum], { to: FLOAT64 })));
  const total = wide.length === 1 ? first : g.one('Sum', wide);
  return g.one('Cast', [total], { to: FLOAT32 });
}

/** A missing value adds nothing. */
export function linearGraph({ features, targets, weights, bias, missing }: LinearModel, link: Link): Body {
  const g = new GraphBuilder();
  const x = withMissing(g, g.input(INPUT, 'float32', [ROWS, features]), missing);
  const known = g.one('Where', [g.one('IsNaN', [x]), g.scalar('float32', 0), x]);
  const sums = g.one('MatMul', [known, g.floats(weights, [features, targets], 'weights')]);
  return finished(g, g.one('Add', [sums, g.floats(bias)]), targets, link);
}

/** Replaces a number that stands for a missing value by NaN. */
function withMissing(g: GraphBuilder, x: Value, missing: number | undefined): Value {
  if (missing === undefined) return x;
  const dtype = x.dtype === 'float64' ? 'float64' : 'float32';
  const isMissing = g.one('Equal', [x, g.scalar(dtype, missing)]);
  return g.one('Where', [isMissing, g.scalar(dtype, Number.NaN), x]);
}

function finished(g: GraphBuilder, sums: Value, targets: number, link: Link): Body {
  const values = linked(g, sums, link);
  const isOne = targets === 1 || link.kind === 'argmax';
  g.output(OUTPUT, isOne ? g.one('Squeeze', [values, g.ints([1])]) : values);
  return g.finish();
}

function prepared(g: GraphBuilder, table: Value, columns: Columns, { features, dtype }: Ensemble): Value {
  const { categories, rounding, zeroIsMissing, missing } = columns;
  const mask = (chosen: ReadonlySet<number>) =>
    g.constant(
      tensorOf(
        'bool',
        [features],
        Array.from({ length: features }, (_, i) => Number(chosen.has(i))),
      ),
      'columns',
    );
  let x = withMissing(g, table, missing);
  if (categories.size > 0) {
    const floor = (value: Value) => g.one('Floor', [value]);
    const whole =
      rounding === 'floor' ? floor(x) : g.one('Mul', [g.one('Sign', [x]), floor(g.one('Abs', [x]))]);
    x = g.one('Where', [mask(categories), whole, x]);
  }
  if (zeroIsMissing.size > 0) {
    const isZero = g.one('LessOrEqual', [g.one('Abs', [x]), g.scalar(dtype, ZERO)]);
    const isMissing = g.one('And', [isZero, mask(zeroIsMissing)]);
    x = g.one('Where', [isMissing, g.scalar(dtype, Number.NaN), x]);
  }
  return x;
}
