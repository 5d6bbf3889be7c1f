/** A large picture is decoded in slices: what else waits for the thread has its turns meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_IMAGE, decodeImage, imageTensor } from '../../../../lib/codecs/image/image.ts';
import { exifOrientation, orient } from '../../../../lib/codecs/image/pixels.ts';
import { SLICE_PIXELS } from '../../../../lib/codecs/image/slices.ts';
import { flatPng } from '../../../functions/hostile/encoded-images.ts';
import { orientationBlock } from '../../../support/tiff.ts';

const SIDE = 4096;
/** The slices of an image of SIDE x SIDE without the last one. */
const SLICES = (SIDE * SIDE) / SLICE_PIXELS - 1;

/** How often others had the thread. */
async function turnsDuring<T>(work: () => T | Promise<T>): Promise<{ turns: number; result: T }> {
  let turns = 0;
  let next = setImmediate(count);
  function count(): void {
    turns++;
    next = setImmediate(count);
  }
  try {
    const result = await work();
    return { turns, result };
  } finally {
    clearImmediate(next);
  }
}

/** Runs of 255 pixels of one colour, which is one of two. */
function bmp(): Uint8Array {
  const row = [...Array.from({ length: 16 }, () => [255, 1]), [16, 1], [0, 0]].flat();
  const file = Buffer.alloc(54 + 8);
  file.write('BM');
  file.writeUInt32LE(file.length, 10);
  file.writeUInt32LE(40, 14);
  file.writeInt32LE(SIDE, 18);
  file.writeInt32LE(SIDE, 22);
  file.writeUInt16LE(8, 28);
  file.writeUInt32LE(1, 30);
  file.writeUInt32LE(2, 46);
  file.set([10, 20, 30, 0], 58);
  return Buffer.concat([file, ...Array.from({ length: SIDE }, () => Buffer.from(row)), Buffer.of(0, 1)]);
}

/** Each pixel is a code, before which the table is cleared. The last code is the end. */
function lzw(pixels: number, bits: number, upwards: boolean): Buffer {
  const width = bits + 1;
  const clear = 1 << bits;
  const bytes = Buffer.alloc(Math.ceil(((2 * pixels + 1) * width) / 8));
  for (let i = 0, bit = 0; i <= 2 * pixels; i++) {
    const code = i === 2 * pixels ? clear + 1 : i % 2 === 0 ? clear : 1;
    for (let b = 0; b < width; b++, bit++) {
      const value = upwards ? (code >> b) & 1 : (code >> (width - 1 - b)) & 1;
      bytes[bit >> 3]! |= value << (upwards ? bit & 7 : 7 - (bit & 7));
    }
  }
  return bytes;
}

const SMALLER = 2048;

function gif(): Uint8Array {
  const head = Buffer.from('GIF89a\0\0\0\0\x80\0\0', 'latin1');
  head.writeUInt16LE(SMALLER, 6);
  head.writeUInt16LE(SMALLER, 8);
  const frame = Buffer.from(',\0\0\0\0\0\0\0\0\0\x02', 'latin1');
  frame.writeUInt16LE(SMALLER, 5);
  frame.writeUInt16LE(SMALLER, 7);
  const data = lzw(SMALLER * SMALLER, 2, true);
  const blocks: Buffer[] = [];
  for (let at = 0; at < data.length; at += 255) {
    const block = data.subarray(at, at + 255);
    blocks.push(Buffer.of(block.length), block);
  }
  return Buffer.concat([head, Buffer.of(0, 0, 0, 9, 9, 9), frame, ...blocks, Buffer.of(0, 0x3b)]);
}

function tiff(): Uint8Array {
  const data = lzw(SMALLER * SMALLER, 8, false);
  const tags = [
    [256, SMALLER],
    [257, SMALLER],
    [258, 8],
    [259, 5],
    [262, 1],
    [273, 8],
    [277, 1],
    [278, SMALLER],
    [279, data.length],
  ] as const;
  const head = Buffer.from('II*\0\0\0\0\0', 'latin1');
  head.writeUInt32LE(8 + data.length, 4);
  const directory = Buffer.alloc(2 + 12 * tags.length + 4);
  directory.writeUInt16LE(tags.length);
  for (const [i, [tag, value]] of tags.entries()) {
    const at = 2 + 12 * i;
    directory.writeUInt16LE(tag, at);
    directory.writeUInt16LE(4, at + 2);
    directory.writeUInt32LE(1, at + 4);
    directory.writeUInt32LE(value, at + 8);
  }
  return Buffer.concat([head, data, directory]);
}

const LARGE = [
  ['PNG', () => flatPng(SIDE, SIDE, 1), SLICES],
  ['BMP', bmp, SLICES],
  // Their codes are expanded, and then painted.
  ['GIF', gif, (2 * SMALLER * SMALLER) / SLICE_PIXELS - 2],
  ['TIFF', tiff, (2 * SMALLER * SMALLER) / SLICE_PIXELS - 2],
] as const;

for (const [format, make, least] of LARGE) {
  test(`a large ${format} gives others ${least} turns or more`, async () => {
    const { turns, result } = await turnsDuring(() => decodeImage(make()));
    assert.ok(turns >= least, `${turns} turns`);
    const last = result.data.length - 3;
    assert.deepEqual(result.data.subarray(last), result.data.subarray(0, 3));
  });
}

test('a large picture becomes a tensor, and is turned, in slices too', async () => {
  const data = new Uint8Array(3 * SIDE * SIDE).fill(7);
  data.set([1, 2, 3], data.length - 3);
  const pixels = { width: SIDE, height: SIDE, data };
  const made = await turnsDuring(() => imageTensor(pixels, DEFAULT_IMAGE, 'uint8'));
  assert.ok(made.turns >= SLICES, `${made.turns} turns`);
  assert.deepEqual(made.result.data.slice(-2), Uint8Array.of(7, 1));
  const turned = await turnsDuring(() => orient(pixels, exifOrientation(orientationBlock(3, true))));
  assert.ok(turned.turns >= SLICES, `${turned.turns} turns`);
  assert.deepEqual([...turned.result.data.subarray(0, 4)], [1, 2, 3, 7]);
});

test('a small one is a tensor at once', () => {
  const pixels = { width: 1, height: 1, data: Uint8Array.of(1, 2, 3) };
  assert.ok(!(imageTensor(pixels, DEFAULT_IMAGE, 'uint8') instanceof Promise));
});
