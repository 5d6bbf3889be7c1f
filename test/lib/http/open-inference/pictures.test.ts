/** Image files as elements of a binary BYTES input, for a model that takes images. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { IMAGES } from '../../../cli/cli.ts';
import { testStack } from '../../../support/stack.ts';

function bytesOf(elements: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    elements.flatMap((element) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(element.length);
      return [length, element];
    }),
  );
}

async function digits(t: TestContext) {
  const { url } = await testStack(t);
  const { inputs } = (await (await fetch(`${url}/v2/models/serving_stream`)).json()) as {
    inputs: [{ name: string }];
  };
  const infer = async (elements: readonly Uint8Array[], shape: readonly number[], name = inputs[0].name) => {
    const binary = bytesOf(elements);
    const input = { name, datatype: 'BYTES', shape, parameters: { binary_data_size: binary.length } };
    const head = Buffer.from(JSON.stringify({ inputs: [input] }));
    const response = await fetch(`${url}/v2/models/serving_stream/infer`, {
      method: 'POST',
      body: Buffer.concat([head, binary]),
      headers: {
        'content-type': 'application/octet-stream',
        'inference-header-content-length': String(head.length),
      },
    });
    const body = (await response.json()) as {
      error?: string;
      outputs?: { shape: number[]; data: number[] }[];
    };
    return { status: response.status, ...body };
  };
  const picture = (digit: number) => readFile(join(IMAGES, `digit-${digit}.png`));
  return { infer, picture };
}

test('pictures are rows of their own, as they are elements of BYTES', async (t) => {
  const { infer, picture } = await digits(t);
  const elements = [await picture(3), await picture(7)];
  for (const [some, shape] of [
    [elements, [2]],
    [elements, [2, 1]],
    [elements.slice(1), [1]],
  ] as const) {
    const { status, error, outputs } = await infer(some, shape);
    assert.equal(status, 200, error);
    const output = outputs?.find(({ shape: own }) => own.length === 2) ?? assert.fail();
    const [rows, width] = output.shape as [number, number];
    const best = Array.from({ length: rows }, (_, row) => {
      const values = output.data.slice(row * width, (row + 1) * width);
      return values.indexOf(Math.max(...values));
    });
    assert.deepEqual(best, some.length === 2 ? [3, 7] : [7]);
  }
});

test('a value that is not a picture, or goes to another input, is refused by name', async (t) => {
  const { infer, picture } = await digits(t);
  const image = await picture(3);
  const cases = [
    [await infer([image], [2]), /^input "\w+": /],
    [await infer([image.subarray(0, 20)], [1]), /^input "\w+": /],
    [await infer([Buffer.from('BMW')], [1]), /^input "\w+": /],
    [
      await infer([image], [1], 'nobody'),
      /^input "nobody": images go to the only input of a model, which has /,
    ],
  ] as const;
  for (const [{ status, error }, message] of cases) {
    assert.equal(status, 400, error);
    assert.match(error ?? '', message);
  }
});
