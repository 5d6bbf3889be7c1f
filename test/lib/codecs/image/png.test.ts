import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { crc32, deflateSync } from 'node:zlib';
import { PNG } from 'pngjs';
import { decodeImage, imageSize } from '../../../../lib/codecs/image/image.ts';
import type { Pixels } from '../../../../lib/codecs/image/pixels.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import fc from '../../../support/fast-check.ts';
import { type PngImage, pngChunk, pngFile, pngHeader, scanlines, writePng } from '../../../support/png.ts';
import { orientationBlock } from '../../../support/tiff.ts';

const GREY = 0;
const RGB = 2;
const PALETTE = 3;
const GREY_ALPHA = 4;
const RGB_ALPHA = 6;

/** Every colour type with every depth the specification allows. */
const KINDS = [
  ...[1, 2, 4, 8, 16].map((depth) => ({ colourType: GREY, depth, samples: 1 })),
  ...[8, 16].map((depth) => ({ colourType: RGB, depth, samples: 3 })),
  ...[1, 2, 4, 8].map((depth) => ({ colourType: PALETTE, depth, samples: 1 })),
  ...[8, 16].map((depth) => ({ colourType: GREY_ALPHA, depth, samples: 2 })),
  ...[8, 16].map((depth) => ({ colourType: RGB_ALPHA, depth, samples: 4 })),
];
type Kind = (typeof KINDS)[number];

const COLOURS = Uint8Array.from({ length: 768 }, (_, index) => (index * 89 + 7) % 256);

function example(kind: Kind, width: number, height: number, seed: number): PngImage {
  const { colourType, depth } = kind;
  return {
    width,
    height,
    depth,
    colourType,
    sample: (x, y) =>
      Array.from({ length: kind.samples }, (_, s) => (x * 3169 + y * 7927 + s * 5437 + seed) % 2 ** depth),
    chunks: colourType === PALETTE ? [['PLTE', COLOURS.subarray(0, 3 * 2 ** depth)]] : [],
  };
}

/** The pixels according to the specification, as 8-bit RGB without alpha. */
function expected({ width, height, depth, colourType, sample }: PngImage): number[] {
  const rgb: number[] = [];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const samples = sample(x, y);
      const [first = 0] = samples;
      const levels = samples.map((value) => (depth === 16 ? value >> 8 : (value * 255) / (2 ** depth - 1)));
      if (colourType === PALETTE) rgb.push(...COLOURS.subarray(first * 3, first * 3 + 3));
      else if (samples.length < 3) rgb.push(levels[0] ?? 0, levels[0] ?? 0, levels[0] ?? 0);
      else rgb.push(...levels.slice(0, 3));
    }
  }
  return rgb;
}

async function pixelsOf(bytes: Uint8Array): Promise<{ width: number; height: number; rgb: number[] }> {
  const { width, height, data } = await decodeImage(bytes);
  return { width, height, rgb: [...data] };
}

function refusal(code: string, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof ServingError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  };
}

const PLAIN = example({ colourType: RGB, depth: 8, samples: 3 }, 9, 7, 5);

