/** Outcomes and announcements for the tests of a store, and what they look for in its answers. */
import type { Enqueue } from '../../../../lib/contract/enqueue.ts';
import { type ErrorCode, ServingError } from '../../../../lib/contract/errors.ts';
import type { Dequeued } from '../../../../lib/contract/result.ts';
import type { Tensor } from '../../../../lib/contract/tensor.ts';
import type { SentRecord } from '../../../../lib/pipeline/submit.ts';
import { serializeResult } from '../../../../lib/results/fields.ts';
import type { Finished, Results } from '../../../../lib/results/store.ts';
import { enqueued } from '../../../support/enqueue.ts';

export const tensor = (...values: number[]): Tensor => ({
  dtype: 'float32',
  shape: [values.length],
  data: Float32Array.from(values),
});

/** Fields of a result with one output of one value. */
export const fieldsOf = (value: number) =>
  serializeResult({ ok: true, outputs: [{ name: 'y', ...tensor(value) }] }, undefined);

export const failedFieldsOf = (code: ErrorCode, message = 'no') =>
  serializeResult({ ok: false, error: new ServingError(code, message) }, undefined);

export function success(uri: string, value: number, enqueue?: Enqueue): Finished {
  return { uri, fields: fieldsOf(value), ...(enqueue && { enqueue }) };
}

export function failure(uri: string, code: ErrorCode = 'bad_input', enqueue?: Enqueue): Finished {
  return { uri, fields: failedFieldsOf(code), ...(enqueue && { enqueue }) };
}

/** The enqueue `m<n>`, which was sent at n. */
export const sentAt = (n: number): Enqueue => enqueued(`m${n}`, n);

export const announced = (uri: string, identity: string): SentRecord => ({
  uri,
  identity,
  message: `payload of ${identity}`,
});

export async function drained(results: Results): Promise<string[]> {
  const found: string[] = [];
  for await (const dequeued of results.drain()) found.push(nameOf(dequeued));
  return found.sort();
}

/** The uri, and its value or its error. */
export function nameOf(dequeued: Dequeued): string {
  if ('error' in dequeued) return `${dequeued.uri} ${dequeued.error.code}`;
  return `${dequeued.uri} ${dequeued.result.outputs[0]?.data[0]}`;
}

/** The first value of the result of a uri, its error code, or undefined without a result. */
export async function outcomeOf(results: Results, uri: string, identity?: string): Promise<unknown> {
  try {
    return (await results.get(uri, { identity }))?.outputs[0]?.data[0];
  } catch (error) {
    return (error as ServingError).code;
  }
}

/** So that what is stored next is stored in a later ms. */
export const nextMs = () => new Promise((resolve) => setTimeout(resolve, 3));
