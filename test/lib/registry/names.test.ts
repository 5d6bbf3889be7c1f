/** Labels beside a model stand beside the index in the answers of `topN(n, labels)`, in this process and in others. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { CLOCK } from '../../../lib/compose/clock.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { openPooledOnnx } from '../../../lib/compose/onnx-pool.ts';
import type { TensorSpec, Value } from '../../../lib/contract/values.ts';
import { filterText, parseFilter } from '../../../lib/pipeline/answer/postprocess.ts';
import { readNames } from '../../../lib/registry/names.ts';
import { handlerOf } from '../../support/inference-endpoint.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const SCORES: TensorSpec = { name: 'scores', dtype: 'float32', shape: ['N', 3] };
const SETTINGS = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };
const LABELS = ['cat', 'dog "x"', 'fish'];

async function folderOf(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder(t);
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

const FOUND: readonly (readonly [
  what: string,
  files: Record<string, string>,
  found: readonly string[] | undefined,
])[] = [
  ['labels.txt', { 'labels.txt': '\ufeffcat\r\ndog "x"\r\nfish\r\n\r\n' }, LABELS],
  [
    'id2label of config.json',
    { 'config.json': '{"id2label": {"1": "dog \\"x\\"", "0": "cat", "2": "fish"}}' },
    LABELS,
  ],
  [
    'names.json before the others',
    { 'names.json': '{"labels": {"scores": ["a", "b", "c"]}}', 'labels.txt': 'x\ny\nz' },
    ['a', 'b', 'c'],
  ],
  ['a labels.txt of another length', { 'labels.txt': 'cat\ndog\n' }, undefined],
  ['a config.json of something else', { 'config.json': '{broken' }, undefined],
  ['an id2label with a hole', { 'config.json': '{"id2label": {"0": "a", "1": "b", "3": "c"}}' }, undefined],
  ['no file', {}, undefined],
];
for (const [what, files, found] of FOUND) {
  test(`labels of ${what}`, async (t) => {
    const { labels } = await readNames(await folderOf(t, files), [SCORES]);
    assert.deepEqual(labels, found ? { scores: found } : {});
  });
}

test('labels of two outputs that could have them belong to neither', async (t) => {
  const folder = await folderOf(t, { 'labels.txt': LABELS.join('\n') });
  assert.deepEqual((await readNames(folder, [SCORES, { ...SCORES, name: 'other' }])).labels, {});
  const free = { ...SCORES, shape: ['N', 'C'] };
  const flags: TensorSpec = { name: 'flags', dtype: 'int64', shape: ['N', 3] };
  assert.deepEqual((await readNames(folder, [free, flags])).labels, { scores: LABELS });
});

test('topN(n, labels) is a filter, and pickTopN takes no labels', () => {
  assert.deepEqual(parseFilter(' topN( 5 , labels )'), { kind: 'topN', n: 5, labels: true });
  assert.deepEqual(parseFilter('topN(5)'), { kind: 'topN', n: 5 });
  for (const text of ['pickTopN(5, labels)', 'topN(labels)', 'topN(5, names)', 'topN(5,)']) {
    assert.throws(() => parseFilter(text), {
      code: 'bad_config',
      message: /expected "topN\(n\)" or .*"topN\(n, labels\)"/,
    });
  }
});

test('an output with several rows has the labels of its last axis; one without labels has none', () => {
  const filter = { kind: 'topN', n: 2, labels: true } as const;
  const rows = {
    dtype: 'float32',
    shape: [2, 2],
    data: Float32Array.of(1, 2, 4, 3),
    labels: ['a', 'b'],
  } as const;
  const other = { dtype: 'int64', shape: [], data: BigInt64Array.of(7n) } as const;
  assert.equal(filterText([rows, other], filter), '[[[2,4.0,"a"],[3,3.0,"b"]],[[0,7]]]');
  assert.throws(() => filterText([other], filter), {
    code: 'model_failed',
    message: /no labels; put labels\.txt/,
  });
});

async function answered(runner: Parameters<typeof handlerOf>[0], filter: string): Promise<string> {
  const event = {
    rawPath: '/predict',
    headers: {},
    requestContext: { http: { method: 'POST' } },
    body: JSON.stringify({ instances: [{ scores: [0.5, 2, 1] }] }),
    isBase64Encoded: false,
  } as unknown as APIGatewayProxyEventV2;
  const { body } = await handlerOf(runner, { filter: parseFilter(filter) })(event);
  return (JSON.parse(body as string) as { predictions: [string] }).predictions[0];
}

test('labels are those of classes, never of as many rows or detections', async (t) => {
  const named = { labels: { rows_out: LABELS, found_out: LABELS, classes_out: LABELS } };
  const file = join(await folderOf(t, { 'names.json': JSON.stringify(named) }), 'model.onnx');
  const port = (name: string, ...shape: (number | string)[]) => ({ name, dtype: 'float32' as const, shape });
  await writeFile(file, identityModel([port('rows', 'N'), port('found', 'M'), port('classes', 'N', 'C')]));
  const runner = await openOnnx(file, 'v', { ...SETTINGS, outputAxes: { found_out: 'none' } });
  t.after(() => runner.close());
  const three = (...shape: number[]): Value => ({
    kind: 'tensor',
    tensor: { dtype: 'float32', shape, data: new Float32Array(shape.reduce((all, dim) => all * dim, 1)) },
  });
  const record = new Map([['rows', three(3)], ['found', three(3)], ['classes', three(3, 3)]]); // biome-ignore format: short
  const [outcome] = await runner.run([record], { exactSignature: true });
  assert.deepEqual(outcome?.ok && outcome.outputs.map(({ labels }) => labels), [
    undefined,
    undefined,
    LABELS,
  ]);
});

test('the label stands behind the number, in this process, an isolated one and the pool', async (t) => {
  const folder = await folderOf(t, { 'names.json': JSON.stringify({ labels: { scores_out: LABELS } }) });
  const file = join(folder, 'model.onnx');
  await writeFile(file, identityModel([SCORES]));
  const runner = await openOnnx(file, 'v', SETTINGS);
  t.after(() => runner.close());
  const expected = '{value=[[1,2.0,"dog \\"x\\""],[2,1.0,"fish"]]}';
  assert.equal(await answered(runner, 'topN(2, labels)'), expected);
  assert.equal(await answered(runner, 'topN(2)'), '{value=[[1,2.0],[2,1.0]]}');
  assert.equal(await answered(runner, ''), '{value={"data":[0.5,2.0,1.0],"shape":[3]}}');
  const isolated = {
    ...runner,
    run: (records: Parameters<typeof runner.run>[0]) => runner.runIsolated?.(records, 60_000) ?? [],
  };
  assert.equal(await answered(isolated as typeof runner, 'topN(2, labels)'), expected);
  const pooled = await openPooledOnnx(file, 'v', SETTINGS, {
    processes: 1,
    limitMs: 60_000,
    clock: CLOCK,
    onCrash: assert.fail,
  });
  t.after(() => pooled.close());
  assert.equal(await answered(pooled, 'topN(2, labels)'), expected);
});
