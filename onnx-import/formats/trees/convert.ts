/**
 * Makes a graph of a model of trees, or of a linear model of XGBoost. Its input is one table, [rows, features]: float32
 * for XGBoost, which rounds what it is given to float32, and float64 for LightGBM, which compares float64 numbers, so
 * that a value on a threshold goes where it goes there. Its output `prediction` has the shape of the library's `predict`:
 * [rows], or [rows, classes].
 */

import { badModel } from '../../../lib/contract/errors.ts';
import { compute } from '../../emit/formula.ts';
import { cutAlong } from '../../emit/gather.ts';
import { GraphBuilder } from '../../graph/builder.ts';
import { tensorOf } from '../../graph/numbers.ts';
import type { Body, Value } from '../../graph/value.ts';
import { type Ensemble, type Owners, treeParts } from './ensemble.ts';
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
  const owners: Owners | undefined = dtype === 'float32' ? [] : undefined;
  const parts = [...treeParts(ensemble, owners)];
  const table = prepared(g, g.input(INPUT, dtype, [ROWS, features]), columns(), ensemble);
  const sums = parts.map((attributes) => {
    const results = [{ dtype, shape: [ROWS, attributes['n_targets'] as number] }] as const;
    return g.add('ai.onnx.ml:TreeEnsemble', [table], attributes, { results, hint: 'sums' })[0] as Value;
  });
  const sum = owners ? addedInOrder(g, sums, { owners, targets }) : added(g, sums);
  return finished(g, sum, targets, link);
}

/** The sum of all parts, in float64 so that neither their number nor that of the threads makes a difference. */
function added(g: GraphBuilder, sums: readonly Value[]): Value {
  return sums.length === 1 ? (sums[0] as Value) : g.one('Sum', sums);
}

/**
 * Adds the trees of each output one by one in float32, as XGBoost does: another order gives another rounding, which at
 * a sum of -20 is 1e-5 of the probability. onnxruntime adds in the order of its threads.
 */
function addedInOrder(
  g: GraphBuilder,
  parts: readonly Value[],
  { owners, targets }: { readonly owners: Owners; readonly targets: number },
): Value {
  const leaves = parts.length === 1 ? (parts[0] as Value) : g.one('Concat', parts, { axis: 1 });
  const most = owners.length / targets;
  const [isEven, shape] = [owners.every((target, at) => target === at % targets), [most, targets]];
  // [rows, trees of an output, outputs]
  const ordered = isEven
    ? g.one('Reshape', [leaves, g.ints([-1, ...shape])])
    : g.one('Gather', [leaves, g.constant(tensorOf('int64', shape, placesOf(owners, targets)))], { axis: 1 });
  const sums = g.one('CumSum', [ordered, g.scalar('int64', 1)]);
  return g.one('Gather', [sums, g.scalar('int64', most - 1)], { axis: 1 });
}
/** Where the trees of each output are: [trees of an output, outputs]. */
function placesOf(owners: Owners, targets: number): number[] {
  const seen = Array.from({ length: targets }, () => 0);
  const places = owners.map(() => 0);
  for (const [at, target] of owners.entries()) {
    places[(seen[target] as number) * targets + target] = at;
    seen[target] = (seen[target] as number) + 1;
  }
  return places;
}

/** More products than these of a row are added by MatMul. */
const MOST_PRODUCTS = 10_000;

/** A missing value adds nothing. */
export function linearGraph({ features, targets, weights, bias, missing }: LinearModel, link: Link): Body {
  const g = new GraphBuilder();
  const x = withMissing(g, g.input(INPUT, 'float32', [ROWS, features]), missing);
  const known = compute(g, 'Where(IsNaN(x), 0, x)', { x });
  const table = g.floats(weights, [features, targets], 'weights');
  if (features * targets > MOST_PRODUCTS) {
    return finished(g, g.one('Add', [g.one('MatMul', [known, table]), g.floats(bias)]), targets, link);
  }
  const products = g.one('Mul', [g.one('Unsqueeze', [known, g.ints([2])]), table]);
  // XGBoost begins with the bias and adds feature by feature.
  const first = g.one('Add', [cutAlong(g, products, 1, 0, 1), g.floats(bias)]);
  const rest = cutAlong(g, products, 1, 1, features);
  const all = g.one('Concat', [first, rest], { axis: 1 });
  return finished(g, lastSum(g, all, features), targets, link);
}

/** The sums along axis 1 of [rows, addends, outputs], one by one in the dtype of the addends. */
function lastSum(g: GraphBuilder, addends: Value, count: number): Value {
  const sums = g.one('CumSum', [addends, g.scalar('int64', 1)]);
  return g.one('Gather', [sums, g.scalar('int64', count - 1)], { axis: 1 });
}

/** Replaces a number that stands for a missing value by NaN. */
function withMissing(g: GraphBuilder, x: Value, missing: number | undefined): Value {
  if (missing === undefined) return x;
  return compute(g, 'Where(x == missing, nan, x)', { x, missing, nan: Number.NaN });
}

function finished(g: GraphBuilder, sums: Value, targets: number, link: Link): Body {
  const values = linked(g, sums, link);
  const isOne = targets === 1 || link.kind === 'argmax';
  g.output(OUTPUT, isOne ? g.one('Squeeze', [values, g.ints([1])]) : values);
  return g.finish();
}

function prepared(g: GraphBuilder, table: Value, columns: Columns, { features }: Ensemble): Value {
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
    const whole = rounding === 'floor' ? 'Floor(x)' : 'Sign(x) * Floor(Abs(x))';
    x = compute(g, `Where(isCategory, ${whole}, x)`, { x, isCategory: mask(categories) });
  }
  if (zeroIsMissing.size > 0) {
    const chosen = mask(zeroIsMissing);
    x = compute(g, 'Where(And(Abs(x) <= zero, chosen), nan, x)', { x, zero: ZERO, chosen, nan: Number.NaN });
  }
  return x;
}
