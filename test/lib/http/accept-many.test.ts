/**
 * POST /predictions with a record on each line, through its handler: the outcome of each, and the messages in the
 * queue.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { decodeMessage } from '../../../lib/codecs/message.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import type { AcceptDeps } from '../../../lib/http/accept.ts';
import type { Sender } from '../../../lib/pipeline/submit.ts';
import fc from '../../support/fast-check.ts';
import { predictionsWith } from '../../support/predictions.ts';
import { sqsThat } from '../../support/refusing-sqs.ts';

type Send = Sender['send'];

interface Entry {
  readonly line: number;
  readonly status: number;
  readonly uri?: string;
  readonly identity?: string;
  readonly location?: string;
  readonly error?: string;
  readonly code?: string;
  readonly retryable?: boolean;
}
interface Answer {
  readonly accepted: number;
  readonly refused: number;
  readonly records: readonly Entry[];
  readonly error?: string;
  readonly code?: string;
}

const NDJSON = { 'content-type': 'application/x-ndjson' };
const CSV = { 'content-type': 'text/csv; charset=utf-8' };

/** Texts come unencoded, bytes as base64: API Gateway does both. */
async function post(
  body: string | Uint8Array,
  {
    send,
    headers = NDJSON,
    ...parts
  }: { send: Send; headers?: Record<string, string> } & Partial<AcceptDeps>,
) {
  const handler = predictionsWith({
    queue: () => ({ send }),
    payloads: () => Promise.reject(new ServingError('too_large', 'no bucket')),
    ...parts,
  });
  const isBase64Encoded = typeof body !== 'string';
  const answer = await handler({
    rawPath: '/predictions',
    headers,
    requestContext: { http: { method: 'POST' } },
    body: isBase64Encoded ? Buffer.from(body).toString('base64') : body,
    isBase64Encoded,
  } as unknown as APIGatewayProxyEventV2);
  return { status: answer.statusCode, body: JSON.parse(answer.body ?? '') as Answer };
}

/** A queue that takes everything. */
function queue() {
  const sent: {
    uri: string;
    body: string;
    identity: string;
    trace: string | undefined;
    canaryKey: string | undefined;
  }[] = [];
  const send: Send = async (body, { identity, traceparent, 'canary-key': key }) => {
    const { uri } = JSON.parse(body) as { uri: string };
    const texts = { trace: traceparent?.StringValue, canaryKey: key?.StringValue };
    sent.push({ uri, body, identity: identity?.StringValue ?? '', ...texts });
  };
  return { sent, send, uris: () => sent.map(({ uri }) => uri) };
}

/** Lines of the log, which are kept out of the test's own output on the same stream. */
function logged(t: TestContext): string[] {
  const lines: string[] = [];
  const { stdout } = process;
  const write = stdout.write.bind(stdout) as (...given: unknown[]) => boolean;
  t.mock.method(stdout, 'write', (text: unknown, ...rest: unknown[]) =>
    String(text).startsWith('{"level"') ? lines.push(String(text)) > 0 : write(text, ...rest),
  );
  return lines;
}

const line = (uri: string, value: unknown = 1) => JSON.stringify({ uri, instances: [{ x: value }] });

test('each line is a record, with or without a uri, and blank lines, CRLF, a byte order mark and a last line feed are none', async () => {
  const { sent, send, uris } = queue();
  const wire = JSON.stringify({ uri: 'c/d', data: '{"instances":[{"x":3}]}', serde: 'stream' });
  const text = `\ufeff${line('a')}\r\n\n  \t\r\n{"instances":[{"x":2}]}\n${wire}`;
  const { status, body } = await post(text, { send });
  assert.deepEqual([status, body.accepted, body.refused], [202, 3, 0]);
  assert.deepEqual(
    body.records.map((entry) => [entry.line, entry.status]),
    [
      [1, 202],
      [4, 202],
      [5, 202],
    ],
  );
  assert.deepEqual(uris(), [body.records[0]?.uri, body.records[1]?.uri, 'c/d']);
  assert.deepEqual(
    sent.map(({ identity }) => identity),
    body.records.map(({ identity }) => identity),
  );
  assert.match(uris()[1] ?? '', /^[\da-f-]{36}$/);
  assert.equal(body.records[2]?.location, '/predictions?uri=c%2Fd');
  for (const same of [Buffer.from(`${text}\n`), gzipSync(text)]) {
    const headers = { ...NDJSON, ...(same[0] === 0x1f ? { 'content-encoding': 'gzip' } : {}) };
    assert.equal((await post(same, { send, headers })).body.accepted, 3);
  }
});

