/**
 * Internal errors stay inside. Every function is made to fail at every possible place, with an error that holds a
 * secret in its text, its stack, its cause and its fields. The secret reaches only the log.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { APIGatewayProxyEventV2, SQSEvent } from 'aws-lambda';
import { deadLetter } from '../../functions/dead-letter.ts';
import { predict } from '../../functions/predict.ts';
import { status } from '../../functions/status.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { type ErrorCode, ServingError } from '../../lib/contract/errors.ts';
import type { HttpResponse } from '../../lib/http/response.ts';
import { ModelManager } from '../../lib/inference/model-manager.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { serializeResult } from '../../lib/results/fields.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { startGateway } from '../../local/gateway/gateway.ts';
import { quietObservers } from '../support/observers.ts';
import { predictionsWith } from '../support/predictions.ts';

const SECRET = 'hunter2-/var/task/lib-arn:aws:sts::123456789012:assumed-role';

function secretError(): Error {
  const error = new TypeError(`cannot read ${SECRET}`, { cause: new Error(SECRET) });
  return Object.assign(error, {
    path: SECRET,
    $metadata: { requestId: SECRET },
    statusCode: 200,
    body: SECRET,
  });
}

const fail = async (): Promise<never> => {
  throw secretError();
};
const failAtOnce = (): never => {
  throw secretError();
};

function event(
  method: string,
  path: string,
  more: Partial<APIGatewayProxyEventV2> = {},
): APIGatewayProxyEventV2 {
  return {
    version: '2.0',
    routeKey: `${method} ${path}`,
    rawPath: path,
    rawQueryString: '',
    headers: {},
    requestContext: { http: { method, path } } as APIGatewayProxyEventV2['requestContext'],
    isBase64Encoded: false,
    ...more,
  };
}

/** Collects the log lines that `work` writes. */
async function logged<T>(t: TestContext, work: () => Promise<T>): Promise<{ answer: T; log: string }> {
  let log = '';
  const write = t.mock.method(process.stdout, 'write', (text: string | Uint8Array) => {
    log += String(text);
    return true;
  });
  try {
    return { answer: await work(), log };
  } finally {
    write.mock.restore();
  }
}

const BODY = { body: '{"instances":[{"x":[1]}]}' };
const ASK = { queryStringParameters: { uri: 'u' } };
const predicting = (deps: Partial<Parameters<typeof predict>[0]>) =>
  predict({
    model: { use: fail },
    filter: undefined,
    observers: quietObservers(),
    ...deps,
  })(event('POST', '/predict', BODY));
const looking = (
  deps: Parameters<typeof predictionsWith>[0],
  method: string,
  path: string,
  more: Partial<APIGatewayProxyEventV2>,
) => predictionsWith(deps)(event(method, path, more));
const none = { getWithin: fail, take: fail, takePage: fail };

const FAILURES: Readonly<Record<string, () => Promise<HttpResponse>>> = {
  'predict, the model': () => predicting({}),
  'predict, the run': () =>
    predicting({ model: { use: (work) => work({ version: 'v', run: fail } as never) } }),
  'predict, the limiter': () => predicting({ limiter: { acquire: fail } }),
  'predict, the clock': () =>
    predicting({ observers: Object.assign(quietObservers(), { start: failAtOnce }) }),
  'predictions, the queue': () => looking({ queue: () => ({ send: fail }) }, 'POST', '/predictions', BODY),
  'predictions, opening the queue': () => looking({ queue: failAtOnce }, 'POST', '/predictions', BODY),
  'predictions, the announcement': () =>
    looking(
      { queue: () => ({ send: fail }), announcer: () => ({ announce: fail }) },
      'POST',
      '/predictions',
      BODY,
    ),
  'predictions, a result': () => looking({ results: () => none }, 'GET', '/predictions/u', ASK),
  'predictions, opening the results': () => looking({ results: failAtOnce }, 'GET', '/predictions/u', ASK),
  'predictions, a deletion': () => looking({ results: () => none }, 'DELETE', '/predictions/u', ASK),
  'predictions, a page': () => looking({ results: () => none }, 'DELETE', '/predictions', {}),
  'predictions, where a record stands': () =>
    looking({ states: () => ({ status: fail, cancel: fail }) }, 'GET', '/status', ASK),
  'predictions, a cancellation': () =>
    looking({ states: () => ({ status: fail, cancel: fail }) }, 'POST', '/cancel', ASK),
  'status, the metrics': () =>
    status({
      results: { timers: fail, serving: fail, lostCaptures: fail },
      versions: fail,
      observers: quietObservers(),
      settings: DEFAULT_JOB,
    })(event('GET', '/metrics')),
  'status, readiness': () =>
    status({
      results: { timers: fail, serving: fail, lostCaptures: fail },
      versions: fail,
      observers: quietObservers(),
      settings: DEFAULT_JOB,
    })(event('GET', '/ready')),
};

for (const [where, act] of Object.entries(FAILURES)) {
  test(`${where}: a defect is answered with 500 "Internal error" and nothing else, and logged whole`, async (t) => {
    const { answer, log } = await logged(t, act);
    assert.deepEqual(answer, {
      statusCode: 500,
      headers: { 'content-type': 'application/json; charset=utf-8', 'x-content-type-options': 'nosniff' },
      body: '{"error":"Internal error","code":"internal"}',
    });
    const lines = log.split('\n').filter((line) => line !== '');
    assert.ok(lines.length >= 1);
    const line = JSON.parse(lines[0] as string) as { code: string; message: string; stack: string };
    assert.equal(line.code, 'internal');
    assert.ok(line.message.includes(SECRET));
    assert.match(line.stack, /caused by Error: hunter2/);
  });
}

