/** The headers by which an answer names its version, its runtime and the rows of its runs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../../../lib/contract/values.ts';
import { runHeaders } from '../../../lib/http/run-headers.ts';
import { testStack } from '../../support/stack.ts';

const inRun = (rows: number): Outcome => ({ ok: true, outputs: [], place: { row: 0, rows } });

test('an answer names each size of its runs once, and at most eight', () => {
  const model = { version: 'v', runtime: 'onnxruntime 1' };
  const common = { 'model-version': 'v', 'model-runtime': 'onnxruntime 1' };
  assert.deepEqual(runHeaders(model, [inRun(32), inRun(32), inRun(3)]), { ...common, 'run-rows': '32, 3' });
  const many = Array.from({ length: 20 }, (_, i) => inRun(i + 1));
  assert.deepEqual(runHeaders(model, many), { ...common, 'run-rows': '1, 2, 3, 4, 5, 6, 7, 8' });
  assert.deepEqual(runHeaders({ version: 'w' }, [{ ok: true, outputs: [] }]), { 'model-version': 'w' });
});

test('every way to ask a model names them', async (t) => {
  const { url, job } = await testStack(t);
  const pixels = Array.from({ length: 3 }, () =>
    Array.from({ length: 8 }, () => new Array<number>(8).fill(0.5)),
  );
  const [input = ''] = await inputsOf(url, job);
  const tensor = { name: input, datatype: 'FP32', shape: [1, 3, 8, 8], data: pixels.flat(2) };
  const asks: readonly (readonly [string, object])[] = [
    ['/predict', { instances: [{ [input]: pixels }, { [input]: pixels }] }],
    [`/v1/models/${job}:predict`, { instances: [pixels, pixels] }],
    ['/invocations', { instances: [{ [input]: pixels }, { [input]: pixels }] }],
    [
      `/v2/models/${job}/infer`,
      { inputs: [{ ...tensor, shape: [2, 3, 8, 8], data: [...tensor.data, ...tensor.data] }] },
    ],
  ];
  for (const [path, body] of asks) {
    const { status, headers } = await fetch(url + path, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(status, 200, path);
    assert.match(headers.get('model-version') ?? '', /^[0-9a-f]{12}$/, path);
    assert.match(headers.get('model-runtime') ?? '', /^onnxruntime \d+\.\d+\.\d+$/, path);
    assert.equal(headers.get('run-rows'), '2', path);
  }
});

async function inputsOf(url: string, job: string): Promise<string[]> {
  const answer = await fetch(`${url}/v2/models/${job}`);
  const { inputs }: { inputs: { name: string }[] } = Object(await answer.json());
  return inputs.map(({ name }) => name);
}
