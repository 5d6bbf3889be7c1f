/** Reads node attributes as typed values. */
import type { DType } from '../../lib/contract/tensor.ts';
import type { Attributes } from './value.ts';

export function int(attribute: Attributes[string], fallback: number): number {
  return typeof attribute === 'number' ? attribute : fallback;
}

export function ints(attribute: Attributes[string]): readonly number[] | undefined {
  return Array.isArray(attribute) ? (attribute as readonly number[]) : undefined;
}

/** Dtypes by ONNX's numbers. */
export const ELEMENT_TYPES: Readonly<Record<DType, number>> = {
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
  float64: 11,
  uint32: 12,
  uint64: 13,
};

/** @param element its number in ONNX */
export function dtypeIn(element: Attributes[string]): DType | undefined {
  const found = Object.entries(ELEMENT_TYPES).find(([, number]) => number === element);
  return found?.[0] as DType | undefined;
}

export function dtypeOf(element: Attributes[string], fallback: DType): DType {
  return dtypeIn(element) ?? fallback;
}
