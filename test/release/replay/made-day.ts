/** Models of four classes, and a made day of captures of one of them: runs of many sizes, as a service has them. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { captureLine, headerLine } from '../../../lib/codecs/capture/write.ts';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { modelSettings } from '../../../lib/compose/model.ts';
import { openOnnx, RUNTIME } from '../../../lib/compose/onnx.ts';
import { answerSettings, type JobConfig } from '../../../lib/config/job.ts';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import { verify } from '../../../onnx-import/index.ts';
import type { Side } from '../../../release/diff/run.ts';
import { proofOptions } from '../../../release/options.ts';
import { objectLine } from '../../../release/replay/file.ts';
import { parseConfig } from '../../support/config.ts';
import { models } from '../../support/models.ts';
import { onnxModel } from '../../support/onnx.ts';

export const JOB = 'made-day';
const CONFIG = `jobName: ${JOB}`;
export const RECORDS = 96;
export const CLASSES = 4;
export const LABELS = ['ant', 'bee', 'cat', 'dog'];

export interface Choice {
  /** Changes a weight. */
  readonly weight?: (value: number, i: number) => number;
  readonly labels?: readonly string[];
  /** Names of the output. */
  readonly output?: string;
  readonly tail?: 'Softmax' | 'Sigmoid' | 'Relu';
}

/** x: float32 [N, 8] -> p: float32 [N, 4] */
export async function model(
  folder: string,
  { weight, labels = LABELS, output = 'p', tail = 'Softmax' }: Choice = {},
) {
  await mkdir(folder, { recursive: true });
  const values = (count: number, from: number) =>
    Float32Array.from({ length: count }, (_, i) => Math.sin(from + i * 1.7));
  const last = values(32 * CLASSES, 3).map((value, i) => weight?.(value, i) ?? value);
  const bytes = onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 8] }],
    outputs: [{ name: output, dtype: 'float32', shape: ['N', CLASSES] }],
    weights: [
      { name: 'a', dtype: 'float32', shape: [8, 32], data: values(8 * 32, 1) },
      { name: 'b', dtype: 'float32', shape: [32, CLASSES], data: last },
    ],
    nodes: [
      { op: 'MatMul', inputs: ['x', 'a'], outputs: ['h'] },
      { op: 'Tanh', inputs: ['h'], outputs: ['t'] },
      { op: 'MatMul', inputs: ['t', 'b'], outputs: ['z'] },
      { op: tail, inputs: ['z'], outputs: [output], ...(tail === 'Softmax' && { attributes: { axis: 1 } }) },
    ],
  });
  await writeFile(join(folder, 'model.onnx'), bytes);
  await writeFile(join(folder, 'labels.txt'), `${labels.join('\n')}\n`);
  const file = join(folder, 'model.onnx');
  return { file, verification: await verify(file, { ...proofOptions(job()), process: models }) };
}

export function job(more = ''): JobConfig {
  return parseConfig(`${CONFIG}\n${more}`, 'test');
}

function recordOf(i: number): Inputs {
  const row = Array.from({ length: 8 }, (_, column) => Math.cos(i * 8 + column));
  const [record] = decodeInstances(JSON.stringify({ instances: [{ x: row }] }));
  assert.ok(record);
  return record;
}

export async function capture(file: string, side: Side, settings: JobConfig, version = 'v1', threads = 1) {
  const runner = await openOnnx(side.file, version, {
    ...modelSettings(settings, threads),
    verification: side.verification,
  });
  const header = {
    capture: 1,
    job: JOB,
    version,
    settings: answerSettings(settings),
    runtime: { ...RUNTIME, threads },
    lost: 0,
  } as const;
  const lines = [
    objectLine(`captures/${JOB}/${version}/2026-11-28/000000000-0a1b2c3d-0.ndjson.gz`),
    headerLine(header),
  ];
  for (let i = 0, size = 1; i < RECORDS; i += size, size = (size % 7) + 1) {
    const records = Array.from({ length: size }, (_, k) => recordOf(i + k));
    const outcomes: Outcome[] = await runner.run(records);
    for (const [k, record] of records.entries()) {
      const facts = { at: 1_795_000_000_000 + i, source: 'queue', id: `uri-${i + k}` } as const;
      const outcome = outcomes[k];
      assert.ok(outcome);
      lines.push(captureLine(facts, [record], [outcome], { include: [], leaveOut: [] }));
    }
  }
  await runner.close();
  await writeFile(file, `${lines.join('\n')}\n`);
}
