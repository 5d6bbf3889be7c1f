import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeImage, imageSize } from '../../../../lib/codecs/image/image.ts';
import { boundMemory } from '../../../../lib/codecs/image/webp/decode.ts';
import { differing, type Picture, picturesOf } from '../../../support/pictures.ts';

const LOSSY = picturesOf('webp-lossy');
const LOSSLESS = picturesOf('webp-lossless');

const refusal = (code: string, message = /./) => ({ code, message });

function plain(pictures: readonly Picture[], form: string): Buffer {
  const found = pictures.find(({ bytes, width }) => width > 20 && bytes.toString('latin1', 12, 16) === form);
  assert.ok(found !== undefined);
  return Buffer.from(found.bytes);
}

function chunk(name: string, data: Uint8Array): Buffer {
  const head = Buffer.alloc(8);
  head.write(name, 'latin1');
  head.writeUInt32LE(data.length, 4);
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)]);
}

function riff(...chunks: readonly Uint8Array[]): Buffer {
  return chunk('RIFF', Buffer.concat([Buffer.from('WEBP'), ...chunks]));
}

function vp8x(flags: number, width: number, height: number): Buffer {
  const data = Buffer.alloc(10, 0);
  data[0] = flags;
  data.writeUIntLE(width - 1, 4, 3);
  data.writeUIntLE(height - 1, 7, 3);
  return chunk('VP8X', data);
}

/** A lossless picture of one colour, 200 100 50, which takes no bits for its pixels. */
function flat(width: number, height: number): Buffer {
  const data = Buffer.from('2f000000000750b22257a6ff8188e87f00', 'hex');
  data.writeUInt32LE((width - 1) | ((height - 1) << 14), 1);
  return data;
}

/** An animation of one frame that says this size and holds `image`. */
function animation(canvas: [number, number], place: [number, number], says: [number, number], image: Buffer) {
  const head = Buffer.alloc(16);
  for (const [index, value] of [...place, says[0] - 1, says[1] - 1].entries())
    head.writeUIntLE(value, index * 3, 3);
  return riff(
    vp8x(0x02, ...canvas),
    chunk('ANIM', Buffer.alloc(6)),
    chunk('ANMF', Buffer.concat([head, chunk('VP8L', image)])),
  );
}

describe('WebP', () => {
  for (const [kind, pictures] of [['lossy', LOSSY] as const, ['lossless', LOSSLESS] as const]) {
    it(`200 ${kind} pictures decode to the very pixels of OpenCV`, async () => {
      assert.equal(pictures.length, 200);
      assert.deepEqual(await differing(pictures), []);
    });
  }

  it('imageSize reads the canvas as it is stored, and says whether it has alpha', () => {
    const sizes = (pictures: readonly Picture[]) => pictures.map(({ bytes }) => imageSize(bytes));
    for (const [index, { width, height }] of sizes(LOSSLESS).entries()) {
      const picture = LOSSLESS[index] as Picture;
      assert.deepEqual([width, height].toSorted(), [picture.width, picture.height].toSorted());
    }
    const colors = sizes([...LOSSY, ...LOSSLESS]).filter(({ isColor }) => isColor).length;
    assert.ok(colors > 150 && colors < 300, `${colors}`);
  });

  it('the first frame of an animation lies on a black canvas', async () => {
    const { width, height, data } = await decodeImage(animation([6, 5], [1, 1], [2, 2], flat(2, 2)));
    assert.deepEqual([width, height], [6, 5]);
    const lit = [14, 15, 20, 21];
    const expected = Array.from({ length: 30 }, (_, pixel) =>
      lit.includes(pixel) ? [200, 100, 50] : [0, 0, 0],
    );
    assert.deepEqual([...data], expected.flat());
  });
});

it('memory that is bounded grows up to its bound and no further', () => {
  const memory = new WebAssembly.Memory({ initial: 1 });
  boundMemory(memory, 3 * 65_536);
  memory.grow(2);
  assert.throws(() => memory.grow(1), RangeError);
  assert.equal(memory.buffer.byteLength, 3 * 65_536);
});

