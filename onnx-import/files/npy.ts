/**
 * Reads .npy and .npz files, in which other tools write reference data. Header lengths and zip sizes are checked
 * against limits before anything is allocated.
 */
import { badModel, type ServingError } from '../../lib/contract/errors.ts';
import { elementCount, type NumericDType, type Tensor, viewBytes } from '../../lib/contract/tensor.ts';
import { transposed } from '../graph/moves.ts';
import { readPickle } from './pickle.ts';
import { PickledCall, PickledTuple } from './pickled.ts';
import { isZip, openArchive } from './zip.ts';

const MAGIC = '\u0093NUMPY';
const MAX_HEADER_BYTES = 64 * 1024;
const MAX_ELEMENTS = 2 ** 28;
const ARCHIVE = { entries: 1_000, unpackedBytes: 1024 * 1024 * 1024 } as const;

const DTYPES: Readonly<Record<string, NumericDType>> = {
  f2: 'float16',
  f4: 'float32',
  f8: 'float64',
  i1: 'int8',
  i2: 'int16',
  i4: 'int32',
  i8: 'int64',
  u1: 'uint8',
  u2: 'uint16',
  u4: 'uint32',
  u8: 'uint64',
  b1: 'bool',
};

/** @param name for error messages. @throws bad_model */
export function readNpy(bytes: Uint8Array, name: string): Tensor {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (file.length < 12 || file.toString('latin1', 0, 6) !== MAGIC) throw bad(name, 'no .npy file');
  const isWide = (file[6] as number) > 1;
  const length = isWide ? file.readUInt32LE(8) : file.readUInt16LE(8);
  const start = isWide ? 12 : 10;
  if (length > MAX_HEADER_BYTES || start + length > file.length) throw bad(name, 'its header is cut off');
  const header = file.toString('latin1', start, start + length);
  const order = /'fortran_order':\s*(True|False)/.exec(header)?.[1];
  const dims = /'shape':\s*\(([0-9, L]*)\)/.exec(header)?.[1];
  const type = /'descr':\s*'([<>|=])(\w+)'/.exec(header);
  if (dims === undefined || order === undefined || !type) throw bad(name, 'its header is not understood');
  const shape = (dims.match(/\d+/g) ?? []).map(Number);
  const data = new Uint8Array(file.subarray(start + length));
  const tensor = elementsOf(type, shape, data, name);
  // Of Fortran, whose first dimension is innermost, it is the transposed array.
  if (order === 'True' && shape.length > 1) return transposed({ ...tensor, shape: shape.toReversed() });
  return tensor;
}

function elementsOf(type: RegExpExecArray, shape: number[], data: Uint8Array, name: string): Tensor {
  const [, endian, code = ''] = type;
  const count = elementCount(shape, MAX_ELEMENTS);
  const texts = /^([SU])(\d{1,5})$/.exec(code);
  if (texts && endian !== '>') {
    return {
      dtype: 'string',
      shape,
      data: fixedTexts(data, texts[1] === 'U', Number(texts[2]), count, name),
    };
  }
  if (code === 'O') return { dtype: 'string', shape, data: objectTexts(data, count, name) };
  const dtype = DTYPES[code];
  if (dtype === undefined || (endian === '>' && !code.endsWith('1'))) {
    throw bad(name, `its elements are ${endian}${code}; expected little-endian numbers or texts`);
  }
  const array = viewBytes(dtype, data);
  if (array.length !== count) throw bad(name, `expected ${count} elements, found ${array.length}`);
  return { dtype, shape, data: array };
}

/** Texts of fixed length, padded with zeros: bytes (S) or UTF-32 (U). */
function fixedTexts(
  data: Uint8Array,
  isWide: boolean,
  length: number,
  count: number,
  name: string,
): string[] {
  const width = isWide ? length * 4 : length;
  if (data.length !== width * count) throw bad(name, `expected ${count} texts, found ${data.length} bytes`);
  const buffer = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return Array.from({ length: count }, (_, i) => {
    const text = isWide
      ? Array.from({ length }, (_unused, at) => buffer.readUInt32LE(i * width + at * 4))
          .filter((point) => point > 0 && point <= 0x10_ff_ff)
          .map((point) => String.fromCodePoint(point))
          .join('')
      : buffer.toString('utf8', i * width, (i + 1) * width);
    return text.replace(/\0+$/, '');
  });
}

/** Texts of an array of objects, which numpy pickles: str, and bytes of UTF-8, in row-major order. */
function objectTexts(data: Uint8Array, count: number, name: string): string[] {
  const { value } = readPickle(data, `reference ${name}`);
  const state = value instanceof PickledCall ? value.state : undefined;
  const items = state instanceof PickledTuple ? state.items.at(-1) : undefined;
  if (!Array.isArray(items) || items.length !== count) throw bad(name, `expected ${count} texts`);
  return items.map((item) => {
    if (typeof item === 'string') return item;
    if (item instanceof Uint8Array) return Buffer.from(item).toString('utf8');
    throw bad(name, 'its elements are objects; expected numbers or texts');
  });
}

/** Tensors by entry name, without `.npy`. @throws bad_model */
export function readNpz(bytes: Uint8Array, name: string): Map<string, Tensor> {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isZip(file)) throw bad(name, 'no .npz file (a zip of .npy files)');
  const archive = openArchive(file, `reference ${name}`, ARCHIVE);
  const tensors = archive.names.map(
    (entry) => [entry.replace(/\.npy$/, ''), readNpy(archive.read(entry), `${name}: ${entry}`)] as const,
  );
  return new Map(tensors);
}

function bad(name: string, what: string): ServingError {
  return badModel(`reference ${name}: ${what}`);
}
