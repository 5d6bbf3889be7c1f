/** Every Caffe model of the shared corpus: converted, run by onnxruntime, compared with its reference. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { openSession, type Session } from '../../../lib/inference/session.ts';
import { convertCaffe } from '../../../onnx-import/formats/caffe/convert.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { readNpy } from '../../support/npy.ts';

const CORPUS = sharedPath('corpus/caffe');

interface Manifest {
  readonly inputs: readonly { readonly file: string; readonly name: string }[];
  readonly outputs: readonly { readonly file: string; readonly name: string | null }[];
  readonly tolerance: { readonly atol: number; readonly rtol: number };
  readonly inputShapes?: Record<string, number[]>;
  readonly notes: string;
}

let folder: string;
const lines: string[] = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cs-caffe-'));
});

after(async () => {
  await rm(folder, { recursive: true, force: true });
  if (lines.length > 0) console.log(['model | max error | batch 2 | import ms', ...lines].join('\n'));
});

/** The largest difference, after each element was held against the tolerance. */
function compare(
  actual: Tensor,
  expected: Tensor,
  { atol, rtol }: Manifest['tolerance'],
  what: string,
): number {
  assert.deepEqual(actual.shape, expected.shape, `${what}: shape`);
  let worst = 0;
  for (let i = 0; i < expected.data.length; i++) {
    const [got, want] = [Number(actual.data[i]), Number(expected.data[i])];
    const difference = Math.abs(got - want);
    assert.ok(difference <= atol + rtol * Math.abs(want), `${what}[${i}]: got ${got}, expected ${want}`);
    worst = Math.max(worst, difference);
  }
  return worst;
}

function row(tensor: Tensor, at: number): Tensor {
  const size = tensor.data.length / (tensor.shape[0] as number);
  const data = (tensor.data as Float32Array).slice(at * size, (at + 1) * size);
  return { dtype: 'float32', shape: [1, ...tensor.shape.slice(1)], data };
}

/** Two different records together give what each gives alone. */
async function checkRows(session: Session, inputs: readonly Tensor[]): Promise<string> {
  if (!session.inputs.every(({ shape }) => typeof shape[0] !== 'number' || shape[0] < 0)) return 'fixed';
  const first = inputs.map((input) => row(input, 0));
  const second = first.map((input) => ({ ...input, data: (input.data as Float32Array).toReversed() }));
  const joined = first.map(({ shape, data }, i): Tensor => {
    const both = new Float32Array(2 * data.length);
    both.set(data as Float32Array);
    both.set((second[i] as Tensor).data as Float32Array, data.length);
    return { dtype: 'float32', shape: [2, ...shape.slice(1)], data: both };
  });
  const together = await session.run(joined);
  for (const [at, single] of [first, second].entries())
    for (const [i, alone] of (await session.run(single)).entries())
      compare(row(together[i] as Tensor, at), alone, { atol: 1e-5, rtol: 1e-4 }, `row ${at}`);
  return 'equal';
}

async function check(name: string, manifest: Manifest): Promise<void> {
  const directory = join(CORPUS, name);
  const start = performance.now();
  const { inputShapes } = manifest;
  const { graph } = await convertCaffe(directory, inputShapes ? { inputShapes } : {});
  const path = join(folder, `${name}.onnx`);
  await writeOnnx(graph, path, { producerVersion: 'test' });
  const importMs = performance.now() - start;
  const session = await openSession(path, { threads: 2 });
  try {
    const files = new Map<string, Tensor>();
    for (const { file, name: input } of manifest.inputs)
      files.set(input, readNpy(await readFile(join(directory, file))));
    assert.deepEqual(session.inputs.map((input) => input.name).sort(), [...files.keys()].sort());
    const inputs = session.inputs.map((input) => files.get(input.name) as Tensor);
    const results = await session.run(inputs);
    let worst = 0;
    for (const { file, name: output } of manifest.outputs) {
      const result = output === null ? results[0] : results.find((each) => each.name === output);
      assert.ok(result, `has no output ${output}, only ${results.map((each) => each.name).join(', ')}`);
      const expected = readNpy(await readFile(join(directory, file)));
      worst = Math.max(worst, compare(result, expected, manifest.tolerance, `${name} ${output}`));
    }
    const rows = await checkRows(session, inputs);
    lines.push(`${name} | ${worst.toExponential(1)} | ${rows} | ${importMs.toFixed(0)}`);
  } finally {
    await session.close();
  }
}

const names = existsSync(CORPUS) ? readdirSync(CORPUS).sort() : [];

test('the shared Caffe corpus is here', (t) => {
  if (names.length === 0) t.skip('needs ../shared/corpus/caffe, which is not on this machine');
  else assert.ok(names.length >= 15);
});

for (const name of names) {
  const manifest = JSON.parse(readFileSync(join(CORPUS, name, 'manifest.json'), 'utf8')) as Manifest;
  if (manifest.outputs.length === 0)
    test(`${name} is refused with the layer's type, name and file`, async () => {
      await assert.rejects(convertCaffe(join(CORPUS, name), {}), {
        code: 'bad_model',
        message:
          /model\.prototxt: one node cannot be converted:\n {2}Dummy \(node "customized"\): is not supported/,
      });
    });
  else test(`${name} gives its reference output`, () => check(name, manifest));
  if (manifest.inputShapes)
    test(`${name} without its shape is refused with the option that is missing`, async () => {
      await assert.rejects(convertCaffe(join(CORPUS, name), {}), {
        code: 'bad_model',
        message: /layer "conv" \(Convolution\) has no input.*--input data:<shape>/,
      });
    });
}
