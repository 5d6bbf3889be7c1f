import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { decodeImage } from '../../../../lib/codecs/image/image.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';

/** A line of pictures.jsonl; make.py beside it makes them, and shows OpenCV's pixels of one. */
interface Picture {
  readonly name: string;
  readonly bytes: string;
  /** Size and SHA-256 of the RGB pixels; null when OpenCV refuses the picture. */
  readonly opencv: string | null;
  /** Part of the message of a picture that we refuse. */
  readonly refused?: string;
}

const FILE = new URL('../../../fixtures/pictures/pictures.jsonl', import.meta.url);
const PICTURES = readFileSync(FILE, 'utf8')
  .trimEnd()
  .split('\n')
  .map((line): Picture => JSON.parse(line));

/** The pixels as pictures.jsonl names them, or the refusal. */
async function outcome(bytes: Uint8Array): Promise<string> {
  try {
    const { width, height, data } = await decodeImage(bytes);
    return `${width}x${height} ${createHash('sha256').update(data).digest('hex').slice(0, 16)}`;
  } catch (error) {
    assert.ok(error instanceof ServingError, String(error));
    assert.match(error.code, /^(bad_input|unsupported_media_type)$/);
    return error.message;
  }
}

for (const format of ['bmp', 'gif', 'tiff']) {
  describe(`pictures as ${format.toUpperCase()}`, () => {
    const pictures = PICTURES.filter(({ name }) => name.startsWith(`${format}-`));

    it('are 200 or more', () => {
      assert.ok(pictures.length >= 200, `${pictures.length}`);
    });

    it('decode to the pixels of OpenCV, to the bit, or are refused with a reason', async () => {
      for (const { name, bytes, opencv, refused } of pictures) {
        const got = await outcome(Buffer.from(bytes, 'base64'));
        if (refused === undefined) assert.equal(got, opencv, name);
        else assert.ok(got.includes(refused), `${name}: ${got}`);
      }
    });
  });
}
