/** Keys named like parts of a prototype are keys like others, at every endpoint; nothing is ever merged by their name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodePointer, encodePointer } from '../../lib/codecs/pointer.ts';
import { readEnvironment } from '../../lib/config/environment.ts';
import { parseResult } from '../../lib/results/fields.ts';
import { deliver, predictEndpoint, predictionsEndpoint } from './hostile/endpoints.ts';
import { Models } from './hostile/models.ts';

const WORDS = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'valueOf',
  '__defineGetter__',
];
const OWNED = '{"owned":1,"polluted":true,"shape":[1],"toString":1}';

/** Bodies with such a word at every place where a key can stand. */
function bodiesOf(word: string): string[] {
  const key = JSON.stringify(word);
  return [
    `{${key}:${OWNED},"instances":[{"x":[1,2]}]}`,
    `{"instances":[{${key}:${OWNED},"x":[1,2]}]}`,
    `{"instances":[{${key}:[1,2]}]}`,
    `{"instances":[{"x":{${key}:${OWNED},"shape":[2],"data":[1],"indices":[[0]]}}]}`,
    `{"instances":{${key}:${OWNED}}}`,
    `{"instances":[{"x":{${key}:${OWNED}}}]}`,
    `{"instances":[{"constructor":{"prototype":${OWNED}},"x":[1,2]}]}`,
    `{"uri":"u","data":"","serde":${key}}`,
    `{"uri":"u",${key}:${OWNED},"data":"AAAA"}`,
    `{"uri":"u","serde":"stream","data":${JSON.stringify(`{"instances":[{${key}:${OWNED},"x":[1,2]}]}`)}}`,
    `{"uri":"u","serde":"safetensors","data":${JSON.stringify(safetensors(`{${key}:${OWNED}}`))}}`,
    `{"uri":${key},"instances":[{"x":[1,2]}]}`,
    `{${key}:{"uri":"u","pointer":"payloads/job/a"}}`,
  ];
}

function safetensors(header: string): string {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, Buffer.from(header)]).toString('base64');
}

/** All own keys of the prototypes that everybody shares. */
function prototypes(): string {
  return [Object, Array, String, Number, Map, Function, Uint8Array, Error, Promise]
    .map(({ prototype }) => Reflect.ownKeys(prototype).map(String).sort().join())
    .join(';');
}

test('no body changes a prototype at any endpoint, and the next good request is answered', async (t) => {
  const before = prototypes();
  const runner = await new Models(t).runner('pair');
  const predict = predictEndpoint(runner);
  const { endpoint: submit } = predictionsEndpoint();
  const results = { save: async () => undefined } as never;
  for (const word of WORDS) {
    for (const body of bodiesOf(word)) {
      await predict(body);
      await submit(body);
      await predict('{"instances":[{"x":[1,2]}]}', { headers: { [word]: '1' }, query: { [word]: '1' } });
      await deliver({ results }, runner, [{ id: 'm', body }]);
      decodePointer(body, 'job');
      assert.equal(prototypes(), before, body);
      assert.equal(({} as { owned?: unknown }).owned, undefined, body);
    }
    decodePointer(encodePointer(word, word), word);
    assert.throws(() =>
      parseResult(
        'u',
        JSON.parse(`{"status":"succeeded","outputs":${JSON.stringify(OWNED)},${JSON.stringify(word)}:"1"}`),
      ),
    );
  }
  const answer = await predict('{"instances":[{"x":[1,2]}]}');
  assert.deepEqual(answer.body['predictions'], ['{value={"data":[1.0,2.0],"shape":[2]}}']);
});

test('the settings that a function reads from its environment change no prototype', () => {
  const before = prototypes();
  for (const word of WORDS) {
    const { job } = readEnvironment({ CLUSTER_SERVING_CONFIG: `{${JSON.stringify(word)}:${OWNED}}` });
    assert.equal((job as unknown as { owned?: unknown }).owned, undefined);
  }
  assert.equal(prototypes(), before);
});
