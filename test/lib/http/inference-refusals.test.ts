/** /v2, the Open Inference Protocol: what is refused, with which status and words, and that nothing brings it down. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { type ModelName, Models } from '../../functions/hostile/models.ts';
import fc from '../../support/fast-check.ts';
import { ALL_BINARY, endpointOf, pairs } from '../../support/inference-endpoint.ts';
import { inferRequest, type SentRequest } from '../../support/open-inference.ts';

describe('a request that does not fit the model is refused', () => {
  const x = { name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] };
  const cases: readonly (readonly [string, ModelName, SentRequest, number, RegExp])[] = [
    [
      "a name that is not the model's",
      'pair',
      inferRequest([{ ...x, name: 'input0' }]),
      400,
      /^missing input "x", unknown input "input0"; the model expects "x" float32 \[N,2\]$/,
    ],
    ['an input too many', 'pair', inferRequest([x, { ...x, name: 'y' }]), 400, /^unknown input "y"/],
    ['an input too few', 'two', inferRequest([{ ...x, name: 'a' }]), 400, /^missing input "b"/],
    [
      'different rows',
      'two',
      inferRequest([
        { ...x, name: 'a' },
        { name: 'b', datatype: 'INT64', shape: [2, 1], data: [1, 2] },
      ]),
      400,
      /has \d rows where another input has 2/,
    ],
    [
      'no rows',
      'pair',
      inferRequest([{ ...x, shape: [0, 2], data: undefined, bytes: Buffer.alloc(0) }]),
      400,
      /is empty \(shape \[0,2\]\)/,
    ],
    [
      "a shape that is not the data's",
      'pair',
      inferRequest([{ ...x, shape: [2, 2] }]),
      400,
      /^input "x": "data" is of shape \[2\]; expected 4 elements flat, or nested as \[2,2\]$/,
    ],
    [
      'data nested otherwise',
      'matrix',
      inferRequest([
        {
          ...x,
          shape: [1, 2, 3],
          data: [
            [1, 2],
            [3, 4],
            [5, 6],
          ],
        },
      ]),
      400,
      /"data" is of shape \[3,2\]; expected 6 elements flat/,
    ],
    [
      'ragged data',
      'pair',
      inferRequest([{ ...x, shape: [2, 2], data: [[1, 2], [3]] }]),
      400,
      /arrays do not agree in shape/,
    ],
    [
      'text for numbers',
      'pair',
      inferRequest([{ ...x, data: ['1', '2'] }]),
      400,
      /^input "x": expected a number, got "1"$/,
    ],
    [
      'numbers for text',
      'texts',
      inferRequest([{ ...x, datatype: 'BYTES' }]),
      400,
      /^input "x": expected text, got 1$/,
    ],
    [
      'BYTES for numbers',
      'pair',
      inferRequest([{ ...x, datatype: 'BYTES', data: ['a', 'b'] }]),
      400,
      /^input "x": expected float32, got string$/,
    ],
    [
      'a NUL in a text',
      'texts',
      inferRequest([{ ...x, datatype: 'BYTES', data: ['a\0b', ''] }]),
      400,
      /without NUL/,
    ],
    [
      '300 as UINT8',
      'uint8',
      inferRequest([{ ...x, datatype: 'UINT8', data: [1, 300] }]),
      400,
      /0 to 255 \(uint8\), got 300/,
    ],
    [
      'an output it does not have',
      'two',
      inferRequest([x], { outputs: [{ name: 'c' }] }),
      400,
      /^output "c": the model has "a_out", "b_out"$/,
    ],
    [
      'brotli',
      'pair',
      { ...inferRequest([x]), headers: { 'content-encoding': 'br' } },
      415,
      /content-encoding "br": expected gzip, deflate or none/,
    ],
    [
      'a body over the limit',
      'pair',
      {
        body: gzipSync(Buffer.alloc(LIMITS.httpBodyBytes + 1, ' ')),
        headers: { 'content-encoding': 'gzip' },
      },
      413,
      /httpBodyBytes/,
    ],
    [
      'a header that is no number',
      'pair',
      { ...inferRequest([x]), headers: { 'inference-header-content-length': 'x' } },
      400,
      /expected a whole number of bytes, got "x"/,
    ],
    [
      'what the model fails on',
      'lookup',
      inferRequest([{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [9] }]),
      422,
      /the model failed on this record/,
    ],
  ];
  for (const [name, model, request, status, message] of cases) {
    it(name, async (t) => {
      const answer = await endpointOf(await new Models(t).runner(model))(request);
      assert.match(answer.error().error, message);
      assert.equal(answer.status, status);
      assert.equal(answer.headers['content-type'], 'application/json');
    });
  }
});

test('whatever comes is answered with outputs or with the reason, and the next request is served', async (t) => {
  const models = new Models(t);
  const names: readonly ModelName[] = ['pair', 'texts', 'two', 'bool', 'grid'];
  const endpoints = await Promise.all(names.map(async (model) => endpointOf(await models.runner(model))));
  const often = (arbitrary: fc.Arbitrary<unknown>, seldom: fc.Arbitrary<unknown>) =>
    fc.oneof({ weight: 5, arbitrary }, { weight: 1, arbitrary: seldom });
  const twoOrThree = <T>(of: fc.Arbitrary<T>) => fc.array(of, { minLength: 2, maxLength: 3 });
  const described = {
    name: often(fc.constant('x'), fc.constantFrom('a', 'b', '__proto__')),
    datatype: often(fc.constantFrom('FP32', 'BOOL', 'INT64'), fc.constantFrom('BYTES', 'FP8', 'constructor')),
    shape: often(fc.constantFrom([1, 2], [1, 1, 2]), fc.jsonValue({ maxDepth: 1 })),
  };
  const input = fc.oneof(
    fc.record({
      ...described,
      data: often(twoOrThree(fc.constantFrom(0, 1)), fc.jsonValue({ maxDepth: 3 })),
    }),
    fc.record({
      ...described,
      parameters: often(fc.constant({ binary_data_size: 8 }), fc.jsonValue({ maxDepth: 1 })),
    }),
  );
  const json = often(
    often(fc.tuple(input), fc.array(input, { maxLength: 2 })).map((inputs) => ({ inputs, ...ALL_BINARY })),
    fc.jsonValue({ maxDepth: 3 }),
  );
  const tail = often(fc.constantFrom(0, 8), fc.nat(32)).map((length) => new Uint8Array(Number(length)));
  const off = often(fc.constant(0), fc.integer({ min: -3, max: 3 })).map(Number);
  let served = 0;
  await fc.assert(
    fc.asyncProperty(json, tail, off, fc.boolean(), async (value, bytes, wrongBy, hasHeader) => {
      const head = Buffer.from(JSON.stringify(value));
      const length = { 'inference-header-content-length': String(head.length + wrongBy) };
      const headers = { 'content-type': 'application/octet-stream', ...(hasHeader ? length : {}) };
      const body = hasHeader ? Buffer.concat([head, bytes]) : head;
      for (const endpoint of endpoints) {
        const answer = await endpoint({ body, headers });
        if (answer.status === 200) served += answer.received().outputs.length;
        else {
          assert.ok([400, 413].includes(answer.status), `${answer.status}: ${answer.bytes.toString()}`);
          const { error } = answer.error();
          assert.ok(error.length > 0 && error.length <= 1_500);
        }
      }
    }),
    { seed: 20_261_121, numRuns: 1_000 },
  );
  assert.ok(served > 50, `only ${served} outputs`);
  const { status } = await (endpoints[0] as (typeof endpoints)[number])(inferRequest([pairs(1, 2)]));
  assert.equal(status, 200);
});
