/** A row of a model as the inputs of a record, and as the message of an old client. */
import type { Inputs } from '../lib/contract/values.ts';
import { encodeArrowRecord } from '../test/support/arrow-record.ts';
import type { BenchModel } from './models.ts';

/** Stands once in a template of a message; each record made of it gets its own. */
export const URI = 'the-uri-of-a-record';

/** The tensor of one record. */
export function inputsOf({ input, rowShape }: BenchModel, data: Float32Array): Inputs {
  return new Map([[input, { kind: 'tensor', tensor: { dtype: 'float32', shape: rowShape, data } }]]);
}

/** As the old Python client puts it into Redis, and a bridge into the queue. */
export function arrowMessage(uri: string, inputs: Inputs): string {
  return JSON.stringify({ uri, data: Buffer.from(encodeArrowRecord(inputs)).toString('base64') });
}
