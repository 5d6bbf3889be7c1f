/**
 * The detection of SSD, of one image: boxes are decoded from priors, suppressed class by class, and the best ones kept.
 * `topK` limits each class before suppression and `keepTopK` the whole image after it; ONNX's limit does neither.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { fixedProduct, type Maker, reshape, scalar } from '../graph/layout.ts';
import { fixed } from '../graph/shapes.ts';
import type { Value } from '../graph/value.ts';
import { compute } from './formula.ts';
import { cutAlong, pick } from './gather.ts';

export interface Detection {
  readonly classes: number;
  readonly priors: number;
  readonly background: number;
  /** Whether all classes have the same boxes. */
  readonly isShared: boolean;
  readonly code: 'corner' | 'corner_size' | 'center_size';
  /** Whether the offsets were divided by the variances, which are the second row of priors otherwise. */
  readonly isEncoded: boolean;
  readonly topK: number;
  readonly keepTopK: number | undefined;
  /** The least score; undefined: any. */
  readonly threshold: number | undefined;
  readonly overlap: number;
}

/** Offsets, scores and priors: [1, numbers] each, the priors [1, 1 or 2, numbers]. */
export type DetectionInputs = readonly [locations: Value, confidences: Value, priors: Value];

/**
 * The remaining rows [image, label, score, x1, y1, x2, y2], by label, then by falling score.
 * @throws bad_model for a batch, and for inputs of other sizes than the priors and classes need
 */
export function detected(node: Maker, detection: Detection, inputs: DetectionInputs): Value {
  assertSizes(detection, inputs);
  const { g } = node;
  const { priors, classes, background, topK, keepTopK, threshold } = detection;
  const labels = Array.from({ length: classes }, (_, i) => i).filter((label) => label !== background);
  const boxes = decoded(node, detection, inputs, labels);
  const byClass = one(node, 'Transpose', [reshape(node, inputs[1], [priors, classes])], { perm: [1, 0] });
  const scores = one(node, 'Gather', [byClass, g.ints(labels)], { axis: 0 });
  const [best, at] = g.add('TopK', [scores, g.ints([topK])], { axis: 1 }, { outputs: 2 }) as [Value, Value];
  const candidates = detection.isShared
    ? one(node, 'Gather', [boxes, at], { axis: 0 })
    : one(node, 'GatherND', [boxes, one(node, 'Unsqueeze', [at, g.ints([2])])], { batch_dims: 1 });
  // An inverted box has no area, but ONNX would swap its corners.
  const low = corner(node, candidates, 0);
  const straight = one(node, 'Concat', [low, one(node, 'Max', [low, corner(node, candidates, 2)])], {
    axis: -1,
  });
  const selected = one(node, 'NonMaxSuppression', [
    straight,
    one(node, 'Unsqueeze', [best, g.ints([1])]),
    g.ints([topK]),
    g.floats([detection.overlap]),
    ...(threshold === undefined ? [] : [g.floats([threshold])]),
  ]);
  const picked = one(node, 'Gather', [selected, g.ints([0, 2])], { axis: 1 });
  const score = one(node, 'Unsqueeze', [one(node, 'GatherND', [best, picked]), g.ints([1])]);
  const label = one(node, 'Gather', [
    g.floats(labels, [labels.length, 1]),
    one(node, 'Gather', [picked, g.scalar('int64', 0)], { axis: 1 }),
  ]);
  const image = one(node, 'Mul', [label, scalar(node, 0)]);
  const corners = one(node, 'GatherND', [candidates, picked]);
  const found = one(node, 'Concat', [image, label, score, corners], { axis: 1 });
  return keepTopK === undefined ? found : keepBest(node, found, score, keepTopK);
}

function one(node: Maker, op: string, inputs: readonly Value[], attributes = {}): Value {
  return node.g.one(op, inputs, attributes, node.hint);
}

function assertSizes(detection: Detection, [locations, confidences]: DetectionInputs): void {
  const { classes, priors, isShared } = detection;
  const batch = fixed(locations, 0);
  if (batch !== 1) throw badModel(`needs a batch of 1, got ${batch}`);
  const sizes = [fixedProduct(locations, 0), fixedProduct(confidences, 0)];
  const wanted = [priors * 4 * (isShared ? 1 : classes), priors * classes];
  const isWhole = Number.isInteger(priors) && Number.isInteger(classes) && classes >= 1;
  if (!isWhole || sizes.some((size, i) => size !== wanted[i]))
    throw badModel(
      `${priors} priors and ${classes} classes need inputs of ${wanted.join(' and ')} numbers, got ${sizes.join(' and ')}`,
    );
}

/** Half of the last axis: [from, from + 2). */
function corner(node: Maker, value: Value, from: number): Value {
  return cutAlong(node, value, -1, from, from + 2);
}

