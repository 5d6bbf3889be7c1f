/**
 * Decodes JPEGs of four components, which the decoder in WebAssembly does not give. Their coded blocks are copied into
 * two files that it takes: one of the first three components, and one of the fourth with two empty ones, so that its
 * blocks keep their order. Each sample is then the one of libjpeg. The colors are OpenCV's, which reads CMYK as Adobe
 * stores it, inverted, even if the file says otherwise. Loaded at the first such image.
 */
import { ServingError } from '../../../contract/errors.ts';
import { sharedDecoder } from '../libjpeg.ts';
import type { Pixels } from '../pixels.ts';
import { broken } from '../refusal.ts';
import { inSlices, nextTurn, SLICE_PIXELS, type Slices } from '../slices.ts';
import { damaged } from './bits.ts';
import { AC, type Component, type Frame, type Scan, splitBlocks } from './scan.ts';

const DHT = 0xc4;
const EOI = 0xd9;
const SOS = 0xda;
const DQT = 0xdb;
const DRI = 0xdd;
const ADOBE = 0xee;
/** Scans of all components: one, and 13 that refine it by a bit each. Every one costs a walk over all blocks. */
const WHOLE_SCANS = 14;
/** A table of the empty components: its one code, of one bit, is 0, no difference or the end of a block. */
const EMPTY = Uint8Array.of(1, ...new Uint8Array(15), 0);

/**
 * @param jpeg from its start to its end marker
 * @param size was compared with the pixel limit
 * @throws bad_input for a damaged file; unsupported_media_type for arithmetic codes, and for scans of two or three components
 */
export async function decodeCmyk(
  jpeg: Uint8Array,
  size: { readonly width: number; readonly height: number },
): Promise<Pixels> {
  const { color, black, place, isYcck } = await inSlices(split(jpeg));
  const pixels = await sharedDecoder.decode(color, size);
  await nextTurn();
  const { data: blacks } = await sharedDecoder.decode(black, size);
  await inSlices(mix(pixels.data, blacks, place, isYcck));
  return pixels;
}

/** Takes the levels of black off the others, in place. */
function* mix(data: Uint8Array, blacks: Uint8Array, place: number, isYcck: boolean): Slices<void> {
  for (let start = 0; start < data.length; start += 3 * SLICE_PIXELS) {
    yield;
    const end = Math.min(data.length, start + 3 * SLICE_PIXELS);
    for (let at = start; at < end; at += 3) {
      const k = blacks[at + place]!;
      for (let channel = at; channel < at + 3; channel++) {
        const level = data[channel]!;
        data[channel] = k - (((isYcck ? level : 255 - level) * k) >> 8);
      }
    }
  }
}

interface Split {
  readonly color: Uint8Array;
  readonly black: Uint8Array;
  readonly place: number;
  readonly isYcck: boolean;
}

function* split(jpeg: Uint8Array): Slices<Split> {
  const color: Uint8Array[] = [];
  const black: Uint8Array[] = [];
  const tables = new Map<number, Uint8Array>();
  let frame: Frame | undefined;
  let interval = 0;
  let scans = 0;
  let wholeScans = 0;
  // Without a marker it is CMYK; libjpeg takes an unknown one for YCCK.
  let isYcck = false;
  for (let at = 2; ; ) {
    while (jpeg[at + 1] === 0xff) at++;
    const marker = jpeg[at + 1];
    if (jpeg[at] !== 0xff || marker === undefined) throw damaged();
    if (marker === EOI) break;
    const whole = jpeg.subarray(at, at + 2 + jpeg[at + 2]! * 256 + jpeg[at + 3]!);
    const body = whole.subarray(4);
    at += whole.length;
    if (marker === DHT) readTables(body, tables);
    else if (marker === DQT || marker === DRI) {
      if (marker === DRI) interval = (body[0] ?? 0) * 256 + (body[1] ?? 0);
      color.push(whole);
      black.push(whole);
    } else if (marker === ADOBE && isAdobe(body)) {
      isYcck = body[11] !== 0;
    } else if (marker >= 0xc0 && marker <= 0xcf) {
      if (frame !== undefined) throw damaged();
      frame = readFrame(marker, body);
    } else if (marker === SOS) {
      if (frame === undefined) throw damaged();
      if (scans++ === 0) {
        color.push(adobe(isYcck ? 1 : 0), frameSegment(frame, frame.components.slice(0, 3)));
        black.push(adobe(0), frameSegment(frame, frame.black));
      }
      const coded = jpeg.subarray(at, endOfScan(jpeg, at));
      at += coded.length;
      const scan = readScan(frame, body);
      if (scan.selected.length > 1 && ++wholeScans > WHOLE_SCANS) {
        throw broken('JPEG', `it has more than ${WHOLE_SCANS} scans of all components`);
      }
      yield* addScan({ frame, tables, interval, coded, ...scan }, color, black);
    }
  }
  const file = (parts: Uint8Array[]) =>
    Buffer.concat([Buffer.of(0xff, 0xd8), ...parts, Buffer.of(0xff, EOI)]);
  return { color: file(color), black: file(black), place: frame?.place ?? 0, isYcck };
}

function isAdobe(body: Uint8Array): boolean {
  return body.length >= 12 && Buffer.from(body.subarray(0, 5)).toString('latin1') === 'Adobe';
}

