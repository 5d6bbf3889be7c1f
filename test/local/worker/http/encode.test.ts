/** The routes POST /encode…, to a worker in Python that says what it got. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { EncodedImage, Tuple } from '../../../../lib/contract/worker-values.ts';
import { type Picture, picturesOf } from '../../../support/pictures.ts';
import { pngFile, pngHeader, writePng } from '../../../support/png.ts';
import { WITH_PILLOW, WITH_PYTHON } from '../../../support/python.ts';
import { rawRequest } from '../../../support/raw-request.ts';
import {
  CONTROL_TOKEN,
  encodeJson,
  encodeText,
  envelopeOf,
  itemFrame,
  readFrame,
  type Service,
  sendFrame,
  startService,
} from './service.ts';

const ECHO = `from wkr_serving.server import WKRHardWorker
import numpy

class Worker(WKRHardWorker):
    batches = 0

    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None

    def predict(self, model, input):
        Worker.batches += 1
        self.record_statistic({"items <b>": len(input)})
        if any(item == "short" for item in input if isinstance(item, str)):
            return []
        return [self.answer(item) for item in input]

    def answer(self, item):
        if type(item).__module__.startswith("PIL"):
            return {"mode": item.mode, "size": list(item.size), "pixel": list(item.convert("RGB").getpixel((0, 0)))}
        if isinstance(item, str) and item == "poison":
            raise ValueError("poison <b>")
        if isinstance(item, str) and item == "big":
            return numpy.zeros(9_000_000)
        if isinstance(item, str) and item == "dict":
            return {"output": numpy.arange(2)}
        return item
`;

interface Status {
  readonly protocol: string;
  readonly wkr_protocol: number;
  readonly num_worker: number;
  readonly statistic_postsink: {
    readonly others: Readonly<Record<string, object>>;
    readonly total_processed_job: number;
    readonly num_exception: number;
  };
}

let service: Service;

before(async () => {
  service = await startService({ source: ECHO, batchSize: 10, batchTimeoutMs: 20 });
});
after(() => service?.close());

const post = (path: string, body: string | FormData, headers: Record<string, string> = {}) =>
  fetch(service.url + path, { method: 'POST', body, headers });

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const JSON_TYPE = { 'content-type': 'application/json' };

function multipart(name: string, bytes: Uint8Array): FormData {
  const form = new FormData();
  form.append(name, new Blob([new Uint8Array(bytes)]), 'image.png');
  return form;
}

const RED = writePng({ width: 2, height: 3, depth: 8, colourType: 2, sample: () => [200, 0, 0] });
const GREY = writePng({ width: 4, height: 2, depth: 8, colourType: 0, sample: (x) => [x] });

describe('a worker over HTTP', WITH_PYTHON, () => {
  for (const item of [
    { x: [1, 2.5] },
    { a: null, b: { c: [true, 'ä'] } },
    [],
    0,
    null,
    'text',
    { $t: 'bytes', b: 0 },
    { dtype: 'string', shape: [1], data: ['a'] },
    JSON.parse('{"__proto__": {"a": 1}}'),
  ]) {
    test(`POST /encode_json passes on ${JSON.stringify(item)} as it is`, async () => {
      assert.deepEqual(await encodeJson(service, item), {
        error_code: 0,
        error_message: 'Success.',
        data: item,
      });
    });
  }

  test('an undecodable body is 400, and its neighbors succeed', async () => {
    const answers = await Promise.all(['1', '{"a":', '', '2'].map((body) => encodeText(service, body)));
    assert.deepEqual(
      answers.map(({ error_code, code, data }) => [error_code, code, data]),
      [
        [0, undefined, 1],
        [400, 'bad_request', null],
        [400, 'bad_request', null],
        [0, undefined, 2],
      ],
    );
  });

  test('JSON that is nested deeper than values may be is 413, and not an error of the worker', async () => {
    for (const depth of [65, 100_000]) {
      const { error_code, code } = await encodeText(service, '['.repeat(depth) + ']'.repeat(depth));
      assert.deepEqual([error_code, code], [413, 'too_large']);
    }
    assert.equal((await encodeText(service, '['.repeat(60) + ']'.repeat(60))).error_code, 0);
  });

  test('one poison item of ten fails alone, with what its worker raised', async () => {
    const items = Array.from({ length: 10 }, (_, i) => (i === 4 ? 'poison' : `good ${i}`));
    const answers = await Promise.all(items.map((item) => encodeJson(service, item)));
    assert.deepEqual(answers[4], {
      error_code: 422,
      error_message: 'ValueError: poison <b>',
      data: null,
      code: 'model_failed',
    });
    answers.splice(4, 1);
    assert.ok(answers.every(({ error_code, data }) => error_code === 0 && String(data).startsWith('good')));
  });

  test('a short result fails its batch, and not the next', async () => {
    const { error_code, error_message } = await encodeJson(service, 'short');
    assert.equal(error_code, 422);
    assert.match(error_message, /1.*0|0.*1/);
    assert.equal((await encodeJson(service, 'next')).data, 'next');
  });

  test('an answer that no HTTP answer can hold is 413', async () => {
    const { error_code, code } = await encodeJson(service, 'big');
    assert.deepEqual([error_code, code], [413, 'too_large']);
    const frame = await sendFrame(service, itemFrame('big'));
    assert.equal(frame.status, 413);
    assert.equal((await envelopeOf(frame)).code, 'too_large');
  });

  test('POST /encode takes the text of img_url from a form or JSON', async () => {
    for (const [body, headers] of [
      ['img_url=https%3A%2F%2Fa.example%2F%C3%A4+b', FORM],
      ['{"img_url":"https://a.example/ä b"}', JSON_TYPE],
    ] as const) {
      const response = await post('/encode', body, headers);
      assert.equal((await envelopeOf(response)).data, 'https://a.example/ä b');
    }
    const form = new FormData();
    form.append('img_url', 'text');
    assert.equal((await envelopeOf(await post('/encode', form))).data, 'text');
  });

  test('POST /encode refuses other types and forms without img_url', async () => {
    for (const [body, headers, status] of [
      ['a', { 'content-type': 'text/plain' }, 415],
      ['a', {}, 415],
      ['a=b', FORM, 400],
      ['[]', JSON_TYPE, 400],
      ['{"img_url":1}', JSON_TYPE, 400],
      ['{"img_url":"a","proxy":"b"}', JSON_TYPE, 400],
      ['img_url=a&img_url=b', FORM, 400],
      [`a=${'b'.repeat(70_000)}`, FORM, 413],
    ] as const) {
      const response = await post('/encode', body, headers);
      const { error_code, data } = await envelopeOf(response);
      assert.deepEqual([response.status, error_code, data], [status, status, null], body.slice(0, 40));
    }
  });

  test('POST /encode_img_url refuses every host that is not allowed, and a proxy', async () => {
    for (const url of ['https://169.254.169.254/', 'https://example.com/a.png', 'http://example.com/a.png']) {
      const response = await post('/encode_img_url', JSON.stringify({ img_url: url }), JSON_TYPE);
      assert.deepEqual([response.status, (await envelopeOf(response)).code], [403, 'forbidden'], url);
    }
    const proxied = await post('/encode_img_url', '{"img_url":"https://a/","proxy":"b"}', JSON_TYPE);
    assert.equal(proxied.status, 400);
  });

  test('images that no worker can open are refused before it gets them', async () => {
    const tooMany = pngFile(pngHeader(100_000, 100_000, 8, 2, 0));
    for (const path of ['/encode_img_bytes', '/v1/encode_img_bytes']) {
      for (const [body, status] of [
        [multipart('other', RED), 400],
        [multipart('img_bytes', Buffer.from('no image')), 400],
        [multipart('img_bytes', Buffer.from('GIF89a....')), 400],
        [multipart('img_bytes', Buffer.from('%PDF-1.7')), 415],
        [multipart('img_bytes', tooMany), 413],
        ['{}', 415],
      ] as const) {
        const response = await post(path, body);
        assert.equal((await envelopeOf(response)).error_code, status);
      }
    }
  });

  test('POST /v1/encode_img_bytes takes 5 MiB', async () => {
    const large = Buffer.concat([RED, Buffer.alloc(5 * 1024 * 1024)]);
    assert.equal((await post('/v1/encode_img_bytes', multipart('img_bytes', large))).status, 413);
  });

  test('values arrive in frames as they left', async () => {
    const values = [
      { dtype: 'float64', shape: [2, 2], data: Float64Array.of(0.1, Number.NaN, -0, 1 / 3) },
      { dtype: 'int64', shape: [1], data: BigInt64Array.of(2n ** 62n) },
      Uint8Array.of(0, 255),
      new Date('2026-01-02T03:04:05.678Z'),
      new Set(['a', 1]),
      Tuple.from([1, 'b']),
      2n ** 80n,
      Number.NEGATIVE_INFINITY,
      { a: { dtype: 'uint8', shape: [1], data: Uint8Array.of(3) } },
      { a: [], $t: 'int' },
      'x'.repeat(2_000_000),
    ];
    for (const value of values) {
      const { outcomes } = await readFrame(await sendFrame(service, itemFrame(value, { id: 'a.1-_' })));
      assert.deepEqual(outcomes, [{ id: 'a.1-_', value }]);
    }
  });

  test('an array answers as an array, and a dict of one array as a dict', async () => {
    const array = { dtype: 'int64', shape: [2], data: BigInt64Array.of(0n, 1n) };
    const { outcomes } = await readFrame(await sendFrame(service, itemFrame('dict')));
    assert.deepEqual(outcomes, [{ id: '1', value: { output: array } }]);
    assert.deepEqual((await encodeJson(service, 'dict')).data, { output: [0, 1] });
    const alone = await readFrame(await sendFrame(service, itemFrame(array)));
    assert.deepEqual(alone.outcomes, [{ id: '1', value: array }]);
  });

  test('a frame over 6 MiB passes in both directions, and one over 32 MiB is 413', async () => {
    const value = Buffer.alloc(10 * 1024 * 1024, 1);
    const { outcomes } = await readFrame(await sendFrame(service, itemFrame(value)));
    assert.ok(value.equals(outcomes[0]?.value as Uint8Array));
    const response = await sendFrame(service, itemFrame(Buffer.alloc(32 * 1024 * 1024)));
    assert.deepEqual([response.status, (await envelopeOf(response)).code], [413, 'too_large']);
  });

  test('an item that fails in a frame is an answer with its error', async () => {
    const response = await sendFrame(service, itemFrame('poison', { id: '7' }));
    const error = { code: 'model_failed', message: 'ValueError: poison <b>' };
    assert.deepEqual((await readFrame(response)).outcomes, [{ id: '7', error }]);
  });

  test('a frame that breaks the protocol is 400', async () => {
    const good = itemFrame(Uint8Array.of(1, 2, 3));
    const header = (text: string) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(text.length);
      return Buffer.concat([length, Buffer.from(text)]);
    };
    for (const frame of [
      Buffer.alloc(0),
      good.subarray(0, -1),
      Buffer.concat([good, good]),
      header('{"type":"encode","identity":"a","id":"b","value":1,"blocks":[200000000]}'),
      header('{"type":"run","identity":"a","id":"b","value":1}'),
      header('{"type":"encode","identity":"a","id":"b"}'),
      header('{"type":"encode","identity":"a","id":"b","value":1,"more":1}'),
      header('{"type":"encode","identity":"a/b","id":"b","value":1}'),
      header(`{"type":"encode","identity":"a","id":"${'b'.repeat(65)}","value":1}`),
      header('{"type":"encode","identity":"a","id":"b","value":{"$t":"no"}}'),
      itemFrame(new EncodedImage(Buffer.from('no image'))),
    ]) {
      const response = await sendFrame(service, frame);
      assert.equal(response.status, 400, frame.toString('latin1', 0, 60));
      assert.equal((await envelopeOf(response)).error_code, 400);
    }
  });

  test('a frame whose JSON is a million brackets deep is 400, and the service lives', async () => {
    const deep = Buffer.from('['.repeat(3_000_000));
    const text = `{"type":"encode","identity":"a","id":"b","value":{"$t":"json","b":0},"blocks":[${deep.length}]}`;
    const length = Buffer.alloc(4);
    length.writeUInt32BE(text.length);
    const response = await sendFrame(service, Buffer.concat([length, Buffer.from(text), deep]));
    assert.equal(response.status, 400);
    assert.equal((await encodeJson(service, 1)).data, 1);
  });

  test('results of items whose client does not wait come in order of completion, to each cursor', async () => {
    const identity = 'later-1';
    const sent = ['a', 'poison', 'c'];
    for (const [i, value] of sent.entries()) {
      const response = await sendFrame(service, itemFrame(value, { id: `${i}`, identity }), {
        prefer: 'respond-async',
      });
      assert.equal(response.status, 202);
      assert.deepEqual(await response.json(), { error_code: 0, error_message: '', data: { id: `${i}` } });
      await service.parts.idle(10_000);
    }
    const ask = (cursor: unknown) =>
      fetch(`${service.url}/results/${identity}?after=${String(cursor)}&wait=0`).then(readFrame);
    const all = await ask(0);
    assert.deepEqual(all.outcomes, [
      { id: '0', value: 'a' },
      { id: '1', error: { code: 'model_failed', message: 'ValueError: poison <b>' } },
      { id: '2', value: 'c' },
    ]);
    assert.deepEqual((await ask(0)).outcomes, all.outcomes);
    const last = all.header['cursor'];
    assert.deepEqual((await ask(last)).outcomes, []);
    assert.equal((await ask(last)).header['cursor'], last);
    assert.deepEqual((await ask(Number(last) - 1)).outcomes, all.outcomes.slice(-1));
  });

  test('who asks before the result is there gets it when it comes', async () => {
    const asked = fetch(`${service.url}/results/later-2?wait=20`).then(readFrame);
    const sent = await sendFrame(service, itemFrame('x', { identity: 'later-2' }), {
      prefer: 'respond-async',
    });
    assert.equal(sent.status, 202);
    assert.deepEqual((await asked).outcomes, [{ id: '1', value: 'x' }]);
  });

  test('GET /results refuses what is no cursor, no wait and no identity', async () => {
    for (const path of [
      '/results/a?after=-1',
      '/results/a?after=1.5',
      '/results/a?wait=x',
      '/results/a%20b',
    ]) {
      const response = await fetch(service.url + path);
      assert.deepEqual([response.status, (await envelopeOf(response)).code], [400, 'bad_request'], path);
    }
  });

  test('POST /control needs its token', async () => {
    const ask = (path: string, authorization?: string) =>
      post(path, '', authorization === undefined ? {} : { authorization });
    assert.equal((await ask('/control/terminate')).status, 401);
    assert.equal((await ask('/control/terminate', 'Bearer no')).status, 401);
    assert.equal((await ask('/control/other')).status, 401);
    assert.equal((await ask('/control/other', `Bearer ${CONTROL_TOKEN}`)).status, 404);
    assert.equal((await ask('/control/toString', `Bearer ${CONTROL_TOKEN}`)).status, 404);
    const done = await envelopeOf(await ask('/control/terminate', `Bearer ${CONTROL_TOKEN}`));
    assert.deepEqual(done.data, { success: true });
  });

  test('a foreign Origin or Host is 403', async () => {
    const { status } = await post('/encode_json', '1', { origin: 'https://a.example' });
    assert.equal(status, 403);
    const form = await post('/encode', 'img_url=a', { ...FORM, origin: 'null' });
    assert.deepEqual([form.status, (await envelopeOf(form)).error_code], [403, 403]);
    const headers = { ...JSON_TYPE, host: 'a.example' };
    const foreign = { method: 'POST', path: '/encode_json', body: '1', headers };
    assert.equal((await rawRequest(Number(new URL(service.url).port), foreign)).status, 403);
  });

  test('what the worker records and what requests cost is in /status/server, and escaped in /stat', async () => {
    await encodeJson(service, 'counted');
    const status = (await (await fetch(`${service.url}/status/server`)).json()) as Status;
    assert.deepEqual([status.protocol, status.wkr_protocol, status.num_worker], ['obj', 1, 1]);
    const { others, total_processed_job, num_exception } = status.statistic_postsink;
    assert.deepEqual(Object.keys(others).toSorted(), [
      'items <b>',
      'latency',
      'sys_batchsize',
      'sys_input_byte',
      'sys_predict',
    ]);
    for (const summary of Object.values(others)) {
      assert.deepEqual(Object.keys(summary).toSorted(), ['avg', 'max', 'med', 'min', 'std']);
    }
    assert.ok(total_processed_job > 0 && num_exception > 0);
    const page = await (await fetch(`${service.url}/stat`)).text();
    assert.match(page, /<h1>job&lt;1&gt;<\/h1>/);
    assert.doesNotMatch(page, /<script|https?:|src=/);
    assert.equal((await fetch(`${service.url}/status/client`)).status, 200);
  });
});

describe('a worker that gets Pillow images', WITH_PILLOW, () => {
  test('POST /encode_img_bytes keeps the mode of an image, and /v1 makes it RGB', async () => {
    for (const [path, mode] of [
      ['/encode_img_bytes', 'L'],
      ['/v1/encode_img_bytes', 'RGB'],
    ] as const) {
      const { data } = await envelopeOf(await post(path, multipart('img_bytes', GREY)));
      assert.deepEqual(
        [(data as { mode: string; size: number[] }).mode, (data as { size: number[] }).size],
        [mode, [4, 2]],
      );
    }
  });

  test('POST /v1/encode_img_bytes passes on a WebP, and makes a JPEG in CMYK RGB', async () => {
    for (const name of ['webp-lossy', 'cmyk']) {
      const { bytes, width, height } = picturesOf(name)[28] as Picture;
      const { data } = await envelopeOf(await post('/v1/encode_img_bytes', multipart('img_bytes', bytes)));
      const { mode, size } = data as { mode: string; size: number[] };
      assert.deepEqual([mode, size], ['RGB', [width, height]]);
    }
  });
});
