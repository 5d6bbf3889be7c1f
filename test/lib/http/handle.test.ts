import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { findHandle, type Handle } from '../../../lib/http/handle.ts';

const named =
  (name: string): Handle<unknown> =>
  async () => ({ statusCode: 200, headers: {}, body: name });
const HANDLES = {
  'POST /predict': named('predict'),
  'GET /predictions/{uri}': named('result'),
  'GET /ready': named('ready'),
};

async function answerOf(method: string, rawPath: string, routeKey = '$default'): Promise<string> {
  const event = { routeKey, rawPath, requestContext: { http: { method } } } as APIGatewayProxyEventV2;
  const handle = findHandle(HANDLES)(event);
  const request = { path: rawPath } as Parameters<typeof handle>[0];
  return String((await handle(request, undefined, undefined)).body);
}

test('a request is answered by its route: by name, by what its path begins with, and HEAD as GET', async () => {
  assert.equal(await answerOf('POST', '/predict'), 'predict');
  assert.equal(await answerOf('GET', '/predictions/a%2Fb'), 'result');
  assert.equal(await answerOf('HEAD', '/ready'), 'ready');
});

test('below the base path of a domain the route that the gateway took counts', async () => {
  assert.equal(await answerOf('POST', '/v3/predict', 'POST /predict'), 'predict');
  assert.equal(await answerOf('GET', '/v3/predictions/x', 'GET /predictions/{uri}'), 'result');
});

test('what no route serves is not found, whatever it is called', async () => {
  for (const [method, path, key] of [
    ['GET', '/predict', undefined],
    ['POST', '/other', 'constructor'],
    ['GET', '/predictions', 'toString'],
  ] as const)
    await assert.rejects(answerOf(method, path, key), { code: 'not_found' });
});