function readFrame(marker: number, body: Uint8Array): Frame {
  if (marker > 0xc2) throw unsupported('without Huffman codes');
  const components = [0, 1, 2, 3].map((index): Component => {
    const [id = 0, sampling = 0, quantisation = 0] = body.subarray(6 + 3 * index);
    return { id, h: sampling >> 4, v: sampling & 15, quantisation };
  });
  const [h, v] = [Math.max(...components.map((one) => one.h)), Math.max(...components.map((one) => one.v))];
  if (components.some((one) => one.h < 1 || one.v < 1 || h > 4 || v > 4)) throw damaged();
  const fourth = components[3]!;
  const most = components.slice(0, 3);
  if (most.every((one) => one.h < h) || most.every((one) => one.v < v)) {
    throw unsupported('whose fourth component is the largest');
  }
  // TurboJPEG takes no other order: the first component has the largest sampling, which all sizes are relative to.
  const place = fourth.h === h && fourth.v === v ? 0 : 1;
  const empty = { id: 0, h: 1, v: 1, quantisation: fourth.quantisation };
  const black = place === 0 ? [fourth, empty, empty] : [{ ...empty, h, v }, fourth, empty];
  const [, height1 = 0, height0 = 0, width1 = 0, width0 = 0] = body;
  const mcus = Math.ceil((width1 * 256 + width0) / (8 * h)) * Math.ceil((height1 * 256 + height0) / (8 * v));
  return { marker, head: body.subarray(0, 5), components, black, place, mcus };
}

/** Adds one scan of the file to the two files. */
function* addScan(scan: Scan, color: Uint8Array[], black: Uint8Array[]): Slices<void> {
  const { frame, tables, selected, range } = scan;
  const numbers = selected.map(({ dc, ac }) => (dc << 4) | ac);
  if (selected.length === 1) {
    const index = frame.components.indexOf(selected[0]!.component);
    const id = 1 + (index === 3 ? frame.place : index);
    (index === 3 ? black : color).push(
      tablesSegment(tables),
      scanSegment([[id, numbers[0]!]], range),
      scan.coded,
    );
    return;
  }
  if (
    selected.length !== 4 ||
    selected.some(({ component }, index) => component !== frame.components[index])
  ) {
    throw unsupported('whose scans hold two or three components');
  }
  const [three, one] = yield* splitBlocks(scan);
  const ids = numbers.slice(0, 3).map((tablesOf, index) => [index + 1, tablesOf] as const);
  color.push(tablesSegment(tables), scanSegment(ids, range), three);
  const { dc, ac } = selected[3]!;
  const emptied = new Map([...tables, [dc ^ 1, EMPTY], [AC | (ac ^ 1), EMPTY]]);
  const empty = ((dc ^ 1) << 4) | (ac ^ 1);
  const places = [0, 1, 2].map((place) => [place + 1, place === frame.place ? numbers[3]! : empty] as const);
  black.push(tablesSegment(emptied), scanSegment(places, range), one);
}

function readScan(frame: Frame, header: Uint8Array): Pick<Scan, 'selected' | 'range'> {
  const count = header[0]!;
  if (header.length !== 4 + 2 * count) throw damaged();
  const selected = Array.from({ length: count }, (_, index) => {
    const [id, numbers = 0] = header.subarray(1 + 2 * index);
    const component = frame.components.find((one) => one.id === id);
    if (component === undefined) throw damaged();
    return { component, dc: numbers >> 4, ac: numbers & 15 };
  });
  return { selected, range: header.subarray(1 + 2 * count) };
}

function unsupported(what: string): ServingError {
  return new ServingError('unsupported_media_type', `CMYK JPEG ${what} is not supported`);
}

function readTables(body: Uint8Array, tables: Map<number, Uint8Array>): void {
  for (let at = 0; at < body.length; ) {
    const counts = body.subarray(at + 1, at + 17);
    const end = at + 17 + counts.reduce((sum, count) => sum + count, 0);
    if (end > body.length || end > at + 17 + 256) throw damaged();
    tables.set(body[at]!, body.subarray(at + 1, end));
    at = end;
  }
}

/** Where the next marker is that does not belong to the scan. */
function endOfScan(jpeg: Uint8Array, start: number): number {
  let at = jpeg.indexOf(0xff, start);
  for (; at >= 0; at = jpeg.indexOf(0xff, at + 1)) {
    const next = jpeg[at + 1] ?? 0;
    if (next > 1 && next !== 0xff && (next < 0xd0 || next > 0xd7)) return at;
  }
  throw damaged();
}

function adobe(transform: number): Uint8Array {
  return segment(ADOBE, Buffer.from('Adobe'), [0, 100, 0, 0, 0, 0, transform]);
}

function frameSegment({ marker, head }: Frame, components: readonly Component[]): Uint8Array {
  const list = components.flatMap(({ h, v, quantisation }, index) => [index + 1, (h << 4) | v, quantisation]);
  return segment(marker, head, [components.length, ...list]);
}

function scanSegment(components: readonly (readonly [id: number, tables: number])[], range: Uint8Array) {
  return segment(SOS, [components.length, ...components.flat(), ...range]);
}

function tablesSegment(tables: ReadonlyMap<number, Uint8Array>): Uint8Array {
  return segment(DHT, ...[...tables].flatMap(([number, spec]) => [[number], spec]));
}

function segment(marker: number, ...parts: readonly ArrayLike<number>[]): Uint8Array {
  const body = Buffer.concat(parts.map((part) => Uint8Array.from(part)));
  return Buffer.concat([Buffer.of(0xff, marker, (body.length + 2) >> 8, (body.length + 2) & 0xff), body]);
}
