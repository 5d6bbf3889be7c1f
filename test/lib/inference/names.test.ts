/** Names of inputs and outputs are names, and their order is the client's, even where JavaScript's objects disagree. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { decodeMessage, encodeMessage } from '../../../lib/codecs/message.ts';
import { decodeTensors, encodeTensors } from '../../../lib/codecs/safetensors.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../../lib/contract/values.ts';
import { readSubmissions } from '../../../lib/http/predictions.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import fc from '../../support/fast-check.ts';
import { ALL_BINARY, endpointOf } from '../../support/inference-endpoint.ts';
import { onnxModel } from '../../support/onnx.ts';
import { bytesOf, inferRequest } from '../../support/open-inference.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import { openModelBytes } from '../../support/runner.ts';

const longs = (...values: bigint[]): Tensor => ({
  dtype: 'int64',
  shape: [values.length],
  data: BigInt64Array.from(values),
});

function inputsOf(message: string): Inputs {
  const { inputs } = decodeMessage(message);
  if (inputs instanceof ServingError) throw inputs;
  return inputs;
}

const namesOf = (text: string) => decodeInstances(text).map((inputs) => [...inputs.keys()]);

test('names that look like indices keep the order of the JSON text', () => {
  assert.deepEqual(namesOf('{"instances":[{"1":[1],"0":[2]}]}'), [['1', '0']]);
  const odd = String.raw` {"\"1\":": "\\", "instances" : [{"b":"\\\"0\":","10" :{"b64":"x"},
    "\u0039\u0039":[[1],["\""]]}, {"a":1}]}`;
  assert.deepEqual(namesOf(odd), [['b', '10', '99'], ['a']]);
  const twice = '{"instances":[{"0":1,"1":1}],"instances":[{"7":1,"3":2,"7":3}]}';
  assert.deepEqual(namesOf(twice), [['7', '3']]);
  assert.deepEqual(decodeInstances(twice)[0]?.get('7'), { kind: 'json', value: 3 });
});

test('any names keep their order, in JSON and in a message of either form', () => {
  const name = fc.oneof(
    fc.integer({ min: 0, max: 20 }).map(String),
    fc.constantFrom('__proto__', 'constructor', ':', ',', '0:', '00', '4294967295', '4294967294'),
    fc.string({ minLength: 1, maxLength: 5 }),
  );
  // The JSON.parse of Node 24 now and then reads a key with escapes as another one, so these stay out.
  const readable = name.filter((key) => JSON.stringify(key) === `"${key}"`);
  const names = fc.uniqueArray(readable, { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(names, (expected) => {
      const members = expected.map((key, i) => `${JSON.stringify(key)} : ${i}`).join(',');
      const [inputs] = decodeInstances(`{"instances":[{${members}}]}`);
      const { submissions } = readSubmissions(`{"instances":[{${members}}]}`);
      const given = inputs as Inputs;
      assert.deepEqual([...given.keys()], expected);
      assert.deepEqual([...inputsOf(encodeMessage('u', given))], [...given]);
      assert.deepEqual([...inputsOf(submissions[0]?.message ?? '')], [...given]);
      const tensors = expected.map((key, i): [string, Value] => [
        key,
        // Different widths, because the tensors in the file are sorted by width.
        { kind: 'tensor', tensor: i % 2 ? longs(1n) : { dtype: 'bool', shape: [1], data: Uint8Array.of(1) } },
      ]);
      assert.deepEqual([...inputsOf(encodeMessage('u', new Map(tensors)))], tensors);
    }),
    { numRuns: 300 },
  );
});

test('tensors in a result keep their order', () => {
  const tensors = new Map([
    ['2', longs(2n)],
    ['1', longs(1n)],
  ]);
  assert.deepEqual([...decodeTensors(encodeTensors(tensors))], [...tensors]);
});

test('inputs bound by position follow the order of the text', async (t) => {
  const runner = await openModelBytes(
    t,
    onnxModel({
      inputs: [
        { name: 'a', dtype: 'float32', shape: ['N', 1] },
        { name: 'b', dtype: 'float32', shape: ['N', 1] },
      ],
      outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
      nodes: [{ op: 'Sub', inputs: ['a', 'b'], outputs: ['y'] }],
    }),
  );
  const [outcome] = await runner.run(
    decodeInstances('{"instances":[{"1":[7],"0":[5]}],"bindByPosition":true}'),
  );
  assert.ok(outcome?.ok);
  assert.equal(outcome.outputs[0]?.data[0], 2);
});

/** An input and an output cannot have the same name, so each gets its own model. */
const namedModel = (input: string, output: string) =>
  onnxModel({
    inputs: [
      { name: input, dtype: 'int64', shape: ['N', 1] },
      { name: 'constructor', dtype: 'int64', shape: ['N', 1] },
    ],
    outputs: [
      { name: output, dtype: 'int64', shape: ['N', 1] },
      { name: 'toString', dtype: 'int64', shape: ['N', 1] },
    ],
    nodes: [
      { op: 'Sub', inputs: [input, 'constructor'], outputs: [output] },
      { op: 'Add', inputs: [input, 'constructor'], outputs: ['toString'] },
    ],
  });

for (const [input, output] of [
  ['__proto__', 'y'],
  ['x', '__proto__'],
] as const) {
  test(`a model from ${input} to ${output} uses these names in records, requests and Redis`, async (t) => {
    const runner = await openModelBytes(t, namedModel(input, output));
    const [outcome] = await runner.run(
      decodeInstances(`{"instances":[{"constructor":[2],${JSON.stringify(input)}:[7]}]}`),
    );
    assert.ok(outcome?.ok);
    const answers = outcome.outputs.map(({ name, data }) => [name, data[0]]);
    assert.deepEqual(answers, [
      [output, 5n],
      ['toString', 9n],
    ]);
    const sent = (name: string, value: bigint) => ({
      name,
      datatype: 'INT64',
      shape: [1, 1],
      bytes: bytesOf(BigInt64Array.of(value)),
    });
    const request = inferRequest([sent('constructor', 2n), sent(input, 7n)], ALL_BINARY);
    const { outputs } = (await endpointOf(runner)(request)).received();
    assert.deepEqual(
      outputs.map(({ name, bytes }) => [name, bytes?.readBigInt64LE()]),
      answers,
    );
    const connection = new RedisConnection(await redisUrl(t), PATIENT);
    const results = new ResultStore(connection, { job: 'job', ttlSeconds: 60, now: Date.now });
    t.after(() => results.close());
    await results.save([{ uri: 'u', fields: serializeResult(outcome, undefined) }], 'v1');
    const stored = await results.get('u');
    assert.deepEqual(
      stored?.outputs.map(({ name, data }) => [name, data[0]]),
      answers,
    );
  });
}
