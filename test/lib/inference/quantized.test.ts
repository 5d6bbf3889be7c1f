/** Sums of int8 on a processor that has VNNI, and on one that adds pairs of products in 16 bits, which saturate. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ALL_REWRITES, AS_WRITTEN } from '../../../lib/contract/verification.ts';
import { processorFeatures } from '../../../lib/inference/processor.ts';
import { openSession } from '../../../lib/inference/session.ts';
import { type ModelSpec, onnxModel, type WeightSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const run = promisify(execFile);
const [ROWS, COLUMNS] = [64, 4];
/** The sum of 64 products of the largest numbers: 255 times 127. */
const RIGHT = 255 * 127 * ROWS;

const number = (name: string, value: number): WeightSpec => ({
  name,
  dtype: 'float32',
  shape: [],
  data: Float32Array.of(value),
});
const SCALES: readonly WeightSpec[] = [
  number('one', 1),
  { name: 'zero', dtype: 'uint8', shape: [], data: new Uint8Array(1) },
  { name: 'zero8', dtype: 'int8', shape: [], data: new Int8Array(1) },
  // So that the answer is 200 quanta.
  number('scale', RIGHT / 200),
];
const quantized = ['x', 'one', 'zero'];

function model(nodes: ModelSpec['nodes'], shape = [ROWS, COLUMNS], more: readonly WeightSpec[] = []) {
  const weights = new Int8Array(ROWS * COLUMNS).fill(127);
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', ROWS] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: undefined }],
    nodes,
    weights: [{ name: 'w', dtype: 'int8', shape, data: weights }, ...SCALES, ...more],
  });
}

const byte: ModelSpec['nodes'][0] = { op: 'Cast', inputs: ['x'], outputs: ['q'], attributes: { to: 2 } };
const real: ModelSpec['nodes'][0] = { op: 'Cast', inputs: ['m'], outputs: ['y'], attributes: { to: 1 } };
const dequantized: ModelSpec['nodes'] = [
  { op: 'QuantizeLinear', inputs: quantized, outputs: ['q'] },
  { op: 'DequantizeLinear', inputs: ['q', 'one', 'zero'], outputs: ['xf'] },
  { op: 'DequantizeLinear', inputs: ['w', 'one', 'zero8'], outputs: ['wf'] },
];
const MODELS: Readonly<Record<string, Uint8Array>> = {
  MatMulInteger: model([byte, { op: 'MatMulInteger', inputs: ['q', 'w'], outputs: ['m'] }, real]),
  QLinearMatMul: model([
    { op: 'QuantizeLinear', inputs: quantized, outputs: ['q'] },
    {
      op: 'QLinearMatMul',
      inputs: ['q', 'one', 'zero', 'w', 'one', 'zero8', 'scale', 'zero'],
      outputs: ['m'],
    },
    { op: 'DequantizeLinear', inputs: ['m', 'scale', 'zero'], outputs: ['y'] },
  ]),
  QLinearConv: model(
    [
      { op: 'QuantizeLinear', inputs: quantized, outputs: ['flat'] },
      { op: 'Reshape', inputs: ['flat', 'picture'], outputs: ['q'] },
      {
        op: 'QLinearConv',
        inputs: ['q', 'one', 'zero', 'w', 'one', 'zero8', 'scale', 'zero'],
        outputs: ['m'],
      },
      { op: 'DequantizeLinear', inputs: ['m', 'scale', 'zero'], outputs: ['y'] },
    ],
    [COLUMNS, ROWS, 1, 1],
    [{ name: 'picture', dtype: 'int64', shape: [4], data: BigInt64Array.of(-1n, BigInt(ROWS), 1n, 1n) }],
  ),
  'MatMul between QDQ': model([...dequantized, { op: 'MatMul', inputs: ['xf', 'wf'], outputs: ['y'] }]),
  'MatMul between QDQ, quantized again': model([
    ...dequantized,
    { op: 'MatMul', inputs: ['xf', 'wf'], outputs: ['m'] },
    { op: 'QuantizeLinear', inputs: ['m', 'scale', 'zero'], outputs: ['mq'] },
    { op: 'DequantizeLinear', inputs: ['mq', 'scale', 'zero'], outputs: ['y'] },
  ]),
  'dynamic quantization': model([
    { op: 'DynamicQuantizeLinear', inputs: ['x'], outputs: ['q', 's', 'z'] },
    { op: 'MatMulInteger', inputs: ['q', 'w', 'z', 'zero8'], outputs: ['m'] },
    { op: 'Cast', inputs: ['m'], outputs: ['mf'], attributes: { to: 1 } },
    { op: 'Mul', inputs: ['mf', 's'], outputs: ['y'] },
  ]),
};
/** Unverified, with all rewrites, without any, and without those of quantized nodes. */
const WAYS = [
  undefined,
  ALL_REWRITES,
  AS_WRITTEN,
  { level: 'all', disabledOptimizers: ['QDQSelectorActionTransformer', 'MatMulIntegerToFloatFusion'] },
] as const;

