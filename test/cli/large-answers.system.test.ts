/** Answers that are larger than what Lambda carries: told, and asked for in parts. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StackRecord } from '../../local/service/data-folder.ts';
import { onnxModel } from '../support/onnx.ts';
import { type CliAnswer, cliJson, IMAGES, serviceFolder } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

const WIDTH = 250_000;

/** One number of the picture, a quarter of a million times: some 2.5 MB of JSON. */
const wide = onnxModel({
  inputs: [{ name: 'image', dtype: 'float32', shape: ['N', 3, 8, 8] }],
  outputs: [{ name: 'y', dtype: 'float32', shape: ['N', WIDTH] }],
  nodes: [
    { op: 'ReduceMean', inputs: ['image'], outputs: ['mean'], attributes: { axes: [1, 2, 3], keepdims: 0 } },
    { op: 'Reshape', inputs: ['mean', 'column'], outputs: ['tall'] },
    { op: 'Div', inputs: ['tall', 'seven'], outputs: ['part'] },
    { op: 'Tile', inputs: ['part', 'times'], outputs: ['y'] },
  ],
  weights: [
    { name: 'column', dtype: 'int64', shape: [2], data: BigInt64Array.of(-1n, 1n) },
    { name: 'seven', dtype: 'float32', shape: [1], data: Float32Array.of(7) },
    { name: 'times', dtype: 'int64', shape: [2], data: BigInt64Array.of(1n, BigInt(WIDTH)) },
  ],
});

test('an answer over 6 MiB is refused as too_large, and the command asks for its images in parts', async (t) => {
  const cwd = await serviceFolder(t);
  await mkdir(join(cwd, 'model'));
  await writeFile(join(cwd, 'model', 'model.onnx'), wide);
  await writeFile(join(cwd, 'config.yaml'), 'imageResize: 8,8\n');
  const { json: service, stderr } = (await warmCliJson(['start', '--port', '0'], {
    cwd,
  })) as CliAnswer<StackRecord>;
  assert.ok(service.http, stderr);
  const images = [1, 2, 3, 4, 5].map((digit) => join(IMAGES, `digit-${digit}.png`));

  const instance = {
    image: Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => Array(8).fill(1))),
  };
  const ask = (count: number) =>
    fetch(`${service.http}/predict`, {
      method: 'POST',
      body: JSON.stringify({ instances: Array.from({ length: count }, () => instance) }),
    });
  assert.equal((await ask(2)).status, 200);
  const refused = await ask(3);
  const body = (await refused.json()) as { code: string; error: string };
  assert.deepEqual([refused.status, body.code], [413, 'too_large']);
  assert.match(body.error, /the answer is \d+ bytes, over the limit of 6291456/);

  const { code, json } = (await cliJson(['predict', ...images], { cwd })) as CliAnswer<{
    predictions: string[];
  }>;
  assert.equal(code, 0);
  assert.equal(json.predictions.length, images.length);
  const alone = await Promise.all(
    images.map(async (image) => (await warmCli(['predict', image], { cwd })).stdout.slice(0, 60)),
  );
  const together = json.predictions.map((text, i) => `${images[i]}  ${text}`.slice(0, 60));
  assert.deepEqual(alone, together);
});
