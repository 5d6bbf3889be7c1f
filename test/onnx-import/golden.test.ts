/** Golden requests: what a file may hold, what counts as another answer, and what refuses to serve. */
import assert from 'node:assert/strict';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { ANALYSER_VERSION } from '../../lib/contract/verification.ts';
import { RUNTIME } from '../../lib/inference/session.ts';
import { assertGolden } from '../../release/golden/check.ts';
import { firstDifference } from '../../release/golden/compare.ts';
import { goldenRequests, writeGolden } from '../../release/golden/file.ts';
import { goldenOfReference } from '../../release/golden/reference.ts';
import { models } from '../support/models.ts';
import { onnxModel } from '../support/onnx.ts';
import { rewrittenModel } from '../support/rewritten-model.ts';
import { temporaryFolder } from '../support/runner.ts';
import { npyBytes } from './support/npy-bytes.ts';

/** y = 2x, z = x + 1, for rows of two numbers. */
const TWO_OUTPUTS = onnxModel({
  inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
  outputs: [
    { name: 'y', dtype: 'float32', shape: ['N', 2] },
    { name: 'z', dtype: 'float32', shape: ['N', 2] },
  ],
  weights: [{ name: 'one', dtype: 'float32', shape: [1], data: Float32Array.of(1) }],
  nodes: [
    { op: 'Add', inputs: ['x', 'x'], outputs: ['y'] },
    { op: 'Add', inputs: ['x', 'one'], outputs: ['z'] },
  ],
});

async function modelFolder(t: TestContext) {
  const directory = await temporaryFolder(t);
  const file = join(directory, 'model.onnx');
  await writeFile(file, TWO_OUTPUTS);
  await mkdir(join(directory, 'golden'));
  const save = (text: string, name = 'one') => writeFile(join(directory, 'golden', `${name}.json`), text);
  const check = () =>
    assertGolden(directory, { file, job: DEFAULT_JOB, verification: undefined, process: models });
  return { directory, file, save, check };
}

const answer = (y: string, z: string) => `{value=[{"data":[${y}],"shape":[2]},{"data":[${z}],"shape":[2]}]}`;
const request = (...predictions: string[]) =>
  JSON.stringify({ instances: predictions.map((_, i) => ({ x: [i + 1, 10] })), predictions });