test('a function that cannot even answer is answered for by the gateway, without its words', async (t) => {
  const cyclic: Record<string, unknown> = { statusCode: 200, body: SECRET, headers: {} };
  cyclic['headers'] = { 'x-secret': SECRET, self: cyclic };
  const silent = () => undefined;
  const gateway = await startGateway({
    port: 0,
    routes: [
      { method: 'GET', path: '/throws', handler: fail },
      { method: 'GET', path: '/odd', handler: async () => cyclic },
    ],
    log: { info: silent, warn: silent, error: silent },
  });
  t.after(() => gateway.close());
  for (const path of ['/throws', '/odd']) {
    const answer = await fetch(`${gateway.url}${path}`);
    assert.deepEqual(
      [answer.status, await answer.text()],
      [500, '{"message":"Internal Server Error","error":"Internal Server Error"}'],
      path,
    );
    assert.ok(!JSON.stringify([...answer.headers]).includes('hunter2'), path);
  }
});

const RECORDS = {
  Records: [
    {
      messageId: 'm1',
      body: '{"uri":"u","data":"{\\"instances\\":[{\\"x\\":1}]}","serde":"stream"}',
      attributes: { SentTimestamp: '0' },
    },
  ],
} as unknown as SQSEvent;
const RETURNED = { batchItemFailures: [{ itemIdentifier: 'm1' }] };

test('batch answers a defect with the ids of its messages and nothing else', async (t) => {
  const saved: unknown[] = [];
  const deps = {
    now: Date.now,
    model: { use: fail },
    sink: resultSink({ save: async (finished) => saved.push(finished) }),
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies: readonly string[]) => [...bodies] },
    // An observer that fails costs no answer.
    observers: quietObservers({ stepEnded: failAtOnce, chunkServed: failAtOnce, eventFailed: failAtOnce }),
  } as unknown as Parameters<typeof serveEvent>[0];
  const broken: readonly (typeof deps)[] = [
    deps,
    { ...deps, payloads: { resolve: fail } },
    { ...deps, model: { use: (work) => work({ version: 'v', run: fail } as never) } },
    {
      ...deps,
      model: {
        use: (work) =>
          work({
            version: 'v',
            run: async () => [{ ok: false, error: ServingError.from(secretError()) }],
          } as never),
      },
    },
    {
      ...deps,
      sink: resultSink({ save: fail }),
      model: { use: (work) => work({ version: 'v', run: async () => [{ ok: true, outputs: [] }] } as never) },
    },
  ];
  for (const [i, one] of broken.entries()) {
    const { answer, log } = await logged(t, () => serveEvent(one)(RECORDS));
    assert.deepEqual(answer, RETURNED, String(i));
    assert.ok(log.includes(SECRET), String(i));
  }
  assert.ok(!JSON.stringify(saved).includes(SECRET));
});

test('dead-letter answers a defect with the ids of its messages and nothing else', async (t) => {
  const handle = deadLetter({ sink: resultSink({ save: fail }), archive: fail, observers: {}, attempts: 3 });
  const { answer, log } = await logged(t, () => handle(RECORDS));
  assert.deepEqual(answer, RETURNED);
  assert.ok(log.includes(SECRET));
});

test('a defect that becomes a stored result has no text of its own', () => {
  const fields = serializeResult({ ok: false, error: ServingError.from(secretError()) }, undefined);
  assert.ok(!JSON.stringify(fields).includes(SECRET));
  assert.deepEqual(JSON.parse(fields.error), { code: 'internal', message: 'Internal error' });
});

const PASSING: readonly ErrorCode[] = [
  'model_unavailable',
  'results_unavailable',
  'queue_unavailable',
  'bad_config',
];

for (const code of PASSING) {
  test(`${code} says what it is and not why: that names hosts, roles and paths, and is in the log`, async (t) => {
    const broken = async (): Promise<never> => {
      throw new ServingError(code, `AccessDenied: ${SECRET}`, { cause: secretError() });
    };
    const { answer, log } = await logged(t, () => predicting({ model: { use: broken } }));
    assert.ok(Number(answer.statusCode) >= 500);
    assert.ok(!JSON.stringify(answer).includes('hunter2'), answer.body);
    assert.match(answer.body as string, /^\{"error":"\w[^"]{4,}","code":"\w+"\}$/);
    assert.ok(log.includes(SECRET));
    const stored = serializeResult({ ok: false, error: new ServingError(code, SECRET) }, undefined);
    assert.ok(!JSON.stringify(stored).includes(SECRET));
  });
}

test('an error of the file system while a model opens does not tell its path', async (t) => {
  const model = new ModelManager(
    {
      version: async () => 'v',
      open: async () => {
        throw Object.assign(new Error(`ENOSPC: no space left on device, write '${SECRET}'`), {
          code: 'ENOSPC',
        });
      },
    },
    { refreshMs: 1000, now: () => 0, onError: () => undefined },
  );
  const { answer, log } = await logged(t, () => predicting({ model }));
  assert.equal(answer.statusCode, 503);
  assert.ok(!(answer.body as string).includes(SECRET));
  assert.ok(log.includes(SECRET));
});

test('an error below 500 is explained', async (t) => {
  const explained = new ServingError('bad_input', 'input "x": expected 3 numbers, got 2');
  const { answer, log } = await logged(t, () =>
    predicting({
      model: {
        use: async () => {
          throw explained;
        },
      },
    }),
  );
  assert.deepEqual([answer.statusCode, JSON.parse(answer.body as string).error], [400, explained.message]);
  assert.equal(log, '');
});