describe('PNG', () => {
  for (const kind of KINDS) {
    const { colourType, depth } = kind;
    it(`colour type ${colourType} with ${depth} bits decodes to the exact pixels, interlaced or not`, async () => {
      for (const interlaced of [false, true]) {
        for (const [width, height] of [
          [1, 1],
          [3, 2],
          [5, 9],
          [8, 8],
          [17, 11],
        ] as const) {
          const image = { ...example(kind, width, height, 11), interlaced, filter: (row: number) => row % 5 };
          assert.deepEqual(await pixelsOf(writePng(image)), { width, height, rgb: expected(image) });
        }
      }
    });
  }

  it('all filters decode as pngjs decodes them, for any size, kind and interlacing', async () => {
    const kinds = KINDS.filter(({ depth }) => depth <= 8);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...kinds),
        fc.integer({ min: 1, max: 24 }),
        fc.integer({ min: 1, max: 24 }),
        fc.boolean(),
        fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 9 }),
        async (kind, width, height, interlaced, filters) => {
          const filter = (row: number) => filters[row % filters.length] ?? 0;
          const bytes = writePng({ ...example(kind, width, height, 3), interlaced, filter });
          const oracle = PNG.sync.read(bytes);
          const pixels = await decodeImage(bytes);
          assert.deepEqual([pixels.width, pixels.height], [oracle.width, oracle.height]);
          assert.deepEqual([...pixels.data], Array.from(oracle.data.filter((_, index) => index % 4 !== 3)));
        },
      ),
      { numRuns: 150 },
    );
  });

  it('image data in many IDAT chunks is one image', async () => {
    const image = { ...PLAIN, idatBytes: 3 };
    assert.deepEqual((await pixelsOf(writePng(image))).rgb, expected(image));
  });

  it('a transparent pixel keeps its colour and is not blended', async () => {
    const image: PngImage = {
      width: 2,
      height: 1,
      depth: 8,
      colourType: RGB_ALPHA,
      sample: (x) => [10, 20, 30, x],
    };
    assert.deepEqual((await pixelsOf(writePng(image))).rgb, [10, 20, 30, 10, 20, 30]);
  });

  it('a tRNS chunk changes nothing', async () => {
    const image: PngImage = {
      ...example({ colourType: PALETTE, depth: 2, samples: 1 }, 4, 1, 0),
      chunks: [
        ['PLTE', COLOURS.subarray(0, 12)],
        ['tRNS', Uint8Array.of(0, 128)],
      ],
    };
    assert.deepEqual((await pixelsOf(writePng(image))).rgb, expected(image));
  });

  it('an index beyond the palette is black, as in libpng', async () => {
    const image: PngImage = {
      width: 2,
      height: 1,
      depth: 8,
      colourType: PALETTE,
      sample: (x) => [x * 9],
      chunks: [['PLTE', Uint8Array.of(1, 2, 3)]],
    };
    assert.deepEqual((await pixelsOf(writePng(image))).rgb, [1, 2, 3, 0, 0, 0]);
  });

  it('an eXIf chunk turns the image, as in OpenCV', async () => {
    const image: PngImage = {
      width: 3,
      height: 2,
      depth: 8,
      colourType: GREY,
      sample: (x, y) => [1 + x + 3 * y],
      chunks: [['eXIf', orientationBlock(6, true)]],
    };
    const { width, height, rgb } = await pixelsOf(writePng(image));
    assert.deepEqual([width, height], [2, 3]);
    // cv2.imdecode of the same file gives [[4 1] [5 2] [6 3]].
    assert.deepEqual(
      rgb.filter((_, index) => index % 3 === 0),
      [4, 1, 5, 2, 6, 3],
    );
  });

  it('a view into a larger buffer decodes like a copy of it', async () => {
    const bytes = writePng(PLAIN);
    const larger = Buffer.concat([Buffer.alloc(5, 1), bytes, Buffer.alloc(9, 2)]);
    assert.deepEqual((await pixelsOf(larger.subarray(5, 5 + bytes.length))).rgb, expected(PLAIN));
  });

  it('imageSize reads no further than the header', () => {
    const { width, height, isColor } = imageSize(writePng(PLAIN).subarray(0, 33));
    assert.deepEqual([width, height, isColor], [9, 7, true]);
  });
});