test('a bad line is refused by itself, with the reason, and the others are accepted', async () => {
  const { send, uris } = queue();
  const deep = `{"instances":[{"x":${'['.repeat(20_000)}1${']'.repeat(20_000)}}]}`;
  const lines = [
    line('a'),
    '{',
    '[]',
    Buffer.from([0x22, 0xff, 0x22]),
    JSON.stringify({ uris: ['b', 'c'], instances: [{ x: 1 }, { x: 2 }] }),
    line('d\u0001'),
    JSON.stringify({ uri: 'e', data: '*' }),
    deep,
    line('f', 'x'.repeat(LIMITS.messageBytes)),
    line('g'),
  ];
  const bytes = Buffer.concat(lines.flatMap((one) => [Buffer.from(one), Buffer.from('\n')]));
  const { status, body } = await post(bytes, { send });
  assert.deepEqual([status, body.accepted, body.refused], [207, 2, 8]);
  assert.deepEqual(uris(), ['a', 'g']);
  const reasons = [
    /^the line is not JSON: /,
    /^no "instances" array/,
    /^the line is not valid UTF-8$/,
    /^a line holds one record, got 2 instances$/,
    /^uri: control characters/,
    /base64/,
    /nested deeper/,
    /no bucket/,
  ];
  for (const [i, reason] of reasons.entries()) {
    const { error, code, status: own, retryable, line: at } = body.records[i + 1] as Entry;
    assert.match(error ?? '', reason);
    assert.deepEqual([at, retryable], [i + 2, false]);
    assert.deepEqual([code, own], i < 6 ? ['bad_request', 400] : ['too_large', 413]);
  }
  assert.equal(body.records[8]?.uri, 'f');
});

test('a body without a record, over the limit of records, of bytes, or with a key that is none, is refused whole', async () => {
  const send: Send = () => assert.fail('nothing is sent');
  const most = LIMITS.recordsPerBody;
  const wide = Array.from({ length: LIMITS.inputsPerRecord + 1 }, (_, i) => `c${i}`);
  const lines = (count: number) => `${line('a')}\n`.repeat(count);
  for (const [body, code, message, headers] of [
    ['', 'bad_request', /^the body is empty; expected a record on each line/, NDJSON],
    ['\ufeff \r\n\n', 'bad_request', /^the body is empty/, NDJSON],
    [
      lines(most + 1),
      'too_large',
      /^the records of the body are over the limit of 1000 \(recordsPerBody\)$/,
      NDJSON,
    ],
    [`x\n${'1\n'.repeat(most + 1)}`, 'too_large', /\(recordsPerBody\)$/, CSV],
    ['\n'.repeat(LIMITS.httpBodyBytes + 1), 'too_large', /httpBodyBytes/, NDJSON],
    [lines(2), 'bad_request', /^identity: /, { ...NDJSON, 'idempotency-key': 'a b' }],
    // With the place of the eleventh record it would be too long.
    [lines(11), 'bad_request', /^identity: /, { ...NDJSON, 'idempotency-key': 'k'.repeat(62) }],
    ['uri\na\n', 'bad_request', /^line 1: there is no column but that of the uris$/, CSV],
    [
      `uri,${wide.join()}\na,${wide.join()}`,
      'too_large',
      /^line 1: 257 columns are .*\(inputsPerRecord\)$/,
      CSV,
    ],
    ['uri,x\na\n', 'bad_request', /^line 2: 1 cells, expected 2/, CSV],
    [
      Uint8Array.of(0x78, 0x0a, 0xff),
      'bad_request',
      /^the CSV cannot be read: line 2 is not valid UTF-8; /,
      CSV,
    ],
  ] as const) {
    const answer = await post(body, { send, headers });
    assert.equal(answer.body.code, code, String(message));
    assert.match(answer.body.error ?? '', message);
  }
  const { body } = await post(lines(most), { send: async () => undefined });
  assert.equal(body.accepted, most);
});

