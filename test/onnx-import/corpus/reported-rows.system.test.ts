/** Reported models: scalars that were stacked beside rows, and outputs that were cut into rows because their length matched. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { sharedPath } from '../../support/fixtures.ts';
import { endpointOf, handlerOf } from '../../support/inference-endpoint.ts';
import { answerOf, bytesOf, eventOf, inferRequest } from '../../support/open-inference.ts';
import { openCopied, openVerified } from '../support/verified.ts';

const HOW = [
  ['verified', openVerified],
  ['copied', openCopied],
] as const;

/** The model and its request, or undefined after a skip. */
function reported(t: TestContext, name: string) {
  const folder = sharedPath(`corpus/reported/users/${name}`);
  if (!existsSync(folder)) {
    t.skip(`needs ../shared/corpus/reported/users/${name}, which is not on this machine`);
    return undefined;
  }
  return { model: readFileSync(`${folder}/model.onnx`), request: readFileSync(`${folder}/request.json`) };
}

const JSON_TYPE = { 'content-type': 'application/json' };

async function posted(runner: Parameters<typeof handlerOf>[0], path: string, body: Buffer) {
  const handle = handlerOf(runner, { jobName: 'half' });
  const { status, bytes } = answerOf(await handle(eventOf({ body, headers: JSON_TYPE }, path)));
  return { status, body: JSON.parse(bytes.toString()) };
}

for (const [how, open] of HOW) {
  for (const name of ['A1-scalar-input-rows', 'G5-broadcast-error'])
    test(`${name}: rows of a ${how} model keep their own scalars`, async (t) => {
      const given = reported(t, name);
      if (!given) return;
      const runner = await open(t, given.model);
      const { status, body } = await posted(runner, '/v1/models/half:predict', given.request);
      const all = [[10, 12.5], [5, 6.25], [10, 12.5], [0, 0]]; // biome-ignore format: short
      const predictions = all.slice(0, JSON.parse(given.request.toString()).instances.length);
      assert.deepEqual([status, body], [200, { predictions }]);
      const predicted = await posted(runner, '/predict', given.request);
      assert.deepEqual(
        predicted.body.predictions.map(
          (text: string) => JSON.parse(text.slice('{value='.length, -1)).data as number[],
        ),
        predictions,
      );
    });

  test(`B1-rows-by-coincidence: detections of a ${how} model belong to the row that they are of`, async (t) => {
    const given = reported(t, 'B1-rows-by-coincidence');
    if (!given) return;
    const runner = await open(t, given.model);
    const { status, body } = await posted(runner, '/v1/models/half:predict', given.request);
    assert.deepEqual([status, body], [200, { predictions: [[[0, 0], [0, 2]], []] }]); // biome-ignore format: short
  });
}

test('A2-scalar-input-v2: an array for a scalar is refused with the shape of a scalar', async (t) => {
  const given = reported(t, 'A2-scalar-input-v2');
  if (!given) return;
  const runner = await openVerified(t, given.model);
  const { status, body } = await posted(runner, '/v2/models/half/infer', given.request);
  assert.equal(status, 400);
  assert.match(body.error, /input "dropout": expected float32 \[\], got shape \[4\]/);
});

test('G8-empty-shape: an empty tensor is refused with its own shape, as JSON and as bytes', async (t) => {
  const given = reported(t, 'G8-empty-shape');
  if (!given) return;
  const runner = await openVerified(t, given.model);
  const { status, body } = await posted(runner, '/v2/models/half/infer', given.request);
  const bytes = bytesOf(new Float32Array(0));
  const binary = await endpointOf(runner)(
    inferRequest([{ name: 'x', datatype: 'FP32', shape: [0, 3], bytes }]),
  );
  assert.deepEqual([status, binary.status], [400, 400]);
  assert.match(body.error, /input "x": is empty \(shape \[0,3\]\), expected float32 \[N,K\]/);
  assert.equal(binary.error().error, body.error);
});
