/**
 * Captures of further models on a running service: each model has its own, also where two have the same files. Each model adds another
 * number, so a captured answer says which model made it.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readHeader, readLine } from '../../../lib/codecs/capture/read.ts';
import { CaptureReader, capturedModels } from '../../../lib/s3/capture-reader.ts';
import type { Stack } from '../../../local/service/stack.ts';
import { copyCaptures } from '../../../release/replay/copy.ts';
import { type Entry, entriesOf } from '../../../release/replay/file.ts';
import { InputQueue, OutputQueue } from '../../../sdk/index.ts';
import { addModel, modelFolder, modelsFolder, numberOf } from '../../local/swap/models.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { clientOptions, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

const JOB = 'serving_stream';
/** By model the number that it adds, and the requests that name it. `beta` and `twin` have the same files. */
const MODELS: readonly (readonly [name: string | undefined, adds: number, requests: number])[] = [
  [undefined, 1, 3],
  ['alpha', 2, 4],
  ['beta', 3, 5],
  ['twin', 3, 6],
];

async function askAll(t: Hooks, stack: Stack): Promise<void> {
  const { input: places, output: place } = clientOptions(stack);
  const input = new InputQueue(places);
  const output = new OutputQueue(place);
  t.after(async () => {
    await input.close();
    await output.close();
  });
  for (const [model, , requests] of MODELS) {
    const query = model === undefined ? '' : `?model=${model}`;
    for (let i = 0; i < requests; i++) {
      const body = JSON.stringify({ instances: [{ x: [1] }] });
      const { status } = await fetch(`${stack.url}/predict${query}`, { method: 'POST', body });
      assert.equal(status, 200);
    }
    const uri = `record-of-${model}`;
    await input.enqueue(uri, { x: [1] }, { model });
    assert.ok(await output.wait(uri));
  }
}

const readerOf = ({ aws, bucket }: Stack, model: string | undefined) =>
  new CaptureReader(aws.s3, bucket, { job: JOB, model });

/** All that is captured of a model. */
async function linesOf(stack: Stack, model: string | undefined) {
  const reader = readerOf(stack, model);
  const lines: { readonly number: number; readonly id: string; readonly model: string | undefined }[] = [];
  for await (const objects of reader.pages())
    for (const object of objects) {
      let header: ReturnType<typeof readHeader> | undefined;
      for await (const line of reader.lines(object)) {
        assert.ok('text' in line);
        if (line.number === 1) header = readHeader(line.text);
        else {
          const { id, records } = readLine(line.text);
          const sum = Number(records[0]?.outputs?.[0]?.data[0]);
          lines.push({ number: numberOf(1, sum), id, model: header?.model });
        }
      }
    }
  return lines;
}

describe('captures of further models', () => {
  const cleanups: (() => Promise<void>)[] = [];
  const hooks: Hooks = { after: (cleanup) => void cleanups.push(async () => cleanup()) };
  let stack: Stack;
  before(async () => {
    stack = await testStack(hooks, {
      config: 'capture: {share: 1}\nmodelRefreshSeconds: 1\n',
      modelDirectory: await modelFolder(hooks, addModel(1)),
      modelsDirectory: await modelsFolder(hooks, {
        alpha: addModel(2),
        beta: addModel(3),
        twin: addModel(3),
      }),
    });
    await askAll(hooks, stack);
    await until(async () => {
      const counts = await Promise.all(MODELS.map(async ([model]) => (await linesOf(stack, model)).length));
      return counts.reduce((sum, count) => sum + count) >= 18 + MODELS.length;
    });
  });
  after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  test('lie with each model, requests and records, and no model has those of another', async () => {
    assert.deepEqual(await capturedModels(stack.aws.s3, stack.bucket, JOB), ['alpha', 'beta', 'twin']);
    for (const [model, adds, requests] of MODELS) {
      const lines = await linesOf(stack, model);
      assert.equal(lines.length, requests + 1, `${model}`);
      assert.deepEqual(new Set(lines.map(({ number }) => number)), new Set([adds]));
      assert.deepEqual(new Set(lines.map((line) => line.model)), new Set([model]));
      assert.deepEqual(
        lines.map(({ id }) => id).filter((id) => id.startsWith('record')),
        [`record-of-${model}`],
      );
    }
  });

  test('of one model are not replayed as those of another, wherever their objects come from', async (t) => {
    const folder = await temporaryFolder(t);
    for (const [model] of MODELS) {
      const file = join(folder, `${model}.ndjson`);
      await copyCaptures(file, {}, { captures: readerOf(stack, model) });
      for (const [asked] of MODELS) {
        const entries: Entry[] = [];
        for await (const entry of entriesOf(file, { job: JOB, model: asked })) entries.push(entry);
        const isRead = entries.filter((entry) => 'line' in entry).length > 0;
        assert.equal(isRead, model === asked, `${model} for ${asked}`);
        const problem = entries.find((entry) => 'unread' in entry)?.unread.text ?? '';
        if (model !== asked) assert.match(problem, /^a capture of the .*model .*, not of the .*model /);
      }
    }
  });
});