test('of lines with one uri the last is sent when the queue has the others, and each has an identity', async () => {
  const taken: string[] = [];
  let underWay = 0;
  const send: Send = async (body) => {
    const { x } = JSON.parse((JSON.parse(body) as { data: string }).data).instances[0];
    if (x === 'last') assert.equal(underWay, 0);
    else underWay++;
    await new Promise((resolve) => setImmediate(resolve));
    if (x !== 'last') underWay--;
    taken.push(x);
  };
  const text = [line('a', 1), line('a', 2), line('a', 3), line('a', 'last')].join('\n');
  const { body } = await post(text, { send, headers: { ...NDJSON, 'idempotency-key': 'k' } });
  assert.deepEqual(taken, [1, 2, 3, 'last']);
  assert.deepEqual(
    body.records.map(({ identity }) => identity),
    ['k-0', 'k-1', 'k-2', 'k-3'],
  );
});

test('what SQS refuses, also when it is throttled, is not reported as accepted, and nothing else is refused', async (t) => {
  const log = logged(t);
  const uriOf = (body: string) => Number((JSON.parse(body) as { uri: string }).uri);
  // Every seventh for good, every fifth until it is sent again.
  const { sender, calls } = await sqsThat(t, (body, attempts) => {
    if (uriOf(body) % 7 === 0) return { code: 'InvalidMessageContents', senderFault: true };
    if (uriOf(body) % 5 === 0 && attempts === 1) return { code: 'RequestThrottled', senderFault: false };
    return undefined;
  });
  const uris = Array.from({ length: 105 }, (_, i) => String(i));
  const { status, body } = await post(uris.map((uri) => line(uri)).join('\n'), {
    send: sender.send.bind(sender),
  });
  assert.deepEqual([status, body.accepted, body.refused], [207, 90, 15]);
  for (const [i, entry] of body.records.entries()) {
    assert.equal(entry.uri, String(i));
    assert.equal(entry.status, i % 7 === 0 ? 503 : 202);
    if (i % 7 === 0)
      assert.deepEqual([entry.code, entry.retryable, entry.identity], ['queue_unavailable', true, undefined]);
  }
  assert.ok(calls.every(({ length }) => length <= LIMITS.sendEntries));
  assert.equal(calls.filter((call) => call.length === LIMITS.sendEntries).length, 10);
  // Hosts are in the log alone, once for all that failed for one reason.
  assert.doesNotMatch(JSON.stringify(body), /127\.0\.0\.1/);
  assert.equal(log.length, 1);
});

test('each record is announced before it is sent, and withdrawn when it was not', async (t) => {
  logged(t);
  const steps: string[] = [];
  const send: Send = async (body) => {
    const { uri } = JSON.parse(body) as { uri: string };
    steps.push(`send ${uri}`);
    if (uri === 'b') throw new ServingError('queue_unavailable', 'no');
  };
  const announcer = () => ({
    announce: async ({ uri }: { uri: string }) => {
      if (uri === 'c') throw new ServingError('results_unavailable', 'no');
      steps.push(`announce ${uri}`);
      return { withdraw: async () => void steps.push(`withdraw ${uri}`) };
    },
  });
  const { body } = await post(['a', 'b', 'c'].map((uri) => line(uri)).join('\n'), { send, announcer });
  assert.deepEqual(
    body.records.map(({ status, code }) => code ?? status),
    [202, 'queue_unavailable', 'results_unavailable'],
  );
  assert.deepEqual(steps, ['announce a', 'announce b', 'send a', 'send b', 'withdraw b']);
});

test('every record carries the trace of its request', async () => {
  const { sent, send } = queue();
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
  await post(`${line('a')}\n${line('b')}`, { send, headers: { ...NDJSON, traceparent } });
  assert.deepEqual(
    sent.map(({ trace }) => trace),
    [traceparent, traceparent],
  );
});

