/** Regions of images: RoI pooling and alignment, YOLO's heads, and greedy decoding of CTC. */
import { badModel } from '../../../lib/contract/errors.ts';
import { cutAlong } from '../../emit/gather.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed, known } from '../../graph/shapes.ts';
import type { Dim, Value } from '../../graph/value.ts';
import { cast, int64, type OpTable, type OvNode, type Rule } from '../node.ts';
import { dtypeNamed } from '../weights.ts';
import { scalar } from './elementwise.ts';
import { reshapeKnown } from './shaping.ts';

const roiPooling: Rule = (node) => {
  node.bindBatch();
  const bilinear = node.choice('method', ['max', 'bilinear'], 'max') === 'bilinear';
  if (bilinear) throw badModel('by bilinear interpolation is not supported');
  const given = node.numbers('output_roi', node.numbers('output_size', []));
  const shape = given.length === 2 ? given : [node.whole('pooled_h'), node.whole('pooled_w')];
  node.ignore('pooled_h', 'pooled_w');
  return node.one('MaxRoiPool', [node.input(0), node.input(1)], {
    pooled_shape: shape,
    spatial_scale: { float: node.number('spatial_scale') },
  });
};

const roiAlign: Rule = (node) => {
  node.bindBatch();
  const mode = node.choice('mode', ['avg', 'max']);
  const aligned = node.choice(
    'aligned_mode',
    ['asymmetric', 'half_pixel_for_nn', 'half_pixel'],
    'asymmetric',
  );
  if (mode === 'max')
    throw badModel('mode max is not supported: onnxruntime takes the greatest of the weighted pixels');
  // What ONNX calls half_pixel moves the scaled corners; OpenVINO's moves them also before they are scaled.
  const rois = node.input(1);
  const moved = aligned === 'half_pixel' ? node.g.one('Add', [rois, scalar(node, rois, 0.5)]) : rois;
  return node.one('RoiAlign', [node.input(0), moved, int64(node, node.input(2))], {
    mode,
    output_height: node.whole('pooled_h'),
    output_width: node.whole('pooled_w'),
    sampling_ratio: node.whole('sampling_ratio'),
    spatial_scale: { float: node.number('spatial_scale') },
    coordinate_transformation_mode: aligned === 'asymmetric' ? 'output_half_pixel' : 'half_pixel',
  });
};

/** Squashes the parts of each anchor's numbers that are not sizes. */
const regionYolo: Rule = (node) => {
  const x = node.input();
  const { g } = node;
  const [n, , height, width] = known(x) as [Dim, Dim, Dim, Dim];
  const [coordinates, classes] = [node.whole('coords', 4), node.whole('classes')];
  const mask = node.numbers('mask', []);
  const isSoft = node.flag('do_softmax', true);
  node.ignore('anchors');
  const anchors = isSoft ? node.whole('num', 1) : mask.length;
  node.ignore('num');
  const each = coordinates + 1 + classes;
  if (coordinates !== 4 || fixed(x, 1) !== anchors * each)
    throw badModel(
      `${anchors} anchors of ${each} numbers need ${anchors * each} channels, got ${fixed(x, 1)}`,
    );
  const [axis, end] = [node.whole('axis', 1), node.whole('end_axis', 3)];
  const apart = reshapeKnown(node, x, [n, anchors, each, height, width]);
  const squashed = g.one('Sigmoid', [apart]);
  const tail = cutAlong(node, isSoft ? apart : squashed, 2, 5, each);
  const scores = isSoft ? g.one('Softmax', [tail], { axis: 2 }) : tail;
  const parts = [
    cutAlong(node, squashed, 2, 0, 2),
    cutAlong(node, apart, 2, 2, 4),
    cutAlong(node, squashed, 2, 4, 5),
    scores,
  ];
  const whole = reshapeKnown(node, g.one('Concat', parts, { axis: 2 }), known(x));
  // With softmax the axes are joined; a net without it keeps them.
  if (!isSoft) return whole;
  const first = axis < 0 ? axis + 4 : axis;
  const last = end < 0 ? end + 4 : end;
  const joined = known(x).slice(first, last + 1);
  if (!joined.every((dim) => typeof dim === 'number')) throw badModel('joins a free size');
  return reshapeKnown(node, whole, [
    ...known(x).slice(0, first),
    joined.reduce((a, b) => a * b, 1),
    ...known(x).slice(last + 1),
  ]);
};

