/** Writes PNGs of 8 bits, in color or grey, with the filter and the interlacing that need no work. */
import { promisify } from 'node:util';
import { crc32, deflate } from 'node:zlib';
import type { Pixels } from '../../codecs/image/pixels.ts';

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
const FAST = { level: 1 };

/** @param channels 1: grey, and `data` has one byte for each pixel */
export async function encodePng({ width, height, data }: Pixels, channels: 1 | 3 = 3): Promise<Uint8Array> {
  const row = channels * width;
  const lines = Buffer.alloc(height * (row + 1));
  for (let y = 0; y < height; y++) lines.set(data.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, channels === 1 ? 0 : 2], 8);
  const deflated = await promisify(deflate)(lines, FAST);
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('IDAT', deflated), chunk('IEND')]);
}

function chunk(name: string, data: Uint8Array = new Uint8Array()): Buffer {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(data.byteLength, 0);
  ends.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
}
