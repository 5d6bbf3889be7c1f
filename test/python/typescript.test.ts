/** The Python client beside the TypeScript SDK: the same bodies, codes and signatures. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { ERRORS } from '../../lib/contract/errors.ts';
import { readImageFile } from '../../sdk/image-file.ts';
import type { RecordInputs } from '../../sdk/index.ts';
import { toInputs } from '../../sdk/inputs.ts';
import { WITH_PYTHON } from '../support/python.ts';
import type { Received } from '../support/signature-check.ts';
import { KEYS, SIGNED_ENVIRONMENT, startSignedApi } from '../support/signed-api.ts';
import { SAMPLE } from '../support/stack.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import { python } from './python.ts';

const IMAGE = `${SAMPLE}images/digit-3.png`;

/** The same record in TypeScript, and as an expression of Python. */
const RECORDS: readonly (readonly [RecordInputs, string])[] = [
  [{ x: IMAGE }, `{"x": ${JSON.stringify(IMAGE)}}`],
  [{ x: { path: IMAGE } }, `{"x": {"path": ${JSON.stringify(IMAGE)}}}`],
  [{ x: { bytes: Uint8Array.of(1, 255) } }, '{"x": b"\\x01\\xff"}'],
  [{ x: { b64: 'Af-_\n_w' } }, '{"x": {"b64": "Af+/\\n/w=="}}'],
  [{ x: ['a', 'b "é"\u2028\u0001😀'] }, '{"x": ["a", "b \\"é\\"\\u2028\\x01😀"]}'],
  [{ x: [['a'], ['b']] }, '{"x": np.array([["a"], ["b"]])}'],
  [{ x: 3 }, '{"x": 3}'],
  [{ x: [0.5, -0, Number.NaN] }, '{"x": [0.5, -0.0, float("nan")]}'],
  [{ x: [0.1, 1e300] }, '{"x": (0.1, 1e300)}'],
  [{ x: [[true], [false]] }, '{"x": [[True], [False]]}'],
  [{ x: null }, '{"x": None}'],
  [{ x: Float64Array.of(1, 2) }, '{"x": np.array([1.0, 2.0])}'],
  [
    { x: { data: Int32Array.of(1, 2, 3, 4), shape: [2, 2] } },
    '{"x": np.array([[1, 3], [2, 4]], np.int32).T}',
  ],
  [{ x: { data: Uint8Array.of(1, 0), shape: [2] } }, '{"x": np.array([1, 0], np.uint8)}'],
  [{ x: { data: BigInt64Array.of(-1n), shape: [] } }, '{"x": np.int64(-1)}'],
  [{ x: { data: Uint16Array.of(0x3c00), shape: [1], dtype: 'float16' } }, '{"x": np.array([1], ">f2")}'],
  [{ x: { data: new Float32Array(), shape: [0] } }, '{"x": np.zeros(0, np.float32)}'],
  [
    {
      'b é': { data: Int8Array.of(1), shape: [1] },
      a: Float64Array.of(2),
      t: ['x'],
      i: { bytes: Uint8Array.of(7) },
    },
    '{"b é": np.array([1], np.int8), "a": np.array([2.0]), "t": ["x"], "i": b"\\x07"}',
  ],
  [
    {
      s: {
        indices: [
          [0, 1, 4],
          [0, 2, 5],
        ],
        values: [1, 2, 3],
        shape: [5, 10],
      },
      n: 1,
    },
    '{"s": {"indices": [[0, 1, 4], [0, 2, 5]], "values": [1, 2, 3], "shape": [5, 10]}, "n": 1}',
  ],
  [
    { s: { indices: [[0, 1]], values: Float64Array.of(0.1), shape: [5, 10] } },
    '{"s": {"indices": np.array([[0, 1]]), "values": np.array([0.1]), "shape": (5, 10)}}',
  ],
];

test('both clients send the same bytes for the same inputs', WITH_PYTHON, async () => {
  const shown = await python(
    '',
    `
from cluster_serving._inputs import record_of
for inputs in (${RECORDS.map(([, text]) => text).join(',\n')}):
    show(record_of("a/b é", inputs).decode())
`,
  );
  for (const [i, [inputs, text]] of RECORDS.entries()) {
    assert.equal(shown[i], encodeMessage('a/b é', await toInputs(inputs, readImageFile)), text);
  }
});

