/**
 * The detection of SSD, of one image: boxes are decoded from priors, suppressed class by class, and the best ones kept.
 * `topK` limits each class before suppression and `keepTopK` the whole image after it; ONNX's limit does neither.
 */
import { badModel } from '../../lib/contract/errors.ts';
import { fixedProduct, type Maker, reshape, scalar } from './layout.ts';
import { fixed } from './shapes.ts';
import type { Value } from './value.ts';

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
  const low = part(node, candidates, 0);
  const straight = one(node, 'Concat', [low, one(node, 'Max', [low, part(node, candidates, 2)])], {
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
function part(node: Maker, value: Value, from: number): Value {
  return node.g.one('Slice', [value, node.g.ints([from]), node.g.ints([from + 2]), node.g.ints([-1])]);
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
  const row = (i: number) => g.one('Gather', [rows, g.scalar('int64', i)], { axis: 0 });
  const boxes = row(0);
  let offsets = reshape(node, locations, isShared ? [priors, 4] : [priors, classes, 4]);
  if (!isShared) {
    const byClass = one(node, 'Transpose', [offsets], { perm: [1, 0, 2] });
    offsets = one(node, 'Gather', [byClass, g.ints(labels)], { axis: 0 });
  }
  if (!isEncoded) offsets = one(node, 'Mul', [offsets, row(1)]);
  if (code === 'corner') return one(node, 'Add', [boxes, offsets]);
  const [low, high] = [part(node, boxes, 0), part(node, boxes, 2)];
  const size = g.one('Sub', [high, low]);
  if (code === 'corner_size') {
    const sizes = g.one('Concat', [size, size], { axis: -1 });
    return one(node, 'Add', [boxes, one(node, 'Mul', [offsets, sizes])]);
  }
  const center = g.one('Mul', [g.one('Add', [low, high]), scalar(node, 0.5)]);
  const middle = one(node, 'Add', [one(node, 'Mul', [part(node, offsets, 0), size]), center]);
  const half = g.one('Mul', [size, scalar(node, 0.5)]);
  const reach = one(node, 'Mul', [one(node, 'Exp', [part(node, offsets, 2)]), half]);
  return one(node, 'Concat', [one(node, 'Sub', [middle, reach]), one(node, 'Add', [middle, reach])], {
    axis: -1,
  });
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
