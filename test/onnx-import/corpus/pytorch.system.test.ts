/** Every PyTorch model of the shared corpus: converted, run by onnxruntime, compared with its reference. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import { openSession } from '../../../lib/inference/session.ts';
import { readNpy } from '../../../onnx-import/files/npy.ts';
import { convertPytorch } from '../../../onnx-import/formats/pytorch/convert.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { temporaryFolder } from '../../support/runner.ts';

const CORPUS = sharedPath('corpus/pytorch');
/** A share of each output's spread. */
const TOLERANCE = 1e-4;

const names = existsSync(CORPUS) ? readdirSync(CORPUS).sort() : [];

test('the shared PyTorch corpus is here', (t) => {
  if (names.length === 0) t.skip('needs ../shared/corpus/pytorch, which is not on this machine');
  else assert.ok(names.length >= 40);
});

function tensors(directory: string, prefix: string): Tensor[] {
  const files = readdirSync(directory).filter((name) => new RegExp(`^${prefix}\\d+\\.npy$`).test(name));
  return files.sort().map((name) => readNpy(readFileSync(join(directory, name)), name));
}

/** The names of the inputs, which the error about their shapes lists. */
async function inputNames(directory: string): Promise<string[]> {
  const error = await convertPytorch(directory, 'model.pt', {}).then(
    () => undefined,
    (reason: unknown) => reason as Error,
  );
  return Array.from(
    (error?.message ?? '').matchAll(/shape of input "([^"]+)"/g),
    (match) => match[1] as string,
  );
}

function assertNear(actual: Tensor | undefined, expected: Tensor): void {
  assert.deepEqual(actual?.shape, expected.shape);
  const [got, want] = [actual?.data, expected.data].map((data) =>
    Array.from(data as ArrayLike<number>, Number),
  );
  const wanted = want as number[];
  const spread = Math.max(...wanted) - Math.min(...wanted) || Math.abs(wanted[0] ?? 1) || 1;
  for (const [i, value] of wanted.entries())
    assert.ok(
      Math.abs((got?.[i] ?? Number.NaN) - value) <= TOLERANCE * spread,
      `[${i}]: got ${got?.[i]}, expected ${value}`,
    );
}

for (const name of names) {
  const directory = join(CORPUS, name);
  const inputs = tensors(directory, 'in');
  if (inputs.length === 0)
    test(`${name} is refused by what the data decide`, async () => {
      const found = await inputNames(directory);
      const inputShapes = Object.fromEntries(found.map((input) => [input, ['int64', 1]]));
      await assert.rejects(convertPytorch(directory, 'model.pt', { inputShapes }), {
        code: 'bad_model',
        message: /a loop whose count the data decide/,
      });
    });
  else
    test(`${name} gives its reference output`, async (t) => {
      const found = await inputNames(directory);
      // The types are left to the importer: it finds what is an index.
      const inputShapes = Object.fromEntries(found.map((input, i) => [input, inputs[i]?.shape ?? []]));
      const { graph } = await convertPytorch(directory, 'model.pt', { inputShapes });
      const path = join(await temporaryFolder(t), 'model.onnx');
      await writeOnnx(graph, path, { producerVersion: 'test' });
      const session = await openSession(path, { threads: 2 });
      try {
        const given = session.inputs.map((input) => inputs[found.indexOf(input.name)] as Tensor);
        const results = await session.run(given);
        for (const [i, expected] of tensors(directory, 'out').entries()) assertNear(results[i], expected);
      } finally {
        await session.close();
      }
    });
}
