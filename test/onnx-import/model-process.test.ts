import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { crashText } from '../../onnx-import/process/crash.ts';
import { PREPARE, prepareModelProcess, withModelProcess } from '../../onnx-import/process/model-process.ts';
import { verifyModel } from '../../onnx-import/verify/verify.ts';
import { onnxModel } from '../support/onnx.ts';
import { temporaryFolder } from '../support/runner.ts';
import { until } from '../support/until.ts';

const int32 = (name: string, value: number) =>
  ({ name, dtype: 'int32', shape: [1], data: Int32Array.of(value) }) as const;

for (const op of ['Div', 'Mod']) {
  test(`a model that ends its process by ${op} is refused with the node, the inputs and what to do`, async (t) => {
    const file = join(await temporaryFolder(t), 'model.onnx');
    // The smallest number by -1, which has no result; computed from x, so that it is no constant.
    const nodes = [
      { op: 'Sub', inputs: ['x', 'x'], outputs: ['zero'] },
      { op: 'Add', inputs: ['zero', 'least'], outputs: ['a'] },
      { op: 'Add', inputs: ['zero', 'minus one'], outputs: ['b'] },
      { op, name: 'quotient', inputs: ['a', 'b'], outputs: ['y'] },
    ];
    const port = (name: string) => [{ name, dtype: 'int32', shape: ['N', 3] }] as const;
    const weights = [int32('least', -(2 ** 31)), int32('minus one', -1)];
    await writeFile(file, onnxModel({ inputs: port('x'), outputs: port('y'), nodes, weights }));
    await assert.rejects(verifyModel(file), (error: Error) => {
      assert.match(
        error.message,
        /ended its process \(SIGFPE\) while running .*model\.onnx with x int32 \[1,3\] of \d/,
      );
      assert.match(error.message, new RegExp(`in ${op} \\(node "quotient"\\); let the model`));
      return true;
    });
  });
}

test('what ended a process is said with the last run and with what else was written', () => {
  const errors =
    '\u0001running m.onnx with x of 1\nfree(): invalid pointer\n\u0001running m.onnx with x of 2\n';
  assert.equal(
    crashText('SIGABRT', errors, undefined),
    'onnxruntime ended its process (SIGABRT) while running m.onnx with x of 2: free(): invalid pointer; try another export of the model, or its float32 version, with a newer opset',
  );
  assert.match(
    crashText('SIGKILL', '', undefined),
    /^onnxruntime ended its process \(SIGKILL\); most likely the memory/,
  );
});

/** The processes in which this one tries models. */
async function children(): Promise<string[]> {
  const args = ['-P', String(process.pid), '-f', 'verify/process'];
  const { stdout } = await promisify(execFile)('pgrep', args).catch(() => ({ stdout: '' }));
  return stdout.split('\n').filter(Boolean);
}

/** A process has its name when its program has started. */
const haveStarted = (count: number) => until(async () => (await children()).length === count);

test('a process that was prepared takes the requests of the next caller alone, and ends with it', async () => {
  prepareModelProcess();
  await withModelProcess(undefined, async (first) => {
    assert.deepEqual(await first.ask(PREPARE, {}, { ms: 60_000 }), {});
    assert.equal((await children()).length, 1);
    await withModelProcess(undefined, async (second) => {
      await second.ask(PREPARE, {}, { ms: 60_000 });
      assert.equal((await children()).length, 2);
    });
  });
  await haveStarted(0);
});

test('a process that was prepared and is not needed ends', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  prepareModelProcess();
  // Each look takes some ms, for which no timer is needed.
  for (let looks = 0; looks < 1_000 && (await children()).length === 0; looks++);
  t.mock.timers.tick(9_999);
  assert.equal((await children()).length, 1);
  t.mock.timers.tick(2);
  t.mock.timers.reset();
  await haveStarted(0);
});
