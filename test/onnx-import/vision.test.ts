/**
 * Pictures as the image processors of other libraries prepare them. The values are theirs: test/fixtures/vision/make.py.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { imageTensor } from '../../lib/codecs/image/image.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { imageSettings } from '../../lib/pipeline/bind/image-choice.ts';
import { fitImage } from '../../onnx-import/import/fit-image.ts';
import { besideReader, folderImage } from '../../onnx-import/vision/folder.ts';
import { folderOf } from './support/folder.ts';

interface Reference {
  readonly pictures: readonly { readonly width: number; readonly height: number; readonly rgb: string }[];
  /** The values are every nth. */
  readonly every: number;
  readonly cases: readonly {
    readonly name: string;
    readonly source: string;
    readonly config: object;
    readonly answers: readonly { readonly shape: readonly number[]; readonly values: readonly number[] }[];
  }[];
}

const FILE = fileURLToPath(new URL('../fixtures/vision/processors.json.gz', import.meta.url));
const REFERENCE = JSON.parse(gunzipSync(readFileSync(FILE)).toString()) as Reference;
const FREE = {
  name: 'pixel_values',
  dtype: 'float32',
  shape: ['batch_size', 'num_channels', 'height', 'width'],
} as const;
/** Of the spread of a tensor's values. */
const TOLERANCE = 1e-4;

for (const { name, source, config, answers } of REFERENCE.cases) {
  test(`${name}: pictures as the library prepares them`, async (t) => {
    const folder = await folderOf(t, { [source]: JSON.stringify(config) });
    const said = (await folderImage(besideReader(folder))) ?? assert.fail('the file says nothing');
    assert.deepEqual(said.refused, []);
    assert.equal(said.source, source);
    const image = fitImage(folder, said, [FREE], DEFAULT_JOB);
    for (const [i, { width, height, rgb }] of REFERENCE.pictures.entries()) {
      const pixels = { width, height, data: Buffer.from(rgb, 'hex') };
      const made = await imageTensor(pixels, imageSettings(FREE, image), 'float32');
      const expected = answers[i] ?? assert.fail();
      assert.deepEqual(made.shape, expected.shape);
      const got = Array.from(made.data as Float32Array).filter((_, at) => at % REFERENCE.every === 0);
      const spread = Math.max(...expected.values) - Math.min(...expected.values);
      const off = Math.max(...got.map((value, at) => Math.abs(value - (expected.values[at] as number))));
      assert.ok(off <= TOLERANCE * spread, `picture ${i}: off by ${off / spread} of the spread`);
    }
  });
}
