/** Which value of a record belongs to which input, on every way into the service: names count, and position is a choice. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { decodeMessage, encodeMessage } from '../../lib/codecs/message.ts';
import { encodeTensors } from '../../lib/codecs/safetensors.ts';
import { CLOCK } from '../../lib/compose/clock.ts';
import { openPooledOnnx } from '../../lib/compose/onnx-pool.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { foldName } from '../../lib/contract/suggest.ts';
import type { Inputs, Value } from '../../lib/contract/values.ts';
import { readSubmissions } from '../../lib/http/predictions.ts';
import { InputQueue } from '../../sdk/index.ts';
import { encodeArrowRecord } from '../support/arrow-record.ts';
import { fixture, sharedPath } from '../support/fixtures.ts';
import { identityModel, onnxModel } from '../support/onnx.ts';
import { openModelBytes, temporaryFolder } from '../support/runner.ts';
import { type Answer, runMessageBodies } from '../support/three-paths.ts';
import { predictEndpoint } from './hostile/endpoints.ts';

const column = (name: string) => ({ name, dtype: 'float32' as const, shape: ['N', 1] });
/** Its output is `first` - `second`. */
const DIFFERENCE = onnxModel({
  inputs: [column('age'), column('fare')],
  outputs: [column('y')],
  nodes: [{ op: 'Sub', inputs: ['age', 'fare'], outputs: ['y'] }],
});
const MEANT = /^.*missing input "age", "fare".*; did you mean "fare" for ".*", "age" for ".*"\?$/;

const json = (value: unknown): Value => ({ kind: 'json', value });
const tensor = (value: number): Value => ({
  kind: 'tensor',
  tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(value) },
});
const record = (first: string, second: string, of = tensor): Inputs =>
  new Map([
    [first, of(7)],
    [second, of(5)],
  ]);
const arrow = (inputs: Inputs) =>
  JSON.stringify({ uri: 'u', data: Buffer.from(encodeArrowRecord(inputs)).toString('base64') });
const valueOf = (answers: readonly Answer[][]) => answers.map(([output]) => output?.data[0]);

async function endpointOf(t: TestContext, bytes: Uint8Array = DIFFERENCE) {
  const runner = await openModelBytes(t, bytes);
  return { runner, ask: predictEndpoint(runner) };
}

test('names of writers are one name without case, blanks, separators and units', () => {
  for (const name of [
    'fare',
    'Fare',
    ' FARE',
    'fa_re',
    'Fare (USD)',
    'fare [USD]',
    'fa-re',
    'fare{$}',
    'ｆａｒｅ',
    'fa\u00a0re\u200b',
  ])
    assert.equal(foldName(name), 'fare', name);
  for (const [name, folded] of [
    ['(body)', '(body)'],
    ['( Body_Mass )', '(bodymass)'],
    ['[a-b] {c d}', '[ab]{cd}'],
  ] as const)
    assert.equal(foldName(name), folded, name);
  assert.notEqual(foldName('fare1'), foldName('fare2'));
});

test('a table whose header names other columns is refused, in any order and for one input too', async (t) => {
  const { ask } = await endpointOf(t);
  const headers = { 'content-type': 'text/csv' };
  const answer = await ask('fare,age\n5,7\n', { headers });
  assert.deepEqual(answer.body['predictions'], ['{value={"data":[2.0],"shape":[1]}}']);
  for (const header of ['Fare,Age', 'FARE (USD),age_', '"fare [$]", "Age "'])
    assert.match(String((await ask(`${header}\n5,7\n`, { headers })).error), MEANT, header);
  const { status, error } = await ask('p,q\n5,7\n', { headers });
  assert.deepEqual(
    [status, /missing input "age", "fare", unknown input "p", "q"/.test(String(error))],
    [400, true],
  );
  const one = predictEndpoint(await openModelBytes(t, identityModel([column('x')])));
  assert.equal((await one('x\n5\n', { headers })).status, 200);
  assert.match(
    String((await one('price\n5\n', { headers })).error),
    /missing input "x", unknown input "price"/,
  );
});

