/** Who may call the port of gRPC, how much at once, how long, and how it closes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { type TestContext, test } from 'node:test';
import { Metadata, type ServerInterceptingCallInterface, type ServiceError, status } from '@grpc/grpc-js';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Runner, RunPolicy } from '../../../lib/contract/values.ts';
import { Admission } from '../../../local/grpc/admission.ts';
import type { GrpcJob } from '../../../local/grpc/methods.ts';
import type { GrpcOptions } from '../../../local/grpc/server.ts';
import { type CallOptions, connect, inferMessage, jobOf, OPEN, serviceOf } from './client.ts';

type Listener = Parameters<ServerInterceptingCallInterface['start']>[0];

const TOKEN = 'a-token-of-the-tests';
const x = { datatype: 'UINT8', shape: [1], raw: Uint8Array.of(7) };

/** Gives back its input once the test lets it. */
class Held {
  readonly runner: Runner;
  readonly policies: RunPolicy[] = [];
  readonly runs: (() => void)[] = [];
  #onRun: () => void = () => undefined;

  constructor() {
    this.runner = {
      version: '1',
      run: async ([record], policy = {}) => {
        this.policies.push(policy);
        const { promise, resolve } = Promise.withResolvers<void>();
        this.runs.push(resolve);
        this.#onRun();
        await promise;
        const value = record?.get('x');
        if (value?.kind !== 'tensor') throw new Error('no x');
        return [{ ok: true, outputs: [{ name: 'y', ...value.tensor }] }];
      },
      close: async () => undefined,
    };
  }

