/** Faster R-CNN's and R-FCN's layers against plain loops. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Box, overlap } from '../support/caffe/boxes.ts';
import { assertClose, inputText, noise, noiseTensor, runNet, tensor } from '../support/caffe/net.ts';

const REGIONS = tensor([3, 5], [0, 2, 3, 14, 15, 0, 0, 0, 5, 4, 0, 9, 1, 20, 13]);

test('PSROIPooling averages each bin from its own channels', async () => {
  const [bins, outputs, height, width, scale] = [3, 2, 9, 11, 0.5];
  const data = noiseTensor([1, outputs * bins * bins, height, width]);
  const text = `${inputText('data', [1, 18, height, width])} ${inputText('rois', [3, 5])}
    layer { name: "p" type: "PSROIPooling" bottom: "data" bottom: "rois" top: "out" psroi_pooling_param { spatial_scale: ${scale} output_dim: ${outputs} group_size: ${bins} } }`;
  const { out } = await runNet(text, {}, { data, rois: REGIONS });
  const expected: number[] = [];
  for (let r = 0; r < 3; r++) {
    const [x1, y1, x2, y2] = [1, 2, 3, 4].map((i) =>
      Math.round(Number(REGIONS.data[r * 5 + i])),
    ) as unknown as Box;
    const [left, top] = [x1 * scale, y1 * scale];
    const [w, h] = [
      Math.max((x2 + 1) * scale - left, 0.1) / bins,
      Math.max((y2 + 1) * scale - top, 0.1) / bins,
    ];
    for (let c = 0; c < outputs; c++)
      for (let py = 0; py < bins; py++)
        for (let px = 0; px < bins; px++) {
          const clip = (value: number, size: number) => Math.min(Math.max(value, 0), size);
          const [ys, ye] = [
            clip(Math.floor(py * h + top), height),
            clip(Math.ceil((py + 1) * h + top), height),
          ];
          const [xs, xe] = [
            clip(Math.floor(px * w + left), width),
            clip(Math.ceil((px + 1) * w + left), width),
          ];
          let sum = 0;
          for (let y = ys; y < ye; y++)
            for (let x = xs; x < xe; x++)
              sum += Number(data.data[(((c * bins + py) * bins + px) * height + y) * width + x]);
          expected.push(ye > ys && xe > xs ? sum / ((ye - ys) * (xe - xs)) : 0);
        }
  }
  assertClose(out, tensor([3, outputs, bins, bins], expected));
});

test('ROIPooling takes the largest of each bin', async () => {
  const [height, width] = [9, 11];
  const data = noiseTensor([1, 2, height, width]);
  const text = `${inputText('data', [1, 2, height, width])} ${inputText('rois', [3, 5])}
    layer { name: "p" type: "ROIPooling" bottom: "data" bottom: "rois" top: "out" roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 } }`;
  const { out } = await runNet(text, {}, { data, rois: REGIONS });
  const expected: number[] = [];
  for (let r = 0; r < 3; r++) {
    const [x1, y1, x2, y2] = [1, 2, 3, 4].map((i) =>
      Math.round(Number(REGIONS.data[r * 5 + i]) * 0.5),
    ) as unknown as Box;
    const [w, h] = [Math.max(x2 - x1 + 1, 1) / 3, Math.max(y2 - y1 + 1, 1) / 2];
    for (let c = 0; c < 2; c++)
      for (let py = 0; py < 2; py++)
        for (let px = 0; px < 3; px++) {
          const values: number[] = [];
          for (let y = y1 + Math.floor(py * h); y < Math.min(height, y1 + Math.ceil((py + 1) * h)); y++)
            for (let x = x1 + Math.floor(px * w); x < Math.min(width, x1 + Math.ceil((px + 1) * w)); x++)
              values.push(Number(data.data[(c * height + y) * width + x]));
          expected.push(values.length > 0 ? Math.max(...values) : 0);
        }
  }
  assertClose(out, tensor([3, 2, 2, 3], expected));
});

/** generate_anchors.py */
function naiveAnchors(): Box[] {
  const anchors: Box[] = [];
  for (const ratio of [0.5, 1, 2]) {
    const w = Math.round(Math.sqrt(256 / ratio));
    const h = Math.round(w * ratio);
    for (const scale of [1, 2]) {
      const [x, y] = [(w * scale - 1) / 2, (h * scale - 1) / 2];
      anchors.push([7.5 - x, 7.5 - y, 7.5 + x, 7.5 + y]);
    }
  }
  return anchors;
}

test('Proposal moves its anchors, drops small boxes and suppresses what overlaps', async () => {
  const [height, width, stride] = [5, 6, 8];
  const anchors = naiveAnchors();
  const a = anchors.length;
  const scores = tensor([1, 2 * a, height, width], noise(2 * a * height * width, 3).map(Math.abs));
  const offsets = noiseTensor([1, 4 * a, height, width], 4);
  const info = tensor([1, 3], [40, 50, 0.8]);
  const text = `${inputText('cls', scores.shape)} ${inputText('box', offsets.shape)} ${inputText('info', [1, 3])}
    layer { name: "p" type: "Proposal" bottom: "cls" bottom: "box" bottom: "info" top: "rois" top: "scores"
      proposal_param { feat_stride: ${stride} ratio: 0.5 ratio: 1 ratio: 2 scale: 1 scale: 2 min_size: 16 pre_nms_topn: 60 post_nms_topn: 10 nms_thresh: 0.5 } }`;
  const results = await runNet(text, {}, { cls: scores, box: offsets, info });
  const at = (data: ArrayLike<unknown>, channel: number, y: number, x: number) =>
    Number(data[(channel * height + y) * width + x]);
  const all: { box: Box; score: number }[] = [];
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (const [i, anchor] of anchors.entries()) {
        const [w, h] = [anchor[2] - anchor[0] + 1, anchor[3] - anchor[1] + 1];
        const d = [0, 1, 2, 3].map((k) => at(offsets.data, i * 4 + k, y, x)) as unknown as Box;
        const cx = d[0] * w + anchor[0] + x * stride + 0.5 * w;
        const cy = d[1] * h + anchor[1] + y * stride + 0.5 * h;
        const [pw, ph] = [Math.exp(d[2]) * w, Math.exp(d[3]) * h];
        const clip = (value: number, limit: number) => Math.max(0, Math.min(value, limit));
        const box: Box = [
          clip(cx - pw / 2, 49),
          clip(cy - ph / 2, 39),
          clip(cx + pw / 2, 49),
          clip(cy + ph / 2, 39),
        ];
        const isLarge = box[2] - box[0] + 1 >= 16 * 0.8 && box[3] - box[1] + 1 >= 16 * 0.8;
        if (isLarge) all.push({ box, score: at(scores.data, a + i, y, x) });
      }
  const kept: { box: Box; score: number }[] = [];
  for (const candidate of all.sort((p, q) => q.score - p.score).slice(0, 60))
    if (kept.length < 10 && kept.every(({ box }) => overlap(box, candidate.box, 1) <= 0.5))
      kept.push(candidate);
  assert.ok(kept.length > 4);
  assertClose(
    results.rois,
    tensor(
      [kept.length, 5],
      kept.flatMap(({ box }) => [0, ...box]),
    ),
    1e-4,
  );
  assertClose(
    results.scores,
    tensor(
      [kept.length, 1],
      kept.map(({ score }) => score),
    ),
  );
});