test('a model that gives the recorded answers passes, and each other answer is named with its place', async (t) => {
  const { save, check } = await modelFolder(t);
  await save(request(answer('2.0,20.0', '2.0,11.0'), answer('4.0,20.0', '3.0,11.0')));
  assert.equal((await check()).count, 1);
  await save(request(answer('2.0,20.0', '2.0,11.0'), answer('4.0,20.0', '3.0,11.5')));
  await assert.rejects(check(), (error: Error) => {
    assert.match(error.message, /1 of 1 golden requests got another answer, so this version does not serve/);
    assert.match(
      error.message,
      /one: instance 1, output 1, element 1: expected 11\.5, got 11\.0 \(tolerance/,
    );
    return true;
  });
});

test('golden requests that cannot be listed, or have another ending, are refused, and files of other kinds are not read', async (t) => {
  const { directory, save, check } = await modelFolder(t);
  const folder = join(directory, 'golden');
  await writeFile(join(folder, 'README.md'), 'why');
  await save(request(answer('2.0,20.0', '2.0,11.0')));
  assert.equal((await check()).count, 1);
  await writeFile(join(folder, 'two.JSON'), request(answer('2.0,20.0', '2.0,11.5')));
  await assert.rejects(check(), { code: 'bad_model', message: /two\.JSON: expected a name in .json/ });
  await rm(folder, { recursive: true });
  assert.equal((await check()).count, 0);
  await writeFile(folder, request(answer('2.0,20.0', '2.0,11.5')));
  await assert.rejects(check(), {
    code: 'bad_model',
    message: /golden cannot be read: .*ENOTDIR/,
  });
});

test('golden requests are asked of the model as it is going to serve, with the rewrites off that change it', async (t) => {
  const { directory, file, save } = await modelFolder(t);
  await writeFile(file, rewrittenModel);
  await save(
    '{"instances":[{"x":[[[3]]]}],"predictions":["{value={\\"data\\":[3.0],\\"shape\\":[1,1,1]}}"]}',
  );
  const checkWith = (disabledOptimizers: readonly string[]) => {
    const batching = { verdict: 'proven', analyser: ANALYSER_VERSION } as const;
    const runtime = { ...RUNTIME, level: 'all', disabledOptimizers } as const;
    const verification = { batching, runtime, comparison: 'agrees' } as const;
    return assertGolden(directory, { file, job: DEFAULT_JOB, verification, process: models });
  };
  assert.equal((await checkWith(['ConvMulFusion'])).count, 1);
  await assert.rejects(checkWith([]), /expected 3\.0, got 0\.0/);
});

test('an answer that differs names another processor under which it was made, and nothing else', async (t) => {
  const { save, check } = await modelFolder(t);
  const withMade = (features: readonly string[]) => {
    const right = JSON.parse(request(answer('2.0,20.0', '2.0,99.0'))) as object;
    return JSON.stringify({ ...right, made: { threads: 3, features } });
  };
  await save(withMade(['avx2', 'some_other']));
  await assert.rejects(
    check(),
    /expected 99\.0, got 11\.0 .*; it was recorded on a processor with avx2, some_other, and this/,
  );
  await save(withMade(RUNTIME.features ?? []));
  await assert.rejects(check(), (error: Error) => {
    assert.doesNotMatch(error.message, /recorded|threads/);
    return true;
  });
});

test('a request that the model refuses fails with the reason', async (t) => {
  const { save, check } = await modelFolder(t);
  await save('{"instances":[{"x":[1,2,3]}],"predictions":["{value=1}"]}');
  await assert.rejects(check(), /one: failed: .*"x"/);
});

test('a file that is no golden request is refused with its path and what was expected', async (t) => {
  const { directory, save } = await modelFolder(t);
  const refused = async (text: string, message: RegExp) => {
    await save(text);
    await assert.rejects(goldenRequests(directory), (error: Error) => {
      assert.match(error.message, /golden\/one\.json: /);
      assert.match(error.message, message);
      return true;
    });
  };
  await refused('{"instances"', /not JSON/);
  await refused('[]', /expected an object/);
  await refused('{"instances":[{}],"predictions":["a"],"tolerence":1}', /unknown key "tolerence"/);
  await refused('{"instances":[{}],"predictions":["a"],"made":{"threads":"2"}}', /made: expected/);
  await refused('{"predictions":["a"]}', /instances: expected an array/);
  await refused('{"instances":[{},{}],"predictions":["a"]}', /predictions: .*one text for each instance/);
  for (const tolerance of ['1', '-0.1', '"0.1"', 'null']) {
    await refused(`{"instances":[{}],"predictions":["a"],"tolerance":${tolerance}}`, /tolerance: expected/);
  }
});

test('a request is written as it came, with the order of its names and every digit', async (t) => {
  const { directory } = await modelFolder(t);
  const text = '{"instances": [{"2": 9007199254740993, "1": 0.10}]}';
  const made = { threads: 4, features: ['avx2'] };
  const path = await writeGolden(
    directory,
    { name: 'kept', request: text, predictions: ['{value=1}'], tolerance: 0.01, made },
    false,
  );
  assert.ok((await readFile(path, 'utf8')).includes('"instances": [{"2": 9007199254740993, "1": 0.10}]}'));
  const [golden] = await goldenRequests(directory);
  assert.deepEqual([golden?.name, golden?.predictions, golden?.tolerance], ['kept', ['{value=1}'], 0.01]);
  assert.deepEqual(golden?.made, made);
  const again = { name: 'kept', request: text, predictions: ['{value=2}'], tolerance: 0 };
  await assert.rejects(writeGolden(directory, again, false), /exists; choose another --name/);
  await writeGolden(directory, again, true);
  assert.deepEqual((await goldenRequests(directory))[0]?.predictions, ['{value=2}']);
  await assert.rejects(writeGolden(directory, { ...again, name: '../up' }, false), /expected a name/);
});

test('floats may differ by a share of the spread of their own output, and nothing else may differ at all', () => {
  const differs = (expected: string, got: string, outputs = 1, tolerance = 0.01) =>
    firstDifference(expected, got, { outputs, tolerance });
  const data = (values: string) => `{value={"data":[${values}],"shape":[2]}}`;
  assert.equal(differs(data('0.0,10.0'), data('0.09,10.0')), undefined);
  assert.deepEqual(differs(data('0.0,10.0'), data('0.2,10.0')), {
    output: 0,
    element: 0,
    expected: '0.0',
    got: '0.2',
    spread: 10,
  });
  // The first output's spread is no excuse for the second.
  assert.equal(differs(answer('0.0,1000.0', '0.5,0.6'), answer('0.0,1000.0', '0.5,0.7'), 2)?.output, 1);
  assert.equal(differs(data('3,4'), data('3,5'))?.element, 1);
  assert.equal(differs(data('"a","b"'), data('"a","c"'))?.got, '"c"');
  assert.equal(differs(data('1.0,2.0'), data('1.0,NaN'))?.got, 'NaN');
  assert.equal(differs(data('NaN,2.0'), data('NaN,2.0')), undefined);
  for (const [longer, shorter] of [
    [data('1.0,2.0'), data('1.0')],
    [data('1.0'), data('1.0,2.0')],
  ] as const) {
    const whole = { output: 0, element: undefined, expected: longer, got: shorter, spread: 0 };
    assert.deepEqual(differs(longer, shorter), whole);
  }
  // The class is an index, however close its score.
  assert.equal(differs('{value=[[4,0.5],[3,0.4]]}', '{value=[[3,0.5],[4,0.4]]}', 1, 0.9)?.got, '3');
  assert.equal(differs('{value=[[4,900.0],[3,0.0]]}', '{value=[[3,900.0],[4,0.0]]}')?.got, '3');
  assert.equal(differs(data('5.0,5.0'), data('5.0,5.04')), undefined);
  assert.equal(differs(data('1.0E10,2.0'), data('1.0E10,2.0')), undefined);
  assert.equal(differs(data('"a b"," "'), data('"a b","  "'))?.element, 1);
});

test('a reference becomes one instance for each row, and its model passes', async (t) => {
  const { directory, check } = await modelFolder(t);
  const path = await temporaryFolder(t);
  const save = (name: string, ...values: number[]) =>
    writeFile(join(path, `${name}.npy`), npyBytes([2, 2], Float32Array.from(values)));
  await save('in_x', 1, 2, 3, 4);
  await save('out_y', 2, 4, 6, 8);
  await save('out_z', 2, 3, 4, 5);
  const port = (name: string) => ({ name, dtype: 'float32' as const, shape: ['N', 2] });
  const ports = { inputs: [port('x')], outputs: [port('y'), port('z')] };
  const recorded = await goldenOfReference(path, ports, undefined);
  assert.deepEqual(recorded.predictions, [answer('2.0,4.0', '2.0,3.0'), answer('6.0,8.0', '4.0,5.0')]);
  await writeGolden(directory, { name: 'ref', tolerance: 1e-4, ...recorded }, false);
  assert.equal((await check()).count, 1);
  await writeFile(join(path, 'in_rate.npy'), npyBytes([], Float32Array.of(0.5)));
  const rate = { ...port('rate'), shape: [], isScalar: true };
  const scaled = { ...ports, inputs: [...ports.inputs, rate] };
  const { request: body } = await goldenOfReference(path, scaled, undefined);
  assert.deepEqual(JSON.parse(body.replaceAll(/(\d)\.0/g, '$1')), {
    instances: [
      { x: [1, 2], rate: 0.5 },
      { x: [3, 4], rate: 0.5 },
    ],
  });
  const fewer = { ...scaled, outputs: [...ports.outputs, port('w')] };
  await assert.rejects(goldenOfReference(path, fewer, undefined), /an array for each output .*y, z, w/);
});
