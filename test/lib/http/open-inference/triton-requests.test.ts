/** Requests as the genuine tritonclient sends them, byte by byte (triton-requests.py recorded them), and what is answered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ModelName, Models } from '../../../functions/hostile/models.ts';
import { endpointOf, floats } from '../../../support/inference-endpoint.ts';
import { bytesOf, textBytes } from '../../../support/open-inference.ts';
import recorded from './triton-requests.json' with { type: 'json' };

const IDS = bytesOf(BigInt64Array.of(2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, 0n));
const WORDS = ['a', '', 'wörld', '😀'];

/** The model, and the bytes or the data of its output, or else the error. */
const EXPECTED: Readonly<
  Record<keyof typeof recorded, readonly [ModelName, Buffer | readonly unknown[] | RegExp]>
> = {
  floats: ['pair', floats(0.5, 2, 1e-9, -1)],
  'floats as JSON': ['pair', [0.5, 2, 1e-9, -1]],
  classes: ['pair', ['2.0:1', '1.0E-9:0']],
  'shared memory': ['pair', /^output "x_out": shared memory is not served/],
  'a sequence': ['pair', /^sequences \(sequence_id\) are not served/],
  integers: ['int64', IDS],
  'integers as JSON': ['int64', /"data":\[9223372036854775807,-9223372036854775808,9007199254740993,0\]/],
  texts: ['texts', textBytes(WORDS)],
  'texts as JSON': ['texts', WORDS],
  'texts that are not UTF-8': ['texts', /^input "x": BYTES element 0 is no UTF-8 text$/],
};

test('requests of tritonclient get what it reads, or a reason', async (t) => {
  const models = new Models(t);
  for (const [name, { body, length }] of Object.entries(recorded)) {
    const [model, expected] = EXPECTED[name as keyof typeof recorded];
    const headers = length === null ? {} : { 'inference-header-content-length': String(length) };
    const answer = await endpointOf(await models.runner(model))({
      body: Buffer.from(body, 'base64'),
      headers,
    });
    if (expected instanceof RegExp) {
      assert.match(answer.status === 200 ? answer.bytes.toString() : answer.error().error, expected, name);
      continue;
    }
    assert.equal(answer.status, 200, `${name}: ${answer.bytes.toString()}`);
    const [output] = answer.received().outputs;
    assert.deepEqual(output?.bytes ?? output?.data, expected, name);
  }
});
