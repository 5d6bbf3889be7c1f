/** Reads a .npy file as a tensor, with only what the reference data uses: little-endian, C order, version 1 to 3. */
import { isNumericDType, type Tensor, viewBytes } from '../../lib/contract/tensor.ts';

const DTYPES: Readonly<Record<string, string>> = {
  '<f4': 'float32',
  '<f8': 'float64',
  '<i4': 'int32',
  '<i8': 'int64',
  '|u1': 'uint8',
  '|i1': 'int8',
  '|b1': 'bool',
};

export function readNpy(file: Buffer): Tensor {
  const wide = (file[6] as number) > 1;
  const length = wide ? file.readUInt32LE(8) : file.readUInt16LE(8);
  const start = wide ? 12 : 10;
  const header = file.toString('latin1', start, start + length);
  const dtype = DTYPES[/'descr': '([^']+)'/.exec(header)?.[1] ?? ''];
  if (!dtype || !isNumericDType(dtype) || !header.includes("'fortran_order': False"))
    throw new Error(`npy: ${header}`);
  const dims = /'shape': \(([^)]*)\)/.exec(header)?.[1] ?? '';
  const shape = dims
    .split(',')
    .map((dim) => dim.trim())
    .filter((dim) => dim !== '')
    .map(Number);
  return { dtype, shape, data: viewBytes(dtype, file.subarray(start + length)) };
}

/** A tensor as nested arrays, the way a JSON body has it. */
export function toNested({ dtype, shape, data }: Tensor): unknown {
  const build = (axis: number, offset: number, stride: number): unknown => {
    if (axis === shape.length) return dtype === 'string' ? data[offset] : Number(data[offset]);
    const inner = stride / (shape[axis] as number);
    return Array.from({ length: shape[axis] as number }, (_, i) =>
      build(axis + 1, offset + i * inner, inner),
    );
  };
  return build(0, 0, data.length);
}
