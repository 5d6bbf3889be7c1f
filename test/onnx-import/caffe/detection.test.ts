/** SSD's layers against plain loops over the formulas of its code. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { type Box, overlap } from '../support/caffe/boxes.ts';
import {
  assertClose,
  convertNet,
  inputText,
  noise,
  noiseTensor,
  runNet,
  tensor,
} from '../support/caffe/net.ts';

const PRIORS = `${inputText('feature', [1, 2, 2, 3])} ${inputText('image', [1, 3, 40, 60])}
  layer { name: "p" type: "PriorBox" bottom: "feature" bottom: "image" top: "priors" prior_box_param { PARAMETERS } }
  layer { name: "keep" type: "Reduction" bottom: "feature" top: "kept" }`;

async function priorsOf(parameters: string): Promise<number[]> {
  const { graph } = await convertNet(
    PRIORS.replace('PARAMETERS', parameters),
    {},
    { outputNames: ['priors'] },
  );
  const copy = graph.nodes.find(({ inputs }) => inputs[0]?.constant);
  return Array.from(copy?.inputs[0]?.constant?.data as Float32Array);
}

test('PriorBox becomes a constant of boxes and variances around the cell centers', async () => {
  const numbers = await priorsOf(
    'min_size: 8 max_size: 18 aspect_ratio: 2 aspect_ratio: 1 flip: true clip: false variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2',
  );
  const sizes: [number, number][] = [
    [8, 8],
    [12, 12],
    [8 * Math.SQRT2, 8 / Math.SQRT2],
    [8 / Math.SQRT2, 8 * Math.SQRT2],
  ];
  const expected: number[] = [];
  for (let y = 0; y < 2; y++)
    for (let x = 0; x < 3; x++)
      for (const [w, h] of sizes) {
        const [cx, cy] = [(x + 0.5) * 20, (y + 0.5) * 20];
        expected.push((cx - w / 2) / 60, (cy - h / 2) / 40, (cx + w / 2) / 60, (cy + h / 2) / 40);
      }
  const variances = expected.map((_, i) => [0.1, 0.1, 0.2, 0.2][i % 4] as number);
  assertClose(tensor([1, 2, 96], numbers), tensor([1, 2, 96], [...expected, ...variances]));
});

test('PriorBox takes size, step and offset from its parameters, and clips', async () => {
  const numbers = await priorsOf('min_size: 30 flip: false clip: true img_size: 100 step: 50 offset: 0.1');
  const expected: number[] = [];
  for (let y = 0; y < 2; y++)
    for (let x = 0; x < 3; x++) {
      const [cx, cy] = [(x + 0.1) * 50, (y + 0.1) * 50];
      const box = [cx - 15, cy - 15, cx + 15, cy + 15];
      expected.push(...box.map((edge) => Math.min(1, Math.max(0, edge / 100))));
    }
  const variances = expected.map(() => 0.1);
  assertClose(tensor([1, 2, 24], numbers), tensor([1, 2, 24], [...expected, ...variances]));
});

interface Detection {
  readonly classes: number;
  readonly shared: boolean;
  readonly code: 'CORNER' | 'CENTER_SIZE' | 'CORNER_SIZE';
  readonly encoded: boolean;
  readonly background: number;
  readonly topK: number;
  readonly keepTopK: number;
}

function decode(prior: Box, variance: Box, offset: Box, { code, encoded }: Detection): Box {
  const d = offset.map((x, i) => (encoded ? x : x * (variance[i] as number))) as unknown as Box;
  const [w, h] = [prior[2] - prior[0], prior[3] - prior[1]];
  if (code === 'CORNER') return prior.map((x, i) => x + (d[i] as number)) as unknown as Box;
  if (code === 'CORNER_SIZE')
    return [prior[0] + d[0] * w, prior[1] + d[1] * h, prior[2] + d[2] * w, prior[3] + d[3] * h];
  const [cx, cy] = [d[0] * w + (prior[0] + prior[2]) / 2, d[1] * h + (prior[1] + prior[3]) / 2];
  const [bw, bh] = [Math.exp(d[2]) * w, Math.exp(d[3]) * h];
  return [cx - bw / 2, cy - bh / 2, cx + bw / 2, cy + bh / 2];
}

/** detection_output_layer.cpp in plain loops. */
function naiveDetection(loc: Tensor, conf: Tensor, prior: Tensor, options: Detection): number[][] {
  const { classes, shared, background, topK, keepTopK } = options;
  const count = conf.data.length / classes;
  const box = (data: ArrayLike<unknown>, at: number) =>
    [0, 1, 2, 3].map((i) => Number(data[at + i])) as unknown as Box;
  let rows: number[][] = [];
  for (let label = 0; label < classes; label++) {
    if (label === background) continue;
    const boxes = Array.from({ length: count }, (_, i) => {
      const at = shared ? i * 4 : (i * classes + label) * 4;
      return decode(box(prior.data, i * 4), box(prior.data, (count + i) * 4), box(loc.data, at), options);
    });
    const candidates = Array.from({ length: count }, (_, i) => ({
      i,
      score: Number(conf.data[i * classes + label]),
    }))
      .filter(({ score }) => score > 0.3)
      .sort((a, b) => b.score - a.score)
      .slice(0, topK < 0 ? count : topK);
    const kept: { i: number; score: number }[] = [];
    for (const candidate of candidates)
      if (kept.every(({ i }) => overlap(boxes[i] as Box, boxes[candidate.i] as Box) <= 0.45))
        kept.push(candidate);
    rows.push(...kept.map(({ i, score }) => [0, label, score, ...(boxes[i] as Box)]));
  }
  if (keepTopK >= 0 && rows.length > keepTopK) {
    const best = new Set([...rows].sort((a, b) => (b[2] as number) - (a[2] as number)).slice(0, keepTopK));
    rows = rows.filter((row) => best.has(row));
  }
  return rows;
}

