/** POST /predictions with times at which its records may run, through its handler. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import type { AcceptDeps } from '../../../lib/http/accept.ts';
import type { Sender } from '../../../lib/pipeline/submit.ts';
import { predictionsWith } from '../../support/predictions.ts';

interface Posted {
  readonly body: string;
  readonly type?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly settings?: AcceptDeps['settings'];
}

/** The answer, and what the queue got. */
async function post({ body, type = 'application/json', query = {}, settings }: Posted) {
  const sent: [expires: string | undefined, delay: number | undefined][] = [];
  const send: Sender['send'] = async (_, { expiresAfter }, _group, delaySeconds) =>
    void sent.push([expiresAfter?.StringValue, delaySeconds]);
  const handler = predictionsWith({ queue: () => ({ send }), ...(settings && { settings }) });
  const { statusCode, body: text = '' } = await handler({
    rawPath: '/predictions',
    headers: { 'content-type': type },
    queryStringParameters: query,
    requestContext: { http: { method: 'POST' } },
    body,
    isBase64Encoded: false,
  } as unknown as APIGatewayProxyEventV2);
  return { status: statusCode, answer: JSON.parse(text) as { readonly error?: string }, sent };
}

const WIRE = { uri: 'a', data: '{"instances":[{"x":3}]}', serde: 'stream' };

test('expiresAfter and delaySeconds are keys of a body, of a record, of a line and of the query, and the body counts', async () => {
  const times = { expiresAfter: 60, delaySeconds: 5 };
  const query = { expiresAfter: '70', delaySeconds: '6' };
  const both = JSON.stringify({ instances: [{ x: 1 }, { x: 2 }], ...times });
  assert.deepEqual((await post({ body: both, query })).sent, [
    ['60', 5],
    ['60', 5],
  ]);
  assert.deepEqual((await post({ body: JSON.stringify({ ...WIRE, ...times }) })).sent, [['60', 5]]);
  const lines = `${JSON.stringify({ instances: [{ x: 1 }], expiresAfter: 9 })}\n${JSON.stringify(WIRE)}`;
  assert.deepEqual((await post({ body: lines, type: 'application/x-ndjson', query })).sent, [
    ['9', 6],
    ['70', 6],
  ]);
  assert.deepEqual((await post({ body: 'x\n1\n', type: 'text/csv', query })).sent, [['70', 6]]);
  assert.deepEqual((await post({ body: JSON.stringify(WIRE) })).sent, [[undefined, undefined]]);
});

test('a time that no record can have is one clear 400, and nothing is sent', async () => {
  const settings = { notify: {}, queue: { recordTtlSeconds: 30, highShare: 0 } };
  for (const [more, query, message] of [
    [{ expiresAfter: '60' }, {}, 'expiresAfter: expected whole seconds from 1 to 1209600, got "60"'],
    [{ expiresAfter: 1e20 }, {}, /^expiresAfter: expected whole seconds/],
    [{ delaySeconds: 1_000 }, {}, 'delaySeconds: expected whole seconds from 0 to 900, got 1000'],
    [{}, { delaySeconds: '5s' }, 'delaySeconds: expected whole seconds from 0 to 900, got "5s"'],
    [
      { delaySeconds: 30 },
      {},
      'delaySeconds: with 30 and queue.recordTtlSeconds 30 the record would never run',
    ],
    [{ priority: 'high' }, {}, /^priority: the job has no queue for "high"; set queue\.highShare/],
    [{ priority: 1 }, {}, 'priority: expected "high" or "normal", got 1'],
    [{}, { priority: 'urgent' }, 'priority: expected "high" or "normal", got "urgent"'],
    [{ delay: 5 }, {}, /POST \/predictions takes delaySeconds/],
    [{ expires_after: 5 }, {}, /did you mean "expiresAfter"\?/],
    [{}, { delay_seconds: '5' }, /it belongs in the body|delaySeconds/],
  ] as const) {
    const body = JSON.stringify({ instances: [{ x: 1 }], ...more });
    const { status, answer, sent } = await post({ body, query, settings });
    assert.deepEqual([status, sent], [400, []], JSON.stringify([more, query]));
    if (typeof message === 'string') assert.equal(answer.error, message);
    else assert.match(answer.error ?? '', message);
  }
});
