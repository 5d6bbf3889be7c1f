import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { huffmanTable } from '../../../../lib/codecs/image/cmyk/bits.ts';
import { decodeImage } from '../../../../lib/codecs/image/image.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import fc from '../../../support/fast-check.ts';
import { CMYK_JPEG } from '../../../support/jpegs.ts';
import { differing, type Picture, picturesOf } from '../../../support/pictures.ts';

const PICTURES = picturesOf('cmyk');
const SOS = Buffer.of(0xff, 0xda);

/** From the last frame header on; of what comes before, bytes may look like one. */
function frameAt(bytes: Buffer): number {
  return Math.max(...[0xc0, 0xc1, 0xc2].map((marker) => bytes.lastIndexOf(Buffer.of(0xff, marker, 0, 20))));
}

function changed(bytes: Buffer, at: number, value: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = value;
  return copy;
}

/** With tables of other numbers, in its own segments and in the header of its one scan. */
function renumbered(bytes: Buffer, dc: number, ac: number): Buffer {
  const copy = Buffer.from(bytes);
  let at = 2;
  for (; copy[at + 1] !== SOS[1]; at += 2 + copy.readUInt16BE(at + 2)) {
    if (copy[at + 1] !== 0xc4) continue;
    const end = at + 2 + copy.readUInt16BE(at + 2);
    for (let table = at + 4; table < end; ) {
      const symbols = copy.subarray(table + 1, table + 17).reduce((sum, count) => sum + count, 0);
      copy[table] = copy[table] === 0 ? dc : 0x10 | ac;
      table += 17 + symbols;
    }
  }
  for (let component = 0; component < 4; component++) copy[at + 6 + 2 * component] = (dc << 4) | ac;
  return copy;
}

describe('a JPEG of four components', () => {
  it('decodes to the very pixels of OpenCV: 200 pictures in CMYK and YCCK', async () => {
    assert.equal(PICTURES.length, 200);
    assert.deepEqual(await differing(PICTURES), []);
  });

  it('decodes to the same pixels with tables of any number', async () => {
    const expected = await decodeImage(CMYK_JPEG);
    for (const [dc, ac] of [
      [1, 0],
      [0, 1],
      [1, 1],
      [3, 2],
    ] as const) {
      const bytes = renumbered(CMYK_JPEG, dc, ac);
      assert.equal(bytes.equals(CMYK_JPEG), false);
      assert.deepEqual(await decodeImage(bytes), expected, `${dc} ${ac}`);
    }
  });

  it('is refused when cut at any offset, also when an end marker follows, and the next one decodes', async () => {
    const whole = Buffer.from(CMYK_JPEG);
    for (let length = 12; length < whole.length - 2; length++) {
      const cut = whole.subarray(0, length);
      await assert.rejects(decodeImage(cut), { code: 'bad_input', message: /broken JPEG/ });
    }
    const scan = whole.indexOf(SOS);
    for (const length of [scan + 16, (scan + whole.length) >> 1]) {
      const cut = Buffer.concat([whole.subarray(0, length), Buffer.of(0xff, 0xd9)]);
      await assert.rejects(decodeImage(cut), { code: 'bad_input', message: /coded data is damaged/ });
    }
    assert.deepEqual(await differing([PICTURES[30] as Picture]), []);
  });

  it('is refused as unsupported where its codes are arithmetic, its black is largest or a scan holds three', async () => {
    const at = frameAt(CMYK_JPEG);
    const scan = CMYK_JPEG.indexOf(SOS);
    const three = Buffer.concat([
      CMYK_JPEG.subarray(0, scan),
      Buffer.of(0xff, 0xda, 0, 12, 3),
      CMYK_JPEG.subarray(scan + 5, scan + 11),
      CMYK_JPEG.subarray(scan + 13),
    ]);
    for (const [bytes, message] of [
      [changed(CMYK_JPEG, at + 1, 0xc9), /without Huffman codes/],
      [changed(CMYK_JPEG, at + 20, 0x22), /fourth component is the largest/],
      [three, /two or three components/],
    ] as const) {
      await assert.rejects(decodeImage(bytes), { code: 'unsupported_media_type', message });
    }
  });

  it('is refused with a table of more codes than there are of their lengths', () => {
    const spec = (ones: number, twos: number) =>
      Uint8Array.of(ones, twos, ...new Uint8Array(14), ...Array(ones + twos).fill(7));
    const table = huffmanTable(spec(1, 2));
    assert.deepEqual([table[0], table[0x7fff], table[0x8000], table[0xffff]], [263, 263, 519, 519]);
    for (const [ones, twos] of [
      [3, 0],
      [1, 3],
      [0, 5],
    ] as const) {
      assert.throws(() => huffmanTable(spec(ones, twos)), { code: 'bad_input' }, `${ones} ${twos}`);
    }
  });

  it('is refused with two frames, a missing table, or more scans than refine it', async () => {
    const at = frameAt(CMYK_JPEG);
    const scan = CMYK_JPEG.indexOf(SOS);
    const coded = CMYK_JPEG.subarray(scan, -2);
    const end = CMYK_JPEG.subarray(-2);
    const frame = CMYK_JPEG.subarray(at, at + 22);
    for (const [bytes, message] of [
      [Buffer.concat([CMYK_JPEG.subarray(0, -2), frame, end]), /damaged/],
      [changed(CMYK_JPEG, scan + 6, 0x33), /Huffman table is missing/],
      [
        Buffer.concat([CMYK_JPEG.subarray(0, scan), ...Array.from({ length: 15 }, () => coded), end]),
        /more than 14 scans/,
      ],
    ] as const) {
      await assert.rejects(decodeImage(bytes), { code: 'bad_input', message });
    }
  });

  it('is decoded or refused with an error of ours, for any change of its bytes', async () => {
    const originals = [4, 9, 14, 30, 46, 47].map((index) => (PICTURES[index] as Picture).bytes);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...originals),
        fc.array(fc.tuple(fc.nat(3_000), fc.nat(255)), { maxLength: 5 }),
        async (original, changes) => {
          const bytes = Buffer.from(original);
          for (const [index, value] of changes) bytes[index % bytes.length] = value;
          try {
            const { width, height, data } = await decodeImage(bytes);
            assert.equal(data.length, width * height * 3);
          } catch (error) {
            assert.ok(error instanceof ServingError && error.status < 500, String(error));
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