const COUNT = 40;

function detectionInputs({ classes, shared }: Detection) {
  const positions = noise(COUNT * 2, 11);
  const prior = new Float32Array(COUNT * 8).fill(0.2);
  for (let i = 0; i < COUNT; i++) {
    const [x, y] = [(positions[2 * i] as number) * 0.3 + 0.5, (positions[2 * i + 1] as number) * 0.3 + 0.5];
    prior.set([x - 0.15, y - 0.1, x + 0.15, y + 0.1], i * 4);
  }
  return {
    loc: noiseTensor([1, COUNT * 4 * (shared ? 1 : classes)], 12),
    conf: tensor([1, COUNT * classes], noise(COUNT * classes, 13).map(Math.abs)),
    prior: tensor([1, 2, COUNT * 4], prior),
  };
}

function detectionText(
  options: Detection,
  inputs: Readonly<Record<string, Tensor>>,
  threshold = 0.3,
): string {
  const declared = Object.entries(inputs).map(([name, { shape }]) => inputText(name, shape));
  return `${declared.join('')} layer { name: "d" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "prior" top: "out"
    detection_output_param { num_classes: ${options.classes} share_location: ${options.shared} background_label_id: ${options.background}
    nms_param { nms_threshold: 0.45 top_k: ${options.topK} } code_type: ${options.code} keep_top_k: ${options.keepTopK}
    variance_encoded_in_target: ${options.encoded} confidence_threshold: ${threshold} } }`;
}

const PLAIN: Detection = {
  classes: 3,
  shared: true,
  code: 'CENTER_SIZE',
  encoded: false,
  background: 0,
  topK: 400,
  keepTopK: 200,
};

const DETECTIONS: readonly [string, Detection][] = [
  ['decodes centers and suppresses each class', PLAIN],
  ['cuts candidates before suppression', { ...PLAIN, topK: 6 }],
  ['keeps the best of all classes in their order', { ...PLAIN, keepTopK: 7 }],
  ['keeps everything without limits', { ...PLAIN, topK: -1, keepTopK: -1 }],
  ['has boxes for each class', { ...PLAIN, shared: false }],
  ['adds offsets to corners', { ...PLAIN, code: 'CORNER' }],
  ['adds offsets by size to corners', { ...PLAIN, code: 'CORNER_SIZE', background: 2 }],
  ['leaves variances out when targets have them', { ...PLAIN, encoded: true, background: -1 }],
];

for (const [what, options] of DETECTIONS)
  test(`DetectionOutput ${what}`, async () => {
    const inputs = detectionInputs(options);
    const text = detectionText(options, inputs);
    const { out } = await runNet(text, {}, inputs);
    const expected = naiveDetection(inputs.loc, inputs.conf, inputs.prior, options);
    assert.ok(expected.length > 5);
    assertClose(out, tensor([1, 1, expected.length, 7], expected.flat()));
  });

test('DetectionOutput without a detection gives one row that says so', async () => {
  const inputs = detectionInputs(PLAIN);
  const { out } = await runNet(detectionText(PLAIN, inputs, 2), {}, inputs);
  assertClose(out, tensor([1, 1, 1, 7], [0, -1, -1, -1, -1, -1, -1]));
});

test('DetectionOutput of a batch is for one record', async () => {
  const inputs = detectionInputs(PLAIN);
  const wide = {
    ...inputs,
    loc: { ...inputs.loc, shape: [4, COUNT * 4] },
    conf: { ...inputs.conf, shape: [4, COUNT * 3] },
    prior: { ...inputs.prior, shape: [4, 2, COUNT * 4] },
  };
  const { graph, notes } = await convertNet(detectionText(PLAIN, wide));
  assert.deepEqual(
    graph.inputs.map(({ shape }) => shape?.[0]),
    [1, 1, 1],
  );
  assert.match(notes.join(), /the batch of 4 became 1/);
});

test('DetectionOutput refuses inputs that do not belong together', async () => {
  const inputs = detectionInputs(PLAIN);
  const wrong = { ...inputs, conf: noiseTensor([1, COUNT * 3 + 1]) };
  await assert.rejects(convertNet(detectionText(PLAIN, wrong)), {
    code: 'bad_model',
    message: /40 priors and 3 classes need inputs of 160 and 120 numbers, got 160 and 121/,
  });
});