test('one input of JSON may have any name but one that is nearly that of the model', async (t) => {
  const { ask } = await endpointOf(t, identityModel([column('image')]));
  for (const name of ['image', 't', 'x', 'input_1', '0'])
    assert.equal((await ask(JSON.stringify({ instances: [{ [name]: [1] }] }))).status, 200, name);
  for (const name of ['Image', 'IMAGE', 'image (rgb)', ' image', 'im-age']) {
    const { status, error } = await ask(JSON.stringify({ instances: [{ [name]: [1] }] }));
    assert.equal(status, 400, name);
    assert.match(String(error), /did you mean "image" for/);
  }
  const strict = await ask('{"instances":[{"t":[1]}],"bindByPosition":false}');
  assert.match(String(strict.error), /missing input "image", unknown input "t"/);
});

test('several inputs of JSON bind by position where the body says so, in the order of its text', async (t) => {
  const { ask } = await endpointOf(t);
  const { status, error } = await ask('{"instances":[{"1":[7],"0":[5]}]}');
  assert.equal(status, 400);
  assert.match(String(error), /"bindByPosition": true beside "instances"/);
  const two = ['{value={"data":[2.0],"shape":[1]}}'];
  for (const body of [
    '{"instances":[{"1":[7],"0":[5]}],"bindByPosition":true}',
    '{"bindByPosition":true,"instances":[{"p":[7],"q":[5]}]}',
    '{"instances":[{"fare":[5],"age":[7]}],"bindByPosition":true}',
    '{"instances":[{"fare":[5],"age":[7]}],"bindByPosition":false}',
  ])
    assert.deepEqual((await ask(body)).body['predictions'], two, body);
  assert.match(
    String((await ask('{"instances":[{"FARE":[5],"AGE":[7]}],"bindByPosition":true}')).error),
    MEANT,
  );
  assert.match(
    String((await ask('{"instances":[{"a":[5]}],"bindByPosition":"yes"}')).error),
    /"bindByPosition": expected true or false, got "yes"/,
  );
});

test('records of old clients bind by position, and those of ours by name', async (t) => {
  const { runner } = await endpointOf(t);
  const stream = (first: string, second: string) =>
    JSON.stringify({ uri: 'u', serde: 'stream', data: `{"instances":[{"${first}":[7],"${second}":[5]}]}` });
  assert.deepEqual(
    valueOf(await runMessageBodies(runner, [arrow(record('p', 'q')), stream('1', '0')])),
    [2, 2],
  );
  for (const body of [arrow(record('Fare', 'Age')), stream('Fare', 'Age')])
    await assert.rejects(runMessageBodies(runner, [body]), { code: 'bad_input', message: MEANT });
  const own = encodeMessage('u', record('p', 'q'));
  const inOrder = encodeTensors(
    new Map(
      ['p', 'q'].map((name, i) => [name, { dtype: 'float32', shape: [1], data: Float32Array.of(7 - 2 * i) }]),
    ),
    { bindByPosition: 'true' },
  );
  const former = JSON.stringify({
    uri: 'u',
    serde: 'safetensors',
    data: Buffer.from(inOrder).toString('base64'),
  });
  assert.deepEqual(valueOf(await runMessageBodies(runner, [former])), [2]);
  await assert.rejects(runMessageBodies(runner, [own]), {
    code: 'bad_input',
    message: /missing input "age", "fare"/,
  });
});

test('POST /predictions says in each message how its record binds', async (t) => {
  const { runner } = await endpointOf(t);
  const messageOf = (body: string) => readSubmissions(body).submissions[0]?.message ?? '';
  const instances = '"instances":[{"1":[7],"0":[5]}]';
  await assert.rejects(runMessageBodies(runner, [messageOf(`{${instances}}`)]), { code: 'bad_input' });
  const chosen = messageOf(`{"uri":"u",${instances},"bindByPosition":true}`);
  assert.deepEqual(valueOf(await runMessageBodies(runner, [chosen])), [2]);
  // Of a single input, an older release reads the same as before.
  assert.equal(
    messageOf('{"uri":"u","instances":[{"t":[7]}]}'),
    '{"uri":"u","data":"{\\"instances\\":[{\\"t\\":[7]}]}","serde":"stream"}',
  );
});

