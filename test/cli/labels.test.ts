/** A model's class names stand beside the best class when a person reads a prediction or a result. */
import assert from 'node:assert/strict';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { resultLines } from '../../cli/results.ts';
import { InputQueue } from '../../sdk/index.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { runHere } from './in-process.ts';

const LABELS = Array.from({ length: 10 }, (_, i) => `digit ${i}`);
const DIGIT = join(SAMPLE, 'images', 'digit-3.png');

test('predict, query and the SDK name the best class', async (t) => {
  const folder = await temporaryFolder(t);
  await cp(join(SAMPLE, 'model'), folder, { recursive: true });
  await writeFile(join(folder, 'labels.txt'), LABELS.join('\n'));
  const stack = await testStack(t, { modelDirectory: folder });
  const url = ['--url', stack.url];
  const predicted = await runHere(['predict', DIGIT, ...url]);
  assert.match(
    predicted.text,
    /^\S+digit-3\.png {2}\{value=\{"data":.*\}\} {2}largest 0\.99\d* at 3 \(digit 3\)$/,
  );
  const input = new InputQueue({ frontendUrl: stack.url });
  const enqueued = await input.enqueue('three', { image: DIGIT });
  const { output } = await input.predict({ image: DIGIT });
  await input.close();
  assert.deepEqual(output.labels, LABELS);
  const queried = await runHere(['query', enqueued.uri, '--wait', '20', ...url]);
  assert.match(
    queried.text,
    /^three {2}probabilities float32\[10\] {2}largest 0\.99\d* at 3 \(digit 3\) {2}/,
  );
});

test('a result without names of classes, or with others than it has values, has its place alone', () => {
  const output = { name: 'p', dtype: 'float32', shape: [2, 2], data: Float32Array.of(1, 2, 4, 3) } as const;
  const result = {
    uri: 'u',
    model: 'v',
    filtered: undefined,
    finishedAt: 0,
    identity: '',
    outputs: [output],
  };
  const facts = (labels: readonly string[]) => ({
    outputs: [{ name: 'p', dtype: 'float32', labels }],
    filter: undefined,
    isWorker: false,
  });
  assert.match(resultLines(result), /largest 4 at 2 {2}/);
  assert.match(resultLines(result, facts(['a', 'b'])), /largest 4 at 2 \(a\) {2}/);
  assert.match(resultLines(result, facts(['a', 'b', 'c'])), /largest 4 at 2 {2}/);
});
