/** F14: dead letters with poison among them are replayed. */
import assert from 'node:assert/strict';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { ENDLESS } from '../../support/endless.ts';
import { type Dlq, loopMessage, outcomeOf } from './support.ts';

export interface Replayed {
  readonly dryRun: boolean;
  readonly model: string;
  readonly succeeded: number;
  readonly over: number;
  readonly stillFailing: number;
  readonly failed: readonly { readonly id: string; readonly uri?: string; readonly code: string }[];
}

/** In turn: without a readable uri; wrong for the model; two that never end. */
function poison(i: number): { readonly body: string; readonly uri?: string; readonly code: string } {
  const uri = `poison-${i}`;
  if (i < 2) return { uri, body: loopMessage(uri, ENDLESS), code: 'model_failed' };
  switch (i % 4) {
    case 0:
      return { body: `{"data":"no uri ${i}"}`, code: 'bad_request' };
    case 1:
      return { body: `no JSON ${i}`, code: 'bad_request' };
    case 2:
      return { uri, body: JSON.stringify({ uri, data: 'bm8gYXJyb3c=' }), code: 'bad_request' };
    default: {
      const tensor = { dtype: 'float64' as const, shape: [2, 2], data: new Float64Array(4) };
      return {
        uri,
        body: encodeMessage(uri, new Map([['rounds', { kind: 'tensor', tensor }]])),
        code: 'bad_input',
      };
    }
  }
}

/** One in ten of `count` dead letters is poison. The good ones succeed, and exactly the poison stays. */
export async function replayPoisoned(dlq: Dlq, count: number): Promise<void> {
  const { archive, archived, dlqJson, output } = dlq;
  const all = Array.from({ length: count }, (_, i) => {
    if (i % 10 === 4) return poison((i - 4) / 10);
    return { uri: `good-${i}`, body: loopMessage(`good-${i}`, i), code: undefined };
  });
  await archive(all.map(({ body }) => body));
  const { code, json, stderr } = await dlqJson<Replayed>('replay', '--all', '--timeout', '1');
  assert.equal(code, 1, stderr);
  assert.deepEqual(
    { succeeded: json.succeeded, over: json.over, stillFailing: json.stillFailing },
    { succeeded: 0.9 * count, over: 0, stillFailing: 0.1 * count },
  );
  assert.deepEqual(json.failed.map(({ id }) => id).sort(), (await archived()).sort());
  assert.equal(json.failed.length, 0.1 * count);
  const codes = (
    records: readonly { readonly code?: string | undefined; readonly uri?: string | undefined }[],
  ) => records.map(({ uri, code: why }) => `${uri ?? '-'} ${why}`).sort();
  assert.deepEqual(codes(json.failed), codes(all.filter((one) => one.code !== undefined)));
  const outcomes = await Promise.all(
    all.map(async ({ uri }) => (uri === undefined ? undefined : outcomeOf(output, uri))),
  );
  const expected = all.map(({ uri, code: why }, i) => {
    if (uri === undefined) return undefined;
    return why === undefined ? i : 'max_receives_exceeded';
  });
  assert.deepEqual(outcomes, expected);
}