test('a record keeps how it binds on its way to the process of a model', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, DIFFERENCE);
  const settings = {
    threads: 1,
    batchSize: 4,
    inputAlreadyBatched: false,
    image: {},
    batching: 'always' as const,
  };
  const onnx = await openPooledOnnx(file, 'v', settings, {
    processes: 1,
    limitMs: 600_000,
    clock: CLOCK,
    onCrash: (reason) => assert.fail(reason),
  });
  t.after(() => onnx.close());
  const read = (message: string) => {
    const { inputs } = decodeMessage(message);
    if (inputs instanceof ServingError) throw inputs;
    return inputs;
  };
  const records = [
    read(arrow(record('p', 'q'))),
    record('p', 'q'),
    ...decodeInstances('{"instances":[{"fare":[1],"age":[9]}]}'),
  ];
  for (const outcomes of [await onnx.run(records), await onnx.runIsolated?.(records, 60_000)]) {
    const found = outcomes?.map((one) => (one.ok ? one.outputs[0]?.data[0] : one.error.code));
    assert.deepEqual(found, [2, 'bad_input', 8]);
  }
  const [kept] = await onnx.run([record('p', 'q', json)]);
  assert.equal(kept?.ok, false);
});

test('the SDK sends a request with bindByPosition as it is', async () => {
  const bodies: string[] = [];
  const queue = new InputQueue({
    frontendUrl: 'http://any',
    fetch: async (_, init) => {
      bodies.push(init.body as string);
      return Response.json({ predictions: ['{value=[1]}'] });
    },
  });
  const request = { instances: [{ p: [7], q: [5] }], bindByPosition: true };
  assert.deepEqual(await queue.predict(request), ['{value=[1]}']);
  assert.deepEqual(bodies, [JSON.stringify(request)]);
});

const REPORTED: readonly (readonly [
  folder: string,
  file: string,
  type: string,
  right: string,
  value: RegExp,
])[] = [
  ['C1-csv-header-other-case', 'request.csv', 'text/csv', 'fare,age\n2,1\n', /"data":\[21\.0\]/],
  ['L1-space-after-comma', 'request.csv', 'text/csv', 'age,fare,sex\n1,2,male\n', /"male"/],
];
for (const [folder, file, type, right, value] of REPORTED) {
  test(`reported: ${folder} is answered as it is meant, or refused`, async (t) => {
    const bytes = await fixture(t, `corpus/reported/users/${folder}/model.onnx`);
    if (!bytes) return;
    const { ask } = await endpointOf(t, bytes);
    const headers = { 'content-type': type };
    const meant = await ask(right, { headers });
    assert.match(String(meant.body['predictions']), value);
    const sent = await ask(await readFile(sharedPath(`corpus/reported/users/${folder}/${file}`), 'utf8'), {
      headers,
    });
    if (sent.status === 200) assert.deepEqual(sent.body, meant.body);
    else assert.match(String(sent.error), /did you mean "fare" for "Fare", "age" for "Age"\?$/);
  });
}

test('reported: C2-json-names-swapped is refused with the names of the model', async (t) => {
  const folder = 'corpus/reported/users/C2-json-names-swapped';
  const bytes = await fixture(t, `${folder}/model.onnx`);
  if (!bytes) return;
  const { ask } = await endpointOf(t, bytes);
  const { status, error } = await ask(await readFile(sharedPath(`${folder}/request.json`), 'utf8'));
  assert.equal(status, 400);
  assert.match(String(error), /did you mean "tok" for "TOK", "c0" for "C0", "h0" for "H0"\?$/);
});
