/**
 * Writes PNGs, broken ones on request. It shares no code with the reader under test on purpose, so Adam7 and the
 * filters are implemented again.
 */
import { crc32, deflateSync } from 'node:zlib';

export interface PngImage {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colourType: number;
  readonly interlaced?: boolean;
  /** The samples of a pixel, `depth` bits each. */
  readonly sample: (x: number, y: number) => readonly number[];
  /** The filter of a row, by its number among the rows of all passes. Default: none. */
  readonly filter?: (row: number) => number;
  /** Chunks before the image data. */
  readonly chunks?: readonly (readonly [name: string, data: Uint8Array])[];
  /** Bytes of one IDAT chunk; default all in one. */
  readonly idatBytes?: number;
}

export function pngChunk(name: string, data: Uint8Array): Buffer {
  const chunk = Buffer.alloc(12 + data.length);
  chunk.writeUInt32BE(data.length, 0);
  chunk.write(name, 4, 'latin1');
  chunk.set(data, 8);
  chunk.writeUInt32BE(crc32(chunk.subarray(4, 8 + data.length)), 8 + data.length);
  return chunk;
}

export function pngHeader(
  width: number,
  height: number,
  depth: number,
  colourType: number,
  interlace: number,
): Buffer {
  const data = Buffer.alloc(13);
  data.writeUInt32BE(width, 0);
  data.writeUInt32BE(height, 4);
  data.set([depth, colourType, 0, 0, interlace], 8);
  return pngChunk('IHDR', data);
}

/** Signature, header, the given chunks, end. */
export function pngFile(header: Uint8Array, ...chunks: readonly Uint8Array[]): Buffer {
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
  return Buffer.concat([signature, header, ...chunks, pngChunk('IEND', new Uint8Array(0))]);
}

export function writePng(image: PngImage): Buffer {
  const { width, height, depth, colourType, interlaced = false, chunks = [] } = image;
  const deflated = deflateSync(scanlines(image));
  const idatBytes = image.idatBytes ?? deflated.length;
  const data: Buffer[] = [];
  for (let at = 0; at < deflated.length; at += idatBytes) {
    data.push(pngChunk('IDAT', deflated.subarray(at, at + idatBytes)));
  }
  return pngFile(
    pngHeader(width, height, depth, colourType, interlaced ? 1 : 0),
    ...chunks.map(([name, bytes]) => pngChunk(name, bytes)),
    ...data,
  );
}

/** Which of the seven passes a pixel belongs to, by its place in the 8 x 8 square, as the specification draws it. */
const ADAM7 = [
  '16462646',
  '77777777',
  '56565656',
  '77777777',
  '36463646',
  '77777777',
  '56565656',
  '77777777',
];

export function scanlines(image: PngImage): Buffer {
  const { width, height, depth, interlaced = false, sample, filter = () => 0 } = image;
  const distance = Math.max(1, (sample(0, 0).length * depth) >> 3);
  const lines: Buffer[] = [];
  for (let pass = 1; pass <= (interlaced ? 7 : 1); pass++) {
    let above: Buffer | undefined;
    for (let y = 0; y < height; y++) {
      const samples: number[] = [];
      for (let x = 0; x < width; x++) {
        if (!interlaced || ADAM7[y % 8]?.[x % 8] === String(pass)) samples.push(...sample(x, y));
      }
      if (samples.length === 0) continue;
      const row = pack(samples, depth);
      lines.push(filtered(row, above ?? Buffer.alloc(row.length), filter(lines.length), distance));
      above = row;
    }
  }
  return Buffer.concat(lines);
}

function pack(samples: readonly number[], depth: number): Buffer {
  const bits = samples.map((value) => value.toString(2).padStart(depth, '0')).join('');
  const bytes = bits.match(/.{1,8}/g) ?? [];
  return Buffer.from(bytes.map((byte) => Number.parseInt(byte.padEnd(8, '0'), 2)));
}

function filtered(row: Buffer, above: Buffer, filter: number, distance: number): Buffer {
  const out = Buffer.alloc(row.length + 1);
  out[0] = filter;
  for (const [index, value] of row.entries()) {
    const left = row[index - distance] ?? 0;
    const up = above[index] ?? 0;
    const corner = above[index - distance] ?? 0;
    const guess = [0, left, up, Math.floor((left + up) / 2), nearest(left, up, corner)][filter] ?? 0;
    out[index + 1] = value - guess;
  }
  return out;
}

/** Paeth: of the three, the one nearest to left + up - corner; the first wins a tie. */
function nearest(left: number, up: number, corner: number): number {
  const target = left + up - corner;
  let best = left;
  for (const other of [up, corner]) {
    if (Math.abs(target - other) < Math.abs(target - best)) best = other;
  }
  return best;
}