/** Darknet's reorganization: rows and columns become channels, in an order of its own. */
const reorgYolo: Rule = (node) => {
  const x = node.input();
  const stride = node.whole('stride');
  const [n, c, h, w] = known(x) as [Dim, Dim, Dim, Dim];
  const [channels, height, width] = [c, h, w].map((dim) => {
    if (typeof dim !== 'number') throw badModel('needs fixed sizes; give them with --input');
    return dim;
  }) as [number, number, number];
  if (stride < 1 || channels < stride ** 2 || height % stride !== 0 || width % stride !== 0)
    throw badModel(`reorganizes ${channels} x ${height} x ${width} by ${stride}`);
  const count = channels * height * width;
  if (count > 2 ** 24) throw badModel(`reorganizes ${count} numbers`);
  const inner = Math.floor(channels / stride ** 2);
  const order = new Array<number>(count).fill(0);
  for (let k = 0; k < channels; k++)
    for (let j = 0; j < height; j++)
      for (let i = 0; i < width; i++) {
        const shift = Math.floor(k / inner);
        const row = j * stride + Math.floor(shift / stride);
        const column = i * stride + (shift % stride);
        order[i + width * (j + height * k)] = column + width * stride * (row + height * stride * (k % inner));
      }
  const flat = reshapeKnown(node, x, [n, count]);
  const moved = node.g.one('Gather', [flat, node.g.ints(order)], { axis: 1 });
  return reshapeKnown(node, moved, [n, channels * stride ** 2, height / stride, width / stride]);
};

/** The best class of each step, without repetitions and blanks; the rest of each row is -1. */
const greedyDecoder: Rule = (node) => {
  const { g } = node;
  node.bindBatch();
  const [logits, mask] = [node.input(0), node.input(1)];
  const merges = node.flag('ctc_merge_repeated', true);
  const [steps, batch, classes] = [fixed(logits, 0), fixed(logits, 1), fixed(logits, 2)];
  const labels = g.one('Transpose', [g.one('ArgMax', [logits], { axis: 2, keepdims: 0 })], { perm: [1, 0] });
  const valid = g.one('Cast', [g.one('Transpose', [mask], { perm: [1, 0] })], { to: 9 });
  const made = compacted(node, labels, valid, { batch, steps, blank: classes - 1, merges });
  return reshapeKnown(node, cast(node, made.rows, 'float32'), [batch, steps, 1, 1]);
};

const greedyDecoderLengths: Rule = (node) => {
  const { g } = node;
  node.bindBatch();
  const [logits, lengths] = [node.input(0), node.input(1)];
  const merges = node.flag('merge_repeated', true);
  const [batch, steps, classes] = [fixed(logits, 0), fixed(logits, 1), fixed(logits, 2)];
  const blankIndex = node.optional(2);
  const blank = blankIndex ? (constantNumbers(blankIndex, 'blank')[0] as number) : classes - 1;
  const labels = g.one('ArgMax', [logits], { axis: 2, keepdims: 0 });
  const counting = g.constant({
    dtype: 'int64',
    shape: [1, steps],
    data: BigInt64Array.from({ length: steps }, (_, i) => BigInt(i)),
  });
  const valid = g.one('Less', [counting, g.one('Unsqueeze', [int64(node, lengths), g.ints([1])])]);
  const made = compacted(node, labels, valid, { batch, steps, blank, merges });
  const type = (name: string) => dtypeNamed(node.text(name, 'i32'));
  return [
    cast(node, made.rows, type('classes_index_type')),
    cast(node, made.counts, type('sequence_length_type')),
  ];
};

/** Moves what is kept to the front of its row. */
function compacted(
  node: OvNode,
  labels: Value,
  valid: Value,
  { batch, steps, blank, merges }: { batch: number; steps: number; blank: number; merges: boolean },
): { rows: Value; counts: Value } {
  const { g } = node;
  const isLabel = g.one('And', [valid, g.one('Not', [g.one('Equal', [labels, g.scalar('int64', blank)])])]);
  const first = g.one('Expand', [g.scalar('int64', -1), g.ints([batch, 1])]);
  const before = g.one('Concat', [first, cutAlong(node, labels, 1, 0, steps - 1)], { axis: 1 });
  const isNew = g.one('Not', [g.one('Equal', [labels, before])]);
  const kept = g.one('Cast', [merges ? g.one('And', [isLabel, isNew]) : isLabel], { to: 7 });
  const counts = g.one('ReduceSum', [kept, g.ints([1])], { keepdims: 0 });
  // What is not kept goes behind the row, where it is cut off.
  const place = g.one('Sub', [g.one('CumSum', [kept, g.scalar('int64', 1)]), g.scalar('int64', 1)]);
  const target = g.one('Where', [g.one('Cast', [kept], { to: 9 }), place, g.scalar('int64', steps)]);
  const empty = g.one('Expand', [g.scalar('int64', -1), g.ints([batch, steps + 1])]);
  const rows = cutAlong(node, g.one('ScatterElements', [empty, target, labels], { axis: 1 }), 1, 0, steps);
  return { rows, counts };
}

export const REGIONS: OpTable = {
  CTCGreedyDecoder: greedyDecoder,
  CTCGreedyDecoderSeqLen: greedyDecoderLengths,
  ROIAlign: roiAlign,
  ROIPooling: roiPooling,
  RegionYolo: regionYolo,
  ReorgYolo: reorgYolo,
};
