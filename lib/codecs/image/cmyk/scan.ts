/** Splits the blocks of a scan of all four components. */
import { broken } from '../refusal.ts';
import type { Slices } from '../slices.ts';
import { BitReader, BitWriter, damaged, type HuffmanTable, huffmanTable } from './bits.ts';

export interface Component {
  readonly id: number;
  readonly h: number;
  readonly v: number;
  readonly quantisation: number;
}

export interface Frame {
  readonly marker: number;
  /** Precision, height and width, in their stored order. */
  readonly head: Uint8Array;
  readonly components: readonly Component[];
  /** The fourth component and two empty ones, the first of them as large as the largest of the frame. */
  readonly black: readonly Component[];
  /** Which of those three the fourth component is. */
  readonly place: 0 | 1;
  readonly mcus: number;
}

export interface Scan {
  readonly frame: Frame;
  /** Specifications by class and number, as a DHT names them. */
  readonly tables: ReadonlyMap<number, Uint8Array>;
  /** MCUs between restart markers; 0 for none. */
  readonly interval: number;
  readonly selected: readonly { readonly component: Component; readonly dc: number; readonly ac: number }[];
  /** First and last coefficient, and the bits of the approximation. */
  readonly range: Uint8Array;
  readonly coded: Uint8Array;
}

const PROGRESSIVE = 0xc2;
/** Units of at most 40 blocks of 64 samples that are copied between two turns. */
const SLICE_MCUS = 4_096;
/** The class of tables for all coefficients but the first. */
export const AC = 0x10;

/** The blocks of the first three components, and those of the fourth between empty ones. */
export function* splitBlocks({
  frame,
  tables,
  interval,
  selected,
  range,
  coded,
}: Scan): Slices<[Uint8Array, Uint8Array]> {
  const [from, to, approximation = 0] = range;
  const isSequential = frame.marker !== PROGRESSIVE;
  if (!isSequential && (from !== 0 || to !== 0)) throw damaged();
  const refines = !isSequential && approximation >> 4 !== 0;
  const reader = new BitReader(coded);
  const color = new BitWriter();
  const black = new BitWriter();
  const parts = selected.map(({ component, dc, ac }, index) => ({
    blocks: component.h * component.v,
    dc: refines ? undefined : tableOf(tables, dc),
    ac: isSequential ? tableOf(tables, AC | ac) : undefined,
    writer: index === 3 ? black : color,
  }));
  // A bit for each coefficient that is coded: no difference, and the end of the block.
  const bits = frame.black.map(({ h, v }) => h * v * (isSequential ? 2 : 1));
  const before = frame.place === 0 ? 0 : bits[0]!;
  const after = bits.slice(frame.place + 1).reduce((sum, count) => sum + count, 0);
  for (let mcu = 0; mcu < frame.mcus; mcu++) {
    if (mcu % SLICE_MCUS === SLICE_MCUS - 1) yield;
    if (interval > 0 && mcu > 0 && mcu % interval === 0) {
      const marker = reader.restart();
      color.marker(marker);
      black.marker(marker);
    }
    black.zeros(before);
    for (const { blocks, dc, ac, writer } of parts) {
      for (let block = 0; block < blocks; block++) copyBlock(reader, dc, ac, writer);
    }
    black.zeros(after);
    reader.check();
  }
  return [color.end(), black.end()];
}

/** One block: without `dc` the one bit that refines it, without `ac` nothing but its first coefficient. */
function copyBlock(
  reader: BitReader,
  dc: HuffmanTable | undefined,
  ac: HuffmanTable | undefined,
  to: BitWriter,
): void {
  if (dc === undefined) {
    reader.copy(1, to);
    return;
  }
  const size = reader.symbol(dc, to);
  if (size > 15) throw damaged();
  reader.copy(size, to);
  if (ac === undefined) return;
  for (let index = 1; index < 64; index++) {
    const symbol = reader.symbol(ac, to);
    const bits = symbol & 15;
    // Without bits it is the end of the block, but for 15, a run of 16 zeros.
    if (bits === 0 && symbol !== 0xf0) return;
    index += symbol >> 4;
    reader.copy(bits, to);
  }
}

function tableOf(tables: ReadonlyMap<number, Uint8Array>, number: number): HuffmanTable {
  const spec = tables.get(number);
  if (spec === undefined) throw broken('JPEG', 'a Huffman table is missing');
  return huffmanTable(spec);
}