  async running(count: number): Promise<void> {
    while (this.runs.length < count) await new Promise<void>((resolve) => (this.#onRun = resolve));
  }
}

async function service(t: TestContext, options: Partial<GrpcOptions> = {}, more: Partial<GrpcJob> = {}) {
  const held = new Held();
  const server = await serviceOf(t, [jobOf('job', held.runner, more)], options);
  const call = connect(t, server.port);
  const infer = (sent: CallOptions = {}) => call('ModelInfer', inferMessage('job', [x]), sent);
  return { ...server, held, call, infer };
}

const failed = (code: status, details: RegExp) => (error: ServiceError) => {
  assert.equal(status[error.code], status[code], error.details);
  assert.match(error.details, details);
  return true;
};

test('a call without the token is refused before its message is read, for every method', async (t) => {
  const { call } = await service(t, { access: { ...OPEN, token: TOKEN } });
  const refused = failed(status.UNAUTHENTICATED, /send the metadata "authorization: Bearer <token>"/);
  for (const authorization of [undefined, TOKEN, 'Bearer ', `Bearer ${TOKEN}x`]) {
    const options = authorization === undefined ? {} : { metadata: { authorization } };
    for (const method of ['ServerLive', 'ModelInfer']) {
      await assert.rejects(call(method, Buffer.alloc(0), options), refused);
    }
  }
  await call('ServerLive', Buffer.alloc(0), { metadata: { authorization: `Bearer ${TOKEN}` } });
});

test('a call under a foreign name is refused, and one under an allowed name is not', async (t) => {
  const { port } = await service(t, { access: { ...OPEN, allowedHosts: ['serving.example'] } });
  const under = (name: string) => connect(t, port, { 'grpc.default_authority': name })('ServerLive');
  await assert.rejects(
    under('rebound.example'),
    failed(status.PERMISSION_DENIED, /"rebound\.example" is not a name of/),
  );
  for (const name of ['serving.example:8001', 'localhost', `127.0.0.1:${port}`]) await under(name);
});

test('a client that leaves, and one whose time is over, is not run any more', async (t) => {
  const { held, infer } = await service(t);
  const left = new AbortController();
  const leaves = infer({ signal: left.signal });
  await held.running(1);
  assert.equal(held.policies[0]?.isOver?.(), false);
  left.abort();
  await assert.rejects(leaves, { code: status.CANCELLED });
  await assert.rejects(infer({ deadlineMs: 200 }), { code: status.DEADLINE_EXCEEDED });
  // The service sees the end only after the client.
  while (!held.policies.every(({ isOver }) => isOver?.()))
    await new Promise((resolve) => setImmediate(resolve));
  for (const run of held.runs) run();
});

test('a call that takes longer than the job allows gets its answer in time', async (t) => {
  const { infer, held } = await service(t, {}, { timeoutMs: 50 });
  await assert.rejects(infer(), failed(status.DEADLINE_EXCEEDED, /no answer within 50 ms/));
  held.runs[0]?.();
});

test('errors have the status of their code, and what may tell of the machine is not said', async (t) => {
  const errors: readonly (readonly [ServingError, status, RegExp])[] = [
    [
      new ServingError('rate_limited', 'too many', { retryAfterSeconds: 3 }),
      status.RESOURCE_EXHAUSTED,
      /^too many$/,
    ],
    [new ServingError('model_unavailable', 's3://secret'), status.UNAVAILABLE, /^no model is loaded \(yet\)/],
    [new ServingError('internal', 'secret'), status.INTERNAL, /^Internal error$/],
    [new ServingError('model_failed', 'x'.repeat(9_000)), status.INVALID_ARGUMENT, /^x{800}$/],
    [new ServingError('timeout', 'half \ud83d'), status.DEADLINE_EXCEEDED, /^half \ufffd$/],
  ];
  t.mock.method(console, 'error', () => undefined);
  let thrown = errors[0]?.[0];
  const runner: Runner = { version: '1', run: () => Promise.reject(thrown), close: async () => undefined };
  const { port } = await serviceOf(t, [jobOf('job', runner)]);
  const call = connect(t, port);
  for (const [error, code, details] of errors) {
    thrown = error;
    await assert.rejects(call('ModelInfer', inferMessage('job', [x])), (got: ServiceError) => {
      assert.deepEqual(got.metadata.get('error-code'), [error.code]);
      assert.deepEqual(got.metadata.get('retry-after'), error.retryAfterSeconds ? ['3'] : []);
      return failed(code, details)(got);
    });
  }
});

test('a model that cannot be opened is not ready, and a full job refuses', async (t) => {
  t.mock.method(console, 'error', () => undefined);
  const { deps } = jobOf('job', new Held().runner);
  const closed = { use: () => Promise.reject(new ServingError('model_unavailable', 'not there')) };
  const { port } = await serviceOf(t, [
    jobOf('job', new Held().runner, { deps: { ...deps, model: closed }, refuses: () => true }),
  ]);
  const call = connect(t, port);
  // A field that is false may be there or not.
  assert.deepEqual([...(await call('ServerReady'))], [8, 0]);
  assert.deepEqual([...(await call('ServerLive'))], [8, 1]);
  await assert.rejects(
    call('ModelInfer', inferMessage('job', [x])),
    failed(status.RESOURCE_EXHAUSTED, /more requests than this machine/),
  );
});

test('a message that does not arrive in time ends its call, and others are read meanwhile', async (t) => {
  const { port, call, infer, held } = await service(t, { readMs: 300 });
  const whole = infer();
  await held.running(1);
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  t.after(() => session.destroy());
  const streams = Array.from({ length: 40 }, () =>
    session.request({
      [constants.HTTP2_HEADER_METHOD]: 'POST',
      [constants.HTTP2_HEADER_PATH]: '/inference.GRPCInferenceService/ModelInfer',
      [constants.HTTP2_HEADER_CONTENT_TYPE]: 'application/grpc',
    }),
  );
  // The first bytes of a message that says it has 32.
  for (const stream of streams) stream.write(Buffer.of(0, 0, 0, 0, 32, 1));
  const ends = streams.map(async (stream) => {
    const [headers] = (await once(stream, 'response')) as [Record<string, string>];
    stream.destroy();
    return headers['grpc-status'];
  });
  assert.deepEqual(new Set(await Promise.all(ends)), new Set([String(status.DEADLINE_EXCEEDED)]));
  await call('ServerLive');
  // A message that came in time does not end its call later.
  held.runs[0]?.();
  await whole;
});

test('a call that leaves before its message is read takes no place of those that are', () => {
  const { interceptor } = new Admission(OPEN);
  let read = 0;
  const open = () => {
    let listener: Listener | undefined;
    const call = { start: (given: Listener) => (listener = given), getHost: () => 'localhost' };
    const next = { ...call, getConnectionInfo: () => ({}) } as unknown as ServerInterceptingCallInterface;
    const ignored = { onReceiveMessage: () => undefined, onReceiveHalfClose: () => undefined };
    interceptor({} as never, next).start({
      ...ignored,
      onReceiveMetadata: () => (read += 1),
      onCancel: () => undefined,
    });
    listener?.onReceiveMetadata(new Metadata());
    return { end: () => listener?.onReceiveHalfClose(), leave: () => listener?.onCancel() };
  };
  const [first, second, ...others] = Array.from({ length: 16 }, open);
  const left = open();
  const waiting = [open(), open()];
  assert.equal(read, 16);
  left.leave();
  first?.end();
  first?.leave();
  assert.equal(read, 17);
  second?.leave();
  assert.equal(read, 18);
  for (const { leave } of [...others, ...waiting]) leave();
  for (let i = 0; i < 2; i++) open().leave();
  assert.equal(read, 20);
});

test('a message over the limit, and headers over theirs, are refused', async (t) => {
  const { call } = await service(t);
  const long = inferMessage('job', [{ ...x, raw: Buffer.alloc(33 * 1024 * 1024) }]);
  await assert.rejects(call('ModelInfer', long), failed(status.RESOURCE_EXHAUSTED, /larger than max/));
  await assert.rejects(call('ServerLive', Buffer.alloc(0), { metadata: { long: 'x'.repeat(100_000) } }));
  await call('ServerLive');
});

test('calls over the limit, and bytes over theirs, are refused at once', async (t) => {
  const { port, held, infer } = await service(t);
  const running = Array.from({ length: 1000 }, () => infer());
  await held.running(1000);
  // Clients share a connection, which takes no more calls.
  const one = connect(t, port, { 'grpc.use_local_subchannel_pool': 1 });
  await assert.rejects(one('ServerLive'), failed(status.RESOURCE_EXHAUSTED, /1000 calls are under way/));
  for (const run of held.runs) run();
  await Promise.all(running);
  await one('ServerLive');
  const small = await service(t, { maxHeldBytes: inferMessage('job', [x]).length });
  const first = small.infer();
  await small.held.running(1);
  await assert.rejects(
    small.infer(),
    failed(status.RESOURCE_EXHAUSTED, /messages of \d+ bytes are under way/),
  );
  small.held.runs[0]?.();
  await first;
  // The capacity of an ended call is free again, whether it was answered or failed.
  await assert.rejects(small.call('ModelInfer', Buffer.from([0x0a, 1, 0x78])));
  const second = small.infer();
  await small.held.running(2);
  small.held.runs[1]?.();
  await second;
});

test('an answer over the limit says what to do', async (t) => {
  const data = new Uint8Array(33 * 1024 * 1024);
  const outputs = [{ name: 'y', dtype: 'uint8' as const, shape: [data.length], data }];
  const runner: Runner = {
    version: '1',
    run: async () => [{ ok: true, outputs }],
    close: async () => undefined,
  };
  const { port } = await serviceOf(t, [jobOf('job', runner)]);
  const asked = connect(t, port)('ModelInfer', inferMessage('job', [x]));
  await assert.rejects(asked, failed(status.RESOURCE_EXHAUSTED, /the limit of 33554432 .*frameBytes/));
});

test('a service that closes answers what runs, and takes nothing more', async (t) => {
  const opened = await service(t);
  const { held, infer } = opened;
  const running = infer();
  await held.running(1);
  let isClosed = false;
  const closed = opened.close().then(() => (isClosed = true));
  await assert.rejects(infer({ deadlineMs: 1_000 }));
  assert.equal(isClosed, false);
  held.runs[0]?.();
  assert.ok((await running).includes(7));
  await closed;
});
