/**
 * A worker's value as JSON that anybody reads: an array is nested lists, a set or a tuple a list, bytes and images are
 * base64, a date is ISO 8601. JSON has no NaN and no infinity: both become `null`.
 */
import { encodeBase64 } from '../../codecs/encode-base64.ts';
import { isDate, isoOf } from '../../codecs/values/datetime.ts';
import { isTensorLike } from '../../codecs/values/tensor-like.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { isEncodedImage, type WorkerValue } from '../../contract/worker-values.ts';
import { elementTexts, nest } from './postprocess.ts';

/** @throws too_large for arrays that no answer can hold; they are not written */
export function valueText(value: WorkerValue): string {
  return textOf(value, { elements: LIMITS.largeResultBytes / 4 });
}

/** Elements that may still be written, at up to sixteen characters each. */
interface Budget {
  elements: number;
}

function textOf(value: WorkerValue, left: Budget): string {
  switch (typeof value) {
    case 'bigint':
      return String(value);
    case 'number':
      return Object.is(value, -0) ? '-0' : JSON.stringify(value);
    case 'object':
      return value === null ? 'null' : objectText(value, left);
    default:
      return JSON.stringify(value);
  }
}

function objectText(value: WorkerValue & object, left: Budget): string {
  if (value instanceof Uint8Array) return JSON.stringify(encodeBase64(value));
  if (isDate(value)) return JSON.stringify(isoOf(value) ?? null);
  if (isEncodedImage(value)) return JSON.stringify(encodeBase64(value.bytes));
  if (isTensorLike(value)) {
    left.elements -= value.data.length;
    if (left.elements < 0)
      throw overLimit(
        'largeResultBytes',
        `the arrays of the value have more than ${LIMITS.largeResultBytes / 4} elements, which are`,
      );
    return nest(elementTexts(value), value.shape);
  }
  if (Array.isArray(value) || value instanceof Set) {
    return `[${Array.from(value, (item) => textOf(item, left)).join(',')}]`;
  }
  const entries = Object.entries(value);
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${textOf(item, left)}`).join(',')}}`;
}
