/** TensorFlow reads cubic weights from a table of 1,024 entries, and rounds to the nearest of them as lrint does: halves to an even one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tableWeights } from '../../../../onnx-import/emit/pixel-weights.ts';

const FROM = 5;
/** The weights of the pixel at this place; one pixel before it there is another. */
const weightsAt = (place: number) => tableWeights(FROM, 2, place, false).subarray(FROM);

test('a place between two entries has the weights of the even one', () => {
  for (const [place, entry] of [
    [0.5, 0],
    [1.5, 2],
    [2.5, 2],
    [3.5, 4],
    [511.5, 512],
  ] as const)
    assert.deepEqual(weightsAt(place / 1024), weightsAt(entry / 1024), `${place}`);
});

test('other places have the weights of the nearest entry', () => {
  for (const [place, entry] of [
    [1.25, 1],
    [1.75, 2],
    [2.499, 2],
    [2.501, 3],
  ] as const)
    assert.deepEqual(weightsAt(place / 1024), weightsAt(entry / 1024), `${place}`);
  assert.notDeepEqual(weightsAt(1 / 1024), weightsAt(2 / 1024));
});
