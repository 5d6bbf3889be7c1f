/**
 * The JSON of a finished result, as GET /predictions/{uri} answers it. It is built by hand so that float32 values keep
 * their short form, and in pieces, because that of a large result may be longer than memory has room for twice. JSON
 * numbers are doubles, so an int64 beyond 2^53 is written as a string to stay exact.
 */
import { idOfLarge, type ObjectDigest, type Result } from '../../contract/result.ts';
import type { DType } from '../../contract/tensor.ts';
import type { NamedTensor } from '../../contract/values.ts';
import { numberText } from './postprocess.ts';
import { valueText } from './value-text.ts';

/** Elements of one piece. */
const PIECE = 65_536;

export function resultText(result: Result): string {
  return [...resultPieces(result)].join('');
}

/** @throws too_large for a worker's arrays that no answer can hold */
export function* resultPieces(result: Result): Generator<string> {
  yield headText(result).slice(0, -1);
  const { value, filtered, outputs } = result;
  if (value !== undefined) yield `,"value":${valueText(value)}}`;
  else if (filtered !== undefined) yield `,"filtered":${JSON.stringify(filtered)}}`;
  else {
    yield ',"outputs":[';
    for (const [i, output] of outputs.entries()) yield* outputPieces(output, i === 0 ? '' : ',');
    yield ']}';
  }
}

/**
 * The JSON that stands for a large result: how large the object is that a reader is sent to, and with which id it is
 * deleted. @param location where it can be asked for, in a page
 */
export function largeText(result: Result, { bytes, sha256 }: ObjectDigest, location?: string): string {
  const id = result.large && idOfLarge(result.large);
  return `${headText(result).slice(0, -1)},"large":${JSON.stringify({ id, bytes, sha256, location })}}`;
}

function headText({ uri, model, finishedAt, identity }: Result): string {
  const time = new Date(finishedAt).toISOString();
  // A result of Analytics Zoo Cluster Serving does not say which enqueue it answers.
  return JSON.stringify({
    uri,
    ...(identity && { identity }),
    status: 'succeeded',
    model,
    finishedAt: time,
  });
}

function* outputPieces({ name, dtype, shape, data }: NamedTensor, before: string): Generator<string> {
  yield `${before}{"name":${JSON.stringify(name)},"dtype":"${dtype}","shape":[${shape.join(',')}],"data":[`;
  const elements = data;
  for (let start = 0; start < elements.length; start += PIECE) {
    const texts: string[] = start === 0 ? [] : [''];
    const end = Math.min(elements.length, start + PIECE);
    for (let i = start; i < end; i++) texts.push(elementText(elements[i] as number | bigint | string, dtype));
    yield texts.join(',');
  }
  yield ']}';
}

/** As in every answer, except that an integer beyond 2^53 is a string to stay exact. */
function elementText(element: number | bigint | string, dtype: DType): string {
  if (typeof element === 'string') return JSON.stringify(element);
  if (typeof element === 'bigint' && !Number.isSafeInteger(Number(element))) return `"${element}"`;
  return numberText(element, dtype);
}
