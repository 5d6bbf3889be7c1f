import assert from 'node:assert/strict';
import { it } from 'node:test';
import { differing, picturesOf } from '../../../support/pictures.ts';

const PICTURES = picturesOf('cmyk');

it('200 CMYK and YCCK pictures decode to the very pixels of OpenCV', async () => {
  assert.equal(PICTURES.length, 200);
  assert.deepEqual(await differing(PICTURES), []);
});