/** The first element of each model's answer under each of the ways. */
async function answersIn(folder: string): Promise<Record<string, number[]>> {
  const answers: Record<string, number[]> = {};
  for (const [at, name] of Object.keys(MODELS).entries()) {
    answers[name] = [];
    for (const optimization of WAYS) {
      const session = await openSession(join(folder, `${at}.onnx`), { threads: 1, optimization });
      const [y] = await session.run([
        { dtype: 'float32', shape: [1, ROWS], data: new Float32Array(ROWS).fill(255) },
      ]);
      answers[name].push(Number(y?.data[0]));
      await session.close();
    }
  }
  return answers;
}

if (process.argv[2] === 'answer') {
  process.stdout.write(JSON.stringify(await answersIn(process.argv[3] as string)));
} else {
  const RIGHT_ANSWERS = Object.fromEntries(
    Object.keys(MODELS).map((name) => [name, WAYS.map(() => Math.fround(RIGHT))]),
  );
  const folderOfModels = async (t: Parameters<typeof temporaryFolder>[0]) => {
    const folder = await temporaryFolder(t);
    const files = Object.values(MODELS).map((bytes, at) => writeFile(join(folder, `${at}.onnx`), bytes));
    await Promise.all(files);
    return folder;
  };

  test('the features of a processor are read as Linux names them, on x64 and arm64', async (t) => {
    const file = join(await temporaryFolder(t), 'cpuinfo');
    const featuresOf = async (text: string) => {
      await writeFile(file, text);
      return processorFeatures(file);
    };
    const x64 = 'processor\t: 0\nflags\t\t: fpu avx avx2 avx512f avx512_vnni\nvmx flags\t: vnmi\n';
    assert.deepEqual(await featuresOf(x64), ['avx2', 'avx512f', 'avx512_vnni']);
    assert.deepEqual(await featuresOf('Features\t: fp asimd asimddp i8mm\n'), ['asimddp', 'i8mm']);
    assert.deepEqual(await featuresOf('model name\t: other\n'), []);
    assert.deepEqual(processorFeatures(join(file, 'missing')), []);
  });

  test('sums of int8 are exact on this processor', async (t) => {
    assert.deepEqual(await answersIn(await folderOfModels(t)), RIGHT_ANSWERS);
  });

  test('sums of int8 are exact on a processor without VNNI', async (t) => {
    const isLinux = process.platform === 'linux' && process.arch === 'x64';
    if (!isLinux || !/\bcpuid_fault\b/.test(readFileSync('/proc/cpuinfo', 'latin1')))
      return t.skip('needs Linux on a processor whose instruction CPUID can be answered by the process');
    const folder = await folderOfModels(t);
    const library = join(folder, 'without-vnni.so');
    const source = fileURLToPath(new URL('../../support/processor/without-vnni.c', import.meta.url));
    const compiled = await run('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']).catch(
      () => undefined,
    );
    if (!compiled) return t.skip('needs a C compiler');
    const script = fileURLToPath(import.meta.url);
    const cpuinfo = join(folder, 'cpuinfo');
    await writeFile(cpuinfo, 'flags\t\t: fpu sse4_2 avx2 fma\n');
    const { stdout } = await run(process.execPath, [script, 'answer', folder], {
      env: { ...process.env, LD_PRELOAD: library, CPUINFO: cpuinfo },
    });
    assert.deepEqual(JSON.parse(stdout), RIGHT_ANSWERS);
  });
}
