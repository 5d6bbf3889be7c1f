/**
 * Maps TensorFlow's DataType numbers to dtypes and to the way values are stored. half and bfloat16 become float32;
 * they differ only in how their 16 bits are widened.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import type { NumericDType } from '../../../../lib/contract/tensor.ts';
import type { TfType } from '../graph.ts';
import { DATA_TYPES } from './tables.ts';

const PLAIN: Readonly<Record<string, NumericDType | 'string'>> = {
  float: 'float32',
  double: 'float64',
  int32: 'int32',
  uint8: 'uint8',
  int16: 'int16',
  int8: 'int8',
  string: 'string',
  int64: 'int64',
  bool: 'bool',
  uint16: 'uint16',
  uint32: 'uint32',
  uint64: 'uint64',
  half: 'float32',
  bfloat16: 'float32',
};

/** Quantized types are stored as plain integers. */
const QUANTIZED: Readonly<Record<string, NumericDType>> = {
  qint8: 'int8',
  quint8: 'uint8',
  qint16: 'int16',
  quint16: 'uint16',
  qint32: 'int32',
};

/** TensorFlow's name of a type in lower case. A reference type has the name of its target. */
export function typeName(number: number): string {
  return DATA_TYPES[number > 100 ? number - 100 : number] ?? `type ${number}`;
}

export function tfType(number: number): TfType {
  const name = typeName(number);
  return PLAIN[name] ?? { unsupported: name };
}

/** How a tensor is stored in a file, and the dtype it becomes. */
export interface Storage {
  readonly dtype: NumericDType | 'string';
  /** Set for 16-bit floats, which are widened. */
  readonly half?: 'half' | 'bfloat16';
}

/** @throws bad_model for complex numbers, resources and other unsupported types */
export function storageOf(number: number): Storage {
  const name = typeName(number);
  const dtype = PLAIN[name] ?? QUANTIZED[name];
  if (dtype === undefined) throw badModel(`a tensor of ${name} is not supported`);
  return name === 'half' || name === 'bfloat16' ? { dtype, half: name } : { dtype };
}