/** Boxes as [priors, 4], or as [labels, priors, 4]. */
function decoded(
  node: Maker,
  { priors, classes, isShared, isEncoded, code }: Detection,
  [locations, , prior]: DetectionInputs,
  labels: readonly number[],
): Value {
  const { g } = node;
  const rows = reshape(node, prior, [isEncoded ? fixed(prior, 1) : 2, priors, 4]);
  const row = (i: number) => pick(node, rows, i, 0);
  const boxes = row(0);
  let offsets = reshape(node, locations, isShared ? [priors, 4] : [priors, classes, 4]);
  if (!isShared) {
    const byClass = one(node, 'Transpose', [offsets], { perm: [1, 0, 2] });
    offsets = one(node, 'Gather', [byClass, g.ints(labels)], { axis: 0 });
  }
  if (!isEncoded) offsets = one(node, 'Mul', [offsets, row(1)]);
  if (code === 'corner') return one(node, 'Add', [boxes, offsets]);
  const [low, high] = [corner(node, boxes, 0), corner(node, boxes, 2)];
  const size = g.one('Sub', [high, low]);
  if (code === 'corner_size') {
    const sizes = g.one('Concat', [size, size], { axis: -1 });
    return one(node, 'Add', [boxes, one(node, 'Mul', [offsets, sizes])]);
  }
  const move = corner(node, offsets, 0);
  const middle = compute(g, 'move * size + (low + high) * 0.5', { move, size, low, high });
  const reach = compute(g, 'Exp(grow) * (size * 0.5)', { grow: corner(node, offsets, 2), size });
  const ends = ['middle - reach', 'middle + reach'].map((end) => compute(g, end, { middle, reach }));
  return one(node, 'Concat', ends, { axis: -1 });
}

/** The best `limit` rows, in their original order. */
function keepBest(node: Maker, found: Value, score: Value, limit: number): Value {
  const { g } = node;
  const total = g.one('Gather', [g.one('Shape', [found]), g.ints([0])]);
  const count = g.one('Min', [total, g.ints([limit])]);
  const flat = g.one('Reshape', [score, g.ints([-1])]);
  const best = g.add('TopK', [flat, count], { axis: 0 }, { outputs: 2 })[1];
  const ordered = g.add('TopK', [best, count], { axis: 0, largest: 0 }, { outputs: 2 })[0];
  return one(node, 'Gather', [found, ordered as Value], { axis: 0 });
}

export interface Priors {
  readonly height: number;
  readonly width: number;
  readonly imageHeight: number;
  readonly imageWidth: number;
  /** Width and height of each prior of a cell, in pixels. */
  readonly sizes: readonly (readonly [number, number])[];
  /** The centers of a cell's priors, in cells from its corner: x, y. */
  readonly offsets: readonly (readonly [number, number])[];
  /** How far cells are apart, in pixels: x, y. */
  readonly steps: readonly [number, number];
  readonly isClipped: boolean;
  /** One for all or one for each of the 4 numbers. Default 0.1. */
  readonly variances: readonly number[];
}

/** SSD512 has 24,564 priors of 4 numbers. */
const MAX_PRIOR_NUMBERS = 16_000_000;

/** The boxes of all cells as parts of the image, then as many variances. */
export function priorBoxes(priors: Priors): Float32Array {
  const { height, width, imageHeight, imageWidth, sizes, offsets, isClipped } = priors;
  const count = height * width * sizes.length * offsets.length * 4;
  if (!(count > 0 && count <= MAX_PRIOR_NUMBERS))
    throw badModel(`makes ${count} numbers, the limit is ${MAX_PRIOR_NUMBERS}`);
  const variances = priors.variances.length === 0 ? [0.1] : priors.variances;
  if (variances.length !== 1 && variances.length !== 4)
    throw badModel(`has ${variances.length} variances, expected 1 or 4`);
  const data = new Float32Array(2 * count);
  const within = (value: number) => (isClipped ? Math.min(Math.max(value, 0), 1) : value);
  const [stepX, stepY] = priors.steps;
  let at = 0;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (const [w, h] of sizes)
        for (const [dx, dy] of offsets) {
          const [centerX, centerY] = [(x + dx) * stepX, (y + dy) * stepY];
          data[at++] = within((centerX - w / 2) / imageWidth);
          data[at++] = within((centerY - h / 2) / imageHeight);
          data[at++] = within((centerX + w / 2) / imageWidth);
          data[at++] = within((centerY + h / 2) / imageHeight);
        }
  for (let i = 0; i < count; i++) data[count + i] = variances[i % variances.length] as number;
  return data;
}

const MAX_ASPECT_RATIOS = 1000;

/** All ratios except 1, without repetitions; each with its inverse where they are flipped. */
export function aspectRatios(given: readonly number[], isFlipped: boolean): number[] {
  if (given.length > MAX_ASPECT_RATIOS)
    throw badModel(`${given.length} aspect ratios, the limit is ${MAX_ASPECT_RATIOS}`);
  const ratios = [1];
  for (const ratio of given) {
    if (!(ratio > 0 && Number.isFinite(ratio))) throw badModel(`aspect_ratio must be positive, got ${ratio}`);
    if (ratios.some((other) => Math.abs(ratio - other) < 1e-6)) continue;
    ratios.push(ratio);
    if (isFlipped) ratios.push(1 / ratio);
  }
  return ratios.slice(1);
}

/** A square of the least size, one between it and the greatest, and rectangles of the ratios. */
export function priorSizes(
  least: readonly number[],
  most: readonly number[],
  ratios: readonly number[],
  areSquaresFirst = true,
): [number, number][] {
  return least.flatMap((size, i) => {
    const middle = most[i] === undefined ? [] : [Math.sqrt(size * most[i])];
    const squares = middle.map((side): [number, number] => [side, side]);
    const others = ratios.map((ratio): [number, number] => [
      size * Math.sqrt(ratio),
      size / Math.sqrt(ratio),
    ]);
    return [[size, size], ...(areSquaresFirst ? [...squares, ...others] : [...others, ...squares])];
  });
}
