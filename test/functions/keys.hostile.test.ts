/** Keys beside the instances of a body: refused if they ask for something, and warned about if they ask for nothing. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { encodePng } from '../../lib/http/worker/png.ts';
import { fixture, sharedPath } from '../support/fixtures.ts';
import { identityModel } from '../support/onnx.ts';
import { openModelBytes } from '../support/runner.ts';
import { predictEndpoint, predictionsEndpoint } from './hostile/endpoints.ts';

const X = { name: 'x', dtype: 'float32' as const, shape: ['N', 2] };
const bodyWith = (key: string, value: unknown = 1) =>
  JSON.stringify({ instances: [{ x: [1, 2] }], [key]: value });

async function predictOf(t: TestContext) {
  return predictEndpoint(await openModelBytes(t, identityModel([X])));
}

const REFUSED: readonly (readonly [key: string, message: RegExp])[] = [
  [
    'webhook',
    /^unknown key "webhook" beside "instances": no address of a request is called back: POST \/predictions takes "notify", the name of a target/,
  ],
  ['callback_url', /no address of a request is called back/],
  ['delay', /POST \/predictions takes delaySeconds and priority, POST \/predict answers at once/],
  ['priority', /POST \/predictions takes delaySeconds and priority|expected "high" or "normal", got 1$/],
  ['ttl', /resultTtlSeconds/],
  ['expiresIn', /resultTtlSeconds/],
  ['model', /the address of a request says which model answers/],
  ['modelVersion', /the address of a request says which model answers/],
  ['Idempotency-Key', /the header Idempotency-Key/],
  ['async', /POST \/predictions answers at once/],
  ['bind_by_position', /did you mean "bindByPosition"\?$/],
  ['bindByPostion', /did you mean "bindByPosition"\?$/],
  ['Instances', /did you mean "instances"\?$/],
  ['instance', /did you mean "instances"\?$/],
  ['__proto__', /^unknown key "__proto__" beside "instances": expected "instances", "bindByPosition"/],
  ['colour', /^unknown key "colour" beside "instances": expected "instances", "bindByPosition"/],
];

test('a key that asks for something is refused by both endpoints, with what the service has instead', async (t) => {
  const predict = await predictOf(t);
  const { endpoint, sent } = predictionsEndpoint();
  for (const [key, message] of REFUSED) {
    const body = `{"instances":[{"x":[1,2]}],${JSON.stringify(key)}:1}`;
    for (const ask of [predict, endpoint]) {
      const { status, code, error } = await ask(body);
      assert.deepEqual([status, code], [400, 'bad_request'], key);
      assert.match(String(error), message);
    }
  }
  assert.match(String((await endpoint(bodyWith('Uri', 'a'))).error), /did you mean "uri"\?$/);
  assert.match(
    String((await endpoint('{"uri":"a","data":"AA==","delay":1}')).error),
    /beside "data": POST \/predictions takes delaySeconds/,
  );
  assert.deepEqual(sent, []);
});

test('keys of other servers are ignored, and the header `warning` names them', async (t) => {
  const predict = await predictOf(t);
  const { endpoint, sent } = predictionsEndpoint();
  const body = '{"id":"7","signature_name":"serving_default","instances":[{"x":[1,2]}],"parameters":{}}';
  const warning = '299 - "ignored keys of the body: id, signature_name, parameters"';
  const answer = await predict(body);
  assert.deepEqual([answer.status, answer.headers['warning']], [200, warning]);
  const accepted = await endpoint(body);
  assert.deepEqual([accepted.status, accepted.headers['warning']], [202, warning]);
  const golden = '{"predictions":["{value=1}"],"tolerance":0.1,"instances":[{"x":[1,2]}]}';
  assert.equal((await predict(golden)).status, 200, 'a golden request is one as it is');
  assert.equal((await predict('{"instances":[{"x":[1,2]}]}')).headers['warning'], undefined);
  const line = '{"id":1,"instances":[{"x":[1,2]}]}\n{"instances":[{"x":[1,2]}],"ttl":5}\n';
  const lines = await endpoint(line, { headers: { 'content-type': 'application/x-ndjson' } });
  assert.deepEqual([lines.status, lines.headers['warning']], [207, '299 - "ignored keys of the body: id"']);
  const [, second] = lines.body['records'] as { status: number; error: string }[];
  assert.equal(second?.status, 400);
  assert.match(second?.error ?? '', /resultTtlSeconds/);
  assert.equal(sent.length, 2);
});

test('a uri for POST /predict is refused, unless the request would rather wait in the queue', async (t) => {
  const predict = await predictOf(t);
  for (const key of ['uri', 'uris'])
    assert.match(String((await predict(bodyWith(key, 'a'))).error), /POST \/predict stores no result/);
  const async = await predict(bodyWith('uri', 'a'), { headers: { prefer: 'respond-async' } });
  assert.equal(async.status, 200);
});

test('a query that says what belongs elsewhere is refused', async (t) => {
  const predict = await predictOf(t);
  const { endpoint, sent } = predictionsEndpoint();
  const body = '{"instances":[{"x":[1,2]}]}';
  const refused: readonly (readonly [query: Record<string, string>, method: string, message: RegExp])[] = [
    [{ uri: 'a' }, 'POST', /^the query has "uri": it belongs in the body/],
    [{ Uris: 'a' }, 'POST', /it belongs in the body/],
    [{ webhook: 'http://x' }, 'POST', /no address of a request is called back/],
    [{ uris: 'a,b' }, 'DELETE', /^the query has "uris"; did you mean "uri"\?/],
    [{ URI: 'a' }, 'DELETE', /did you mean "uri"\?/],
    [{ older: '1h' }, 'DELETE', /the results of a page cannot be chosen/],
    [{ uri: 'a', identiy: 'b' }, 'GET', /did you mean "identity"\?/],
    [{ uri: 'a', wait: '10' }, 'GET', /the header "Prefer: wait=20" waits/],
  ];
  const { endpoint: stored } = predictionsEndpoint({ results: {}, connection: {}, job: 'j' } as never);
  for (const [query, method, message] of refused) {
    const { status, error } = await (method === 'POST' ? endpoint : stored)(body, { query, method });
    assert.equal(status, 400, JSON.stringify(query));
    assert.match(String(error), message);
  }
  assert.deepEqual(sent, []);
  assert.equal((await predict(body, { query: { uri: 'a' } })).status, 200, 'it has no effect there');
  const others = { 'X-Amz-Expires': '60', _: '1' };
  assert.equal((await endpoint(body, { query: others })).status, 202);
});

test('reported: a webhook, a priority and a ttl are not passed over', async (t) => {
  const path = 'corpus/reported/guides/unknown-keys.json';
  if (!(await fixture(t, path))) return;
  const { status, error } = await predictionsEndpoint().endpoint(await readFile(sharedPath(path), 'utf8'));
  assert.equal(status, 400);
  assert.match(String(error), /^unknown key "webhook"/);
});

test('an image is a body of its own for a model that takes one, with any content type', async (t) => {
  const picture = await encodePng({
    width: 2,
    height: 1,
    data: Uint8Array.of(10, 20, 30, 40, 50, 60),
  });
  const ask = predictEndpoint(
    await openModelBytes(t, identityModel([{ name: 'Image', dtype: 'float32', shape: ['N', 3, 1, 2] }])),
  );
  const b64 = Buffer.from(picture).toString('base64');
  const expected = (await ask(JSON.stringify({ instances: [b64] }))).body;
  assert.deepEqual(expected['outputs'], { Image_out: [[[[30, 60]], [[20, 50]], [[10, 40]]]] });
  for (const type of ['image/png', 'application/octet-stream', 'application/x-www-form-urlencoded']) {
    assert.deepEqual((await ask(picture, { headers: { 'content-type': type } })).body, expected, type);
  }
  const cut = await ask(picture.subarray(0, 20), { headers: { 'content-type': 'image/png' } });
  assert.equal(cut.status, 400);
  const other = await (await predictOf(t))(picture, { headers: { 'content-type': 'image/png' } });
  assert.equal(other.status, 400);
  assert.match(String(other.error), /^input "\(value\)": /);
});

test('a body of another form is refused with the route that takes it', async (t) => {
  const predict = await predictOf(t);
  const { endpoint } = predictionsEndpoint();
  const form = { headers: { 'content-type': 'multipart/mixed; boundary=x' } };
  for (const [ask, envelope, message] of [
    [predict, form, /a form with files is multipart\/form-data/],
    [endpoint, form, /a form with files is multipart\/form-data/],
    [
      predict,
      { headers: { 'content-type': 'application/x-ndjson' } },
      /POST \/predictions takes a record on each line/,
    ],
  ] as const) {
    const { status, code, error } = await ask(Buffer.from('--x\r\n'), envelope);
    assert.deepEqual([status, code], [415, 'unsupported_media_type']);
    assert.match(String(error), message);
  }
});

test("Python's NaN and infinities are numbers of a float input on every endpoint, and none of a whole one", async (t) => {
  const inputs = [
    X,
    { name: 'h', dtype: 'float16' as const, shape: ['N', 2] },
    { name: 'i', dtype: 'int32' as const, shape: ['N', 2] },
  ];
  const predict = predictEndpoint(await openModelBytes(t, identityModel(inputs)));
  const row = (x: string, i: string) => `{"x":${x},"h":${x},"i":${i}}`;
  const v2 = (x: string, i: string) =>
    `{"inputs":[${[
      ['x', 'FP32', x],
      ['h', 'FP16', x],
      ['i', 'INT32', i],
    ]
      .map(
        ([name, datatype, data]) =>
          `{"name":"${name}","datatype":"${datatype}","shape":[1,2],"data":${data}}`,
      )
      .join(',')}]}`;
  const ways = [
    { path: '/predict', body: (x: string, i = '[1,2]') => `{"instances":[${row(x, i)}]}` },
    { path: '/v2/models/serving_stream/infer', body: (x: string, i = '[1,2]') => v2(x, i) },
    { path: '/encode_json', body: (x: string, i = '[1,2]') => row(x, i) },
  ];
  for (const { path, body } of ways) {
    for (const word of ['NaN', 'Infinity', '-Infinity']) {
      const { status, body: answered, error } = await predict(body(`[0.5,${word}]`), { path });
      assert.equal(status, 200, `${path} ${word}: ${String(error)}`);
      // JSON has null for each of them.
      assert.match(JSON.stringify(answered), /0\.5,null/);
      const whole = await predict(body('[1,2]', `[1,${word}]`), { path });
      assert.equal(whole.status, 400);
      assert.match(
        JSON.stringify(whole.body),
        new RegExp(`expected a whole number \\(int32\\), got ${word}`),
        path,
      );
    }
    for (const number of ['1e309', '-1e309', '1e39']) {
      const { status, body: answered } = await predict(body(`[1,${number}]`), { path });
      assert.equal(status, 400, `${path} ${number}`);
      assert.match(JSON.stringify(answered), /out of the range of float/);
    }
    for (const broken of ['[1,NaN', '[1,NaN,]', '[1,-NaNs]', '[1,nan]', '[1,+Infinity]', '[NaN 1]']) {
      const { status, body: answered } = await predict(body(broken), { path });
      assert.equal(status, 400, `${path} ${broken}`);
      assert.match(JSON.stringify(answered), /not JSON/, `${path} ${broken}`);
    }
  }
});

test('a record of the queue keeps NaN and infinities, and what is too large stays too large', async () => {
  const { endpoint, sent } = predictionsEndpoint();
  const body = '{"instances":[{"x":[NaN,-Infinity,Infinity,-0.0,9007199254740993,1e309],"t":"NaN"}]}';
  assert.equal((await endpoint(body)).status, 202);
  const { data } = JSON.parse(sent[0] as string) as { data: string };
  assert.equal(
    data,
    '{"instances":[{"x":[NaN,-Infinity,Infinity,-0.0,9007199254740993,1e999],"t":"NaN"}],"bindByPosition":false}',
  );
});

test('reported: what json.dumps writes for float("nan")', async (t) => {
  const folder = 'corpus/reported/users/G6-nan-of-python';
  const model = await fixture(t, `${folder}/model.onnx`);
  if (!model) return;
  const predict = predictEndpoint(await openModelBytes(t, model));
  const { status, body } = await predict(await readFile(sharedPath(`${folder}/request.json`), 'utf8'));
  // NaN times anything, and plus anything, is NaN.
  assert.deepEqual([status, body], [200, { predictions: ['{value={"data":[null,null,null],"shape":[3]}}'] }]);
});

test('a table in UTF-16 is named, whether its bytes arrive or a text that API Gateway decoded', async (t) => {
  const predict = await predictOf(t);
  const csv = { headers: { 'content-type': 'text/csv' } };
  const bytes = Buffer.from('\ufeffx,y\n1,2\n', 'utf16le');
  for (const body of [bytes, bytes.toString('utf8'), Buffer.from(bytes).swap16().toString('utf8')]) {
    const { status, error } = await predict(body, csv);
    assert.equal(status, 400);
    assert.match(String(error), /is UTF-16; save it as UTF-8 \(in Excel "CSV UTF-8"\)$/);
  }
});