describe('a WebP is refused', () => {
  it('when cut at any offset', async () => {
    for (const bytes of [plain(LOSSY, 'VP8 '), plain(LOSSY, 'VP8X'), plain(LOSSLESS, 'VP8L')]) {
      for (let length = 12; length < bytes.length; length++) {
        await assert.rejects(decodeImage(bytes.subarray(0, length)), refusal('bad_input', /broken WebP/));
      }
    }
  });

  it('when its data are cut though its lengths agree, and the next one decodes', async () => {
    const good = [LOSSY[40], LOSSLESS[40]] as Picture[];
    for (const [form, bytes] of [
      ['VP8 ', plain(LOSSY, 'VP8 ')] as const,
      ['VP8L', plain(LOSSLESS, 'VP8L')] as const,
    ]) {
      const data = bytes.subarray(20);
      for (const length of [11, data.length >> 1, data.length - 9]) {
        const cut = riff(chunk(form, data.subarray(0, length)));
        await assert.rejects(decodeImage(cut), refusal('bad_input', /broken WebP: /));
        assert.deepEqual(await differing(good), []);
      }
    }
  });

  it('for its pixels before anything is expanded', async () => {
    const bomb = riff(chunk('VP8L', flat(16_383, 16_383)));
    assert.ok(bomb.length < 50);
    const tooLarge = refusal('too_large', /16383x16383 pixels is over the limit/);
    await assert.rejects(decodeImage(bomb), tooLarge);
    await assert.rejects(
      decodeImage(riff(vp8x(0, 16_383, 16_383), chunk('VP8L', flat(9, 9)))),
      refusal('bad_input'),
    );
    await assert.rejects(decodeImage(animation([16_383, 16_383], [0, 0], [9, 9], flat(9, 9))), tooLarge);
  });

  const image = flat(9, 9);
  const cases: readonly (readonly [what: string, bytes: Buffer, message: RegExp])[] = [
    [
      'a frame larger than its canvas',
      riff(vp8x(0, 9, 9), chunk('VP8L', flat(16_383, 9))),
      /16383x9 does not fit/,
    ],
    [
      'a frame smaller than its canvas',
      riff(vp8x(0, 10, 9), chunk('VP8L', image)),
      /9x9 does not fit .*10x9/,
    ],
    [
      'a frame that leaves its canvas',
      animation([10, 10], [1, 0], [9, 9], image),
      /9x9 does not fit .*10x10/,
    ],
    ['a frame of another size than it says', animation([16, 16], [0, 0], [9, 8], image), /9x9 says 9x8/],
    ['an animation without frames', riff(vp8x(0x02, 9, 9)), /no frame/],
    ['no picture', riff(vp8x(0, 9, 9), chunk('EXIF', image)), /no picture/],
    ['nothing in it', riff(), /no picture/],
    [
      'a chunk that leaves it',
      riff(Buffer.concat([Buffer.from('VP8L\xff\0\0\0', 'latin1'), image])),
      /inside a chunk/,
    ],
    ['a cut VP8X chunk', riff(chunk('VP8X', Buffer.alloc(9))), /VP8X chunk is cut/],
    ['another version of lossless', riff(chunk('VP8L', Buffer.alloc(14, 0xff))), /VP8L chunk does not begin/],
    ['no key frame', riff(chunk('VP8 ', Buffer.alloc(20, 1))), /key frame/],
    [
      'too many chunks',
      riff(...Array.from({ length: 65_537 }, () => chunk('JUNK', Buffer.alloc(0)))),
      /65536 chunks/,
    ],
  ];
  for (const [what, bytes, message] of cases) {
    it(`for ${what}`, async () => {
      await assert.rejects(decodeImage(bytes), refusal('bad_input', message));
    });
  }
});