describe('a PNG is refused', () => {
  it('when cut at any offset', async () => {
    const bytes = writePng(PLAIN);
    for (let length = 1; length < bytes.length; length++) {
      await assert.rejects(decodeImage(bytes.subarray(0, length)), refusal('bad_input', /PNG/));
    }
  });

  it('when any one byte of a chunk it cannot do without is changed', async () => {
    const bytes = writePng(PLAIN);
    for (let index = 8; index < bytes.length; index++) {
      const changed = Buffer.from(bytes);
      changed[index]! ^= 0x41;
      await assert.rejects(
        decodeImage(changed),
        (error) => error instanceof ServingError && error.status < 500,
      );
    }
  });

  it('when its header claims more pixels than the limit, naming both', async () => {
    const idat = pngChunk('IDAT', deflateSync(Buffer.alloc(100)));
    const bytes = pngFile(pngHeader(14_000, 14_000, 8, RGB, 0), idat);
    await assert.rejects(decodeImage(bytes), refusal('too_large', /14000x14000 .* 16777216 .*imagePixels/));
    const huge = pngFile(pngHeader(0x7fffffff, 0x7fffffff, 8, RGB, 0), idat);
    await assert.rejects(decodeImage(huge), refusal('too_large', /imagePixels/));
  });

  it('when its image data cannot reach the promised size, before memory for it is taken', async () => {
    const bytes = pngFile(
      pngHeader(4096, 4096, 16, RGB_ALPHA, 0),
      pngChunk('IDAT', deflateSync(Buffer.alloc(9))),
    );
    await assert.rejects(decodeImage(bytes), refusal('bad_input', /cannot hold the 134221824/));
  });

  it('when its image data inflates to more than the header promises', async () => {
    const bomb = deflateSync(Buffer.alloc(50_000_000));
    const bytes = pngFile(pngHeader(100, 100, 8, RGB, 0), pngChunk('IDAT', bomb));
    const before = process.memoryUsage().arrayBuffers;
    await assert.rejects(decodeImage(bytes), refusal('bad_input', /longer than the 30100 bytes/));
    assert.ok(process.memoryUsage().arrayBuffers - before < 10_000_000);
  });

  const lines = scanlines(PLAIN);
  const file = (data: Uint8Array, ...before: Uint8Array[]) =>
    pngFile(pngHeader(9, 7, 8, RGB, 0), ...before, pngChunk('IDAT', data));
  const header = (patch: (data: Buffer) => void) => {
    const bytes = writePng(PLAIN);
    patch(bytes.subarray(16, 29));
    bytes.writeUInt32BE(crc32(bytes.subarray(12, 29)), 29);
    return bytes;
  };
  const cases: readonly (readonly [what: string, bytes: Buffer, message: RegExp])[] = [
    ['one byte too much', file(deflateSync(Buffer.concat([lines, Buffer.alloc(1)]))), /longer than the 196/],
    ['one byte too few', file(deflateSync(lines.subarray(1))), /is 195 bytes, its header promises 196/],
    ['no end of its deflate stream', file(deflateSync(lines).subarray(0, -6)), /damaged/],
    [
      'a wrong checksum of its deflate stream',
      file(Buffer.concat([deflateSync(lines).subarray(0, -4), Buffer.alloc(4)])),
      /damaged/,
    ],
    ['no deflate stream', file(Buffer.alloc(100, 0x55)), /damaged/],
    ['a row filter 5', file(deflateSync(Buffer.alloc(196, 5))), /row filter 5/],
    ['no image data', pngFile(pngHeader(1, 1, 8, GREY, 0)), /damaged/],
    ['two headers', file(deflateSync(lines), pngHeader(9, 7, 8, RGB, 0)), /unexpected IHDR/],
    [
      'an unknown critical chunk',
      file(deflateSync(lines), pngChunk('CgBI', Buffer.alloc(4))),
      /unexpected CgBI/,
    ],
    [
      'a palette of 4 bytes',
      file(deflateSync(lines), pngChunk('PLTE', Buffer.alloc(4))),
      /palette of 4 bytes/,
    ],
    [
      'no palette where it needs one',
      pngFile(pngHeader(1, 1, 8, PALETTE, 0), pngChunk('IDAT', deflateSync(Buffer.alloc(2)))),
      /palette is missing/,
    ],
    [
      'no header first',
      pngFile(pngChunk('tEXt', Buffer.alloc(13)), pngHeader(1, 1, 8, GREY, 0)),
      /first chunk/,
    ],
    ['width 0', header((data) => data.writeUInt32BE(0, 0)), /0x7 pixels/],
    ['height 0', header((data) => data.writeUInt32BE(0, 4)), /9x0 pixels/],
    ['3 bits', header((data) => data.writeUInt8(3, 8)), /colour type 2 with 3 bits/],
    ['colour type 1', header((data) => data.writeUInt8(1, 9)), /colour type 1 /],
    ['compression method 1', header((data) => data.writeUInt8(1, 10)), /unknown compression 1/],
    ['filter method 1', header((data) => data.writeUInt8(1, 11)), /filter 1/],
    ['interlace method 2', header((data) => data.writeUInt8(2, 12)), /interlace 2/],
    [
      'more chunks than any encoder writes',
      file(
        deflateSync(lines),
        Buffer.concat(Array.from({ length: 65_536 }, () => pngChunk('tEXt', Buffer.alloc(0)))),
      ),
      /more than 65536 chunks/,
    ],
  ];
  for (const [what, bytes, message] of cases) {
    it(`with ${what}`, async () => {
      await assert.rejects(decodeImage(bytes), refusal('bad_input', message));
    });
  }

  it('or decoded, but no other error than ours comes out, for any change of its bytes', async () => {
    const files = KINDS.map((kind) =>
      writePng({ ...example(kind, 6, 5, 1), interlaced: kind.depth % 3 === 1 }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...files),
        fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 6 }),
        fc.boolean(),
        async (bytes, changes, repaired) => {
          const changed = Buffer.from(bytes);
          for (const [index, value] of changes) changed[index % changed.length] = value;
          if (repaired) repairChecksums(changed);
          let pixels: Pixels;
          try {
            pixels = await decodeImage(changed);
          } catch (error) {
            assert.ok(error instanceof ServingError && error.status < 500, String(error));
            return;
          }
          assert.equal(pixels.data.length, pixels.width * pixels.height * 3);
        },
      ),
      { numRuns: 1_500 },
    );
  });
});

/** So that a change reaches the code behind the checksums. */
function repairChecksums(bytes: Buffer): void {
  for (let at = 8; at + 12 <= bytes.length; ) {
    const end = at + 12 + bytes.readUInt32BE(at);
    if (end > bytes.length) return;
    bytes.writeUInt32BE(crc32(bytes.subarray(at + 4, end - 4)), end - 4);
    at = end;
  }
}