test('both clients know the same codes', WITH_PYTHON, async () => {
  const [codes] = await python('', 'from cluster_serving._errors import CODES\nshow(CODES)');
  assert.deepEqual(
    codes,
    Object.fromEntries(
      Object.entries(ERRORS).map(([code, { status, retryable }]) => [code, [status, retryable]]),
    ),
  );
});

function serve({ url }: Received): Response {
  const uri = new URL(url, 'http://any').searchParams.get('uri') ?? '';
  if (url.startsWith('/base%20path/status')) return Response.json({ uri, status: 'queued' });
  return Response.json({ uri, status: 'succeeded', model: 'v', outputs: [], predictions: ['{value=[1]}'] });
}

test('an API that verifies signatures takes every call with any uri', WITH_PYTHON, async (t) => {
  const { url, seen, refused } = await startSignedApi(t, { behind: serve });
  const shown = await python(
    `${url}/base path/`,
    `
client = Client(URL, auth="iam", timeout=600)
client.predict({"x": 1})
for uri in ["a", "a/b?c=d&e", "{x} y+z", "!'()*", "日本 🙂", "%41", "..", "a//b"]:
    client.enqueue(uri, {"x": [1]})
    show([client.query(uri).uri, client.query_and_delete(uri).uri, client.status(uri), client.cancel(uri)])
`,
    SIGNED_ENVIRONMENT,
  );
  assert.deepEqual(refused, []);
  assert.equal(seen.length, 2 + 8 * 5);
  assert.deepEqual(shown[1], ['a/b?c=d&e', 'a/b?c=d&e', 'queued', true]);
});

test(
  'a clock that is wrong is corrected once, and credentials that may not call are an error',
  WITH_PYTHON,
  async (t) => {
    const ahead = await startSignedApi(t, {
      behind: () => Response.json({ status: 'queued' }),
      aheadMs: 3_600_000,
    });
    const script =
      'client = Client(URL, auth="iam", timeout=600)\nfor _ in range(3): show(error_of(lambda: client.status("a")))';
    assert.deepEqual(await python(ahead.url, script, SIGNED_ENVIRONMENT), [
      "'queued'",
      "'queued'",
      "'queued'",
    ]);
    // A client that kept the wrong clock would be refused three times. The answer to the first may be lost, and asked again.
    assert.ok(ahead.refused.length < 3 && ahead.refused[0]?.startsWith('the time'), String(ahead.refused));
    assert.equal(ahead.seen.length, ahead.refused.length + 3);
    const other = await startSignedApi(t, { behind: serve, keys: { ...KEYS, accessKeyId: 'OTHER' } });
    const [refusal] = await python(other.url, script, SIGNED_ENVIRONMENT);
    assert.match(String(refusal), /^unauthorized,,Forbidden .*execute-api:Invoke.*token/);
  },
);

test('connect finds a deployment by its stack, and says why it does not', WITH_PYTHON, async (t) => {
  const { url, refused } = await startSignedApi(t, { behind: () => Response.json({ status: 'queued' }) });
  const outputs = {
    HttpApiUrl: `${url}/`,
    QueueUrl: 'http://q/1/q',
    BucketName: 'b',
    JobName: 'job',
    Auth: 'iam',
  };
  const endpoint = await startStandIn(t, {
    mine: { outputs },
    old: { outputs: { QueueUrl: 'q' } },
    making: { status: 'CREATE_IN_PROGRESS', outputs: {} },
    going: { status: 'DELETE_IN_PROGRESS', outputs },
    secret: { code: 'AccessDenied', message: 'no' },
    silent: 'silent',
  });
  const shown = await python(
    endpoint.url,
    `
show(connect("mine", endpoint=URL, timeout=600).status("u"))
for stack in ("old", "making", "going", "secret", "none", "no name"):
    show(error_of(lambda: connect(stack, endpoint=URL, timeout=600))[0])
show(error_of(lambda: connect("silent", endpoint=URL, timeout=0.2))[0])
show(error_of(lambda: connect())[0])
`,
    SIGNED_ENVIRONMENT,
  );
  const codes = [
    'bad_config',
    'queue_unavailable',
    'not_found',
    'unauthorized',
    'not_found',
    'bad_config',
    'timeout',
    'bad_config',
  ];
  assert.deepEqual(shown, ['queued', ...codes]);
  assert.deepEqual(refused, []);
});