test('the rows of a table are records, whose uris are in the column "uri"; a bad uri refuses its row', async () => {
  const { sent, send } = queue();
  const { status, body } = await post('age,uri,name\n1,a,"x\ny"\n2,,z\n,c,\n', { send, headers: CSV });
  assert.equal(status, 207);
  assert.deepEqual(
    body.records.map((entry) => [entry.line, entry.status, entry.uri]),
    [
      [3, 202, 'a'],
      [4, 400, undefined],
      [5, 202, 'c'],
    ],
  );
  const inputsOf = (i: number) => {
    const { inputs } = decodeMessage(sent[i]?.body ?? '');
    if (inputs instanceof ServingError) throw inputs;
    return [...inputs].map(([name, value]) => [name, value.kind === 'json' ? value.value : value]);
  };
  assert.deepEqual(inputsOf(0), [
    ['age', '1'],
    ['name', 'x\ny'],
  ]);
  assert.deepEqual(inputsOf(1), [
    ['age', ''],
    ['name', ''],
  ]);
  const made = await post(Buffer.from('age\n1\n2'), { send, headers: CSV });
  assert.deepEqual([made.status, new Set(made.body.records.map(({ uri }) => uri)).size], [202, 2]);
});

test('every body of N lines has N entries in order, of which exactly the good ones are sent', async () => {
  const LINE = fc.constantFrom('good', 'bad', 'refused', 'blank');
  await fc.assert(
    fc.asyncProperty(fc.array(LINE, { minLength: 1, maxLength: 60 }), fc.boolean(), async (kinds, crlf) => {
      if (kinds.every((kind) => kind === 'blank')) return;
      const texts = kinds.map((kind, i) =>
        kind === 'blank' ? ' ' : kind === 'bad' ? '{' : line(`${kind}-${i}`),
      );
      const { sent, send } = queue();
      const { status, body } = await post(texts.join(crlf ? '\r\n' : '\n'), {
        send: async (message, attributes) => {
          if (message.includes('refused')) throw new ServingError('too_large', 'no');
          await send(message, attributes);
        },
      });
      const entries = kinds.flatMap((kind, i) => (kind === 'blank' ? [] : [{ kind, line: i + 1 }]));
      const isGood = ({ kind }: { kind: string }) => kind === 'good';
      assert.equal(status, entries.every(isGood) ? 202 : 207);
      assert.deepEqual(
        body.records.map((entry) => [entry.line, entry.status === 202]),
        entries.map((entry) => [entry.line, isGood(entry)]),
      );
      assert.deepEqual(
        sent.map(({ uri }) => uri),
        entries.filter(isGood).map((entry) => `good-${entry.line - 1}`),
      );
    }),
  );
});

test('the header canary-key is the key of every record of the body, and a bad one refuses all', async () => {
  for (const [body, type] of [
    [`${line('a')}\n${line('b')}`, 'application/x-ndjson'],
    ['uri,x\na,1\nb,2', 'text/csv'],
    ['{"uris":["a","b"],"instances":[{"x":1},{"x":2}]}', 'application/json'],
  ] as const) {
    const { sent, send } = queue();
    const headers = { 'content-type': type, 'canary-key': 'user-1' };
    assert.equal((await post(body, { send, headers })).status, 202);
    await post(body, { send, headers: { 'content-type': type } });
    assert.deepEqual(
      sent.map(({ uri, canaryKey }) => [uri, canaryKey]),
      [
        ['a', 'user-1'],
        ['b', 'user-1'],
        ['a', undefined],
        ['b', undefined],
      ],
    );
    for (const bad of ['', 'a b', 'ü', 'a'.repeat(129)]) {
      const answer = await post(body, { send, headers: { ...headers, 'canary-key': bad } });
      assert.equal(answer.status, 400);
      assert.match(answer.body.error ?? '', /^canary-key: expected 1 to 128/);
    }
    assert.equal(sent.length, 4);
  }
});
