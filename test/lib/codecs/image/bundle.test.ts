import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { smallJpeg } from '../../../support/jpegs.ts';
import { type Picture, picturesOf } from '../../../support/pictures.ts';
import { writePng } from '../../../support/png.ts';

const run = promisify(execFile);
const WASM = 'libjpegturbowasm_decode.wasm';
const WEBP = picturesOf('webp-lossy')[30] as Picture;

/** Prints the first pixel of the file it is given, or the error. */
const ENTRY = `
  import { readFileSync } from 'node:fs';
  import { decodeImage } from './image.ts';
  try {
    const { width, height, data } = await decodeImage(readFileSync(process.argv[2]));
    console.log(JSON.stringify({ width, height, first: [...data.subarray(0, 3)] }));
  } catch (error) {
    console.log(JSON.stringify({ code: error.code, message: error.message }));
  }`;

/** As the functions are built: one ES module, no node_modules near it, no banner. */
describe('bundled by esbuild', () => {
  let folder = '';

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'image-bundle-'));
    await build({
      stdin: {
        contents: ENTRY,
        resolveDir: fileURLToPath(new URL('../../../../lib/codecs/image', import.meta.url)),
        loader: 'ts',
      },
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node24',
      outfile: join(folder, 'index.mjs'),
      logLevel: 'error',
    });
    await writeFile(join(folder, 'small.jpg'), smallJpeg('baseline420').bytes);
    const png = writePng({ width: 1, height: 1, depth: 8, colourType: 2, sample: () => [7, 8, 9] });
    await writeFile(join(folder, 'small.png'), png);
    await writeFile(join(folder, 'small.webp'), WEBP.bytes);
  });

  after(() => rm(folder, { recursive: true, force: true }));

  async function decoded(file: string): Promise<{ [name: string]: unknown; first?: number[] }> {
    const { stdout } = await run(process.execPath, ['index.mjs', file], { cwd: folder });
    return JSON.parse(stdout);
  }

  it('decodes a JPEG with the .wasm file beside the bundle and nothing else', async () => {
    const wasm = import.meta.resolve('@cornerstonejs/codec-libjpeg-turbo-8bit/decodewasm');
    await copyFile(fileURLToPath(wasm), join(folder, WASM));
    const { first, ...size } = await decoded('small.jpg');
    assert.deepEqual(size, { width: 20, height: 12 });
    const [expected = []] = smallJpeg('baseline420').corners;
    for (const [channel, level] of (first ?? [-9]).entries())
      assert.ok(Math.abs(level - (expected[channel] ?? -9)) <= 2);
  });

  it('without the .wasm file still decodes a PNG and says of a JPEG which file is missing', async () => {
    await rm(join(folder, WASM), { force: true });
    assert.deepEqual(await decoded('small.png'), { width: 1, height: 1, first: [7, 8, 9] });
    assert.deepEqual(await decoded('small.jpg'), {
      code: 'internal',
      message: `the JPEG decoder cannot be loaded: ${WASM} is neither beside the bundle nor in node_modules`,
    });
  });

  it('decodes a WebP with the two files of libwebp beside the bundle, which no other image asks for', async () => {
    assert.deepEqual(await decoded('small.webp'), {
      code: 'internal',
      message:
        'the WebP decoder cannot be loaded: webp-dec.wasm is neither beside the bundle nor in node_modules',
    });
    const wasm = fileURLToPath(import.meta.resolve('icodec/webp-dec.wasm'));
    await copyFile(wasm, join(folder, 'webp-dec.wasm'));
    await copyFile(join(dirname(wasm), 'webp-dec.js'), join(folder, 'webp-dec.mjs'));
    const { width, height } = await decoded('small.webp');
    assert.deepEqual([width, height], [WEBP.width, WEBP.height]);
  });
});
