/**
 * Every method of the clients, at servers that accept a connection and then fall silent, stop in the middle, or answer
 * a byte a second: the call ends at its limit, and by its signal. The methods are those that the classes have.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import {
  type CallOptions,
  connect,
  findStack,
  InputQueue,
  type Outcome,
  OutputQueue,
  type ServingError,
} from '../../sdk/index.ts';
import { WKRClient } from '../../sdk/worker-client.ts';
import { useAws } from '../support/environment.ts';

const HTTP_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"';
/** The first bytes of each server when it is asked, and whether more follow slowly. */
const BEHAVIOURS = {
  'is silent': { http: '', redis: '', drips: false },
  'stops in the headers': { http: 'HTTP/1.1 200 OK\r\ncontent-ty', redis: '$10', drips: false },
  'stops in the body': { http: HTTP_HEAD, redis: '$100\r\nabc', drips: false },
  'writes a byte a second': { http: HTTP_HEAD, redis: '$100\r\nabc', drips: true },
} as const;
/** The worker's service takes an item. What came of it is asked for afterwards. */
const ACCEPTED = 'HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n';

const LIMIT_MS = 60;
const record = { uri: 'a', inputs: { x: 1 } };
before(() => useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', AWS_REGION: 'local' }));

const cleanups: (() => unknown)[] = [];
after(async () => {
  for (const cleanup of cleanups.toReversed()) await cleanup();
});

async function serve(answer: (asked: string) => string, drips: boolean): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    let timer: NodeJS.Timeout | undefined;
    socket.on('data', (asked) => {
      const said = answer(asked.toString('latin1'));
      socket.write(said);
      // Not after a whole answer: its connection may wait for the next request.
      if (drips && said !== ACCEPTED) timer ??= setInterval(() => socket.write(' '), 1_000);
    });
    socket.on('close', () => clearInterval(timer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

type Call<T> = (client: T, options: CallOptions) => Promise<unknown>;
type Calls<T> = Readonly<Record<string, Call<T> | undefined>>;

async function firstOf(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items) return;
}

/** Its records have the error in their place. */
async function outcomeOf(items: AsyncIterable<Outcome>): Promise<void> {
  for await (const outcome of items) if ('error' in outcome) throw outcome.error;
}

const INPUT: Calls<InputQueue> = {
  enqueue: (queue, options) => queue.enqueue('a', record.inputs, options),
  enqueueMessage: (queue, options) =>
    queue.enqueueMessage({ uri: 'a', identity: 'b', message: '{}' }, options),
  enqueueMany: (queue, options) =>
    queue.enqueueMany([record], options).catch((error: unknown) => {
      throw error instanceof AggregateError ? error.errors[0] : error;
    }),
  predict: (queue, options) => queue.predict(record.inputs, options),
  // Some end where the others begin.
  close: undefined,
  toInputs: undefined,
  assertTenant: undefined,
  send: undefined,
};
const OUTPUT: Calls<OutputQueue> = {
  query: (queue, options) => queue.query('a', options),
  queryAndDelete: (queue, options) => queue.queryAndDelete('a', options),
  wait: (queue, options) => queue.wait('a', options),
  status: (queue, options) => queue.status('a', options),
  cancel: (queue, options) => queue.cancel('a', options),
  dequeue: (queue, options) => queue.dequeue(options),
  drain: (queue, options) => firstOf(queue.drain(options)),
  results: (queue, options) => outcomeOf(queue.results(['a'], options)),
  close: undefined,
};
const pending = async (client: WKRClient) => client.encode(1, { blocking: false });
const WORKER: Calls<WKRClient> = {
  serverStatus: (client, options) => client.serverStatus(options),
  encode: (client, options) => client.encode(1, options),
  fetch: async (client, options) => {
    await pending(client);
    await firstOf(client.fetch(options));
  },
  fetchAll: async (client, options) => {
    await pending(client);
    await client.fetchAll(options);
  },
  encodeAsync: (client, options) => firstOf(client.encodeAsync([1], options)),
  close: undefined,
};

/** Public and protected methods, which the table names one and all. */
function methodsOf(type: { readonly prototype: object }): string[] {
  const names: string[] = [];
  for (let at = type.prototype; at !== Object.prototype; at = Object.getPrototypeOf(at) as object) {
    const own = Object.entries(Object.getOwnPropertyDescriptors(at));
    for (const [name, { value }] of own)
      if (typeof value === 'function' && name !== 'constructor') names.push(name);
  }
  return [...new Set(names)].toSorted();
}

test('the tables have every method of the clients', () => {
  for (const [type, calls] of [
    [InputQueue, INPUT],
    [OutputQueue, OUTPUT],
    [WKRClient, WORKER],
  ] as const)
    assert.deepEqual(methodsOf(type), Object.keys(calls).toSorted(), type.name);
});

interface Client {
  close(): unknown;
}

async function endsInTime<T extends Client>(open: () => T, calls: Calls<T>, omitted: readonly string[] = []) {
  const cases = Object.entries(calls).flatMap(([name, call]) =>
    call && !omitted.includes(name) ? [[name, call] as const] : [],
  );
  await Promise.all(
    cases.map(async ([name, call]) => {
      const [late, stopped] = [open(), open()];
      await assert.rejects(
        call(late, { timeoutMs: LIMIT_MS }),
        (error: ServingError) => assert.equal(error.code, 'timeout', `${name}: ${error.stack}`) === undefined,
        name,
      );
      const stop = new AbortController();
      const asked = assert.rejects(call(stopped, { signal: stop.signal }), /^Error: enough$/, name);
      setTimeout(() => stop.abort(new Error('enough')), LIMIT_MS);
      await asked;
      await assert.rejects(call(stopped, { signal: AbortSignal.abort(new Error('before')) }), /before/, name);
      await Promise.all([late.close(), stopped.close()]);
    }),
  );
}

describe('the calls end', { concurrency: true }, () => {
  for (const [name, { http, redis, drips }] of Object.entries(BEHAVIOURS)) {
    describe(`a server that ${name}`, { concurrency: true }, () => {
      test('over HTTPS', async () => {
        const url = `http://${await serve(() => http, drips)}`;
        await Promise.all([
          endsInTime(() => new InputQueue({ frontendUrl: url }), INPUT),
          endsInTime(() => new OutputQueue({ url }), OUTPUT),
        ]);
      });

      test('SQS, with the url of the queue and without', async () => {
        const endpoint = `http://${await serve(() => http, drips)}`;
        const queueUrl = `${endpoint}/0/q`;
        await Promise.all([
          endsInTime(() => new InputQueue({ endpoint, queueUrl }), INPUT, ['predict']),
          endsInTime(() => new InputQueue({ endpoint }), INPUT, ['predict']),
        ]);
      });

      test('Redis, for results and for announcements', async () => {
        const url = `redis://${await serve(() => redis, drips)}`;
        await Promise.all([
          endsInTime(() => new OutputQueue({ url }), OUTPUT),
          endsInTime(() => new InputQueue({ redisUrl: url, queueUrl: 'http://127.0.0.1:9/0/q' }), INPUT, [
            'predict',
          ]),
        ]);
      });

      test('a worker', async () => {
        const answer = (asked: string) => (/prefer: respond-async/i.test(asked) ? ACCEPTED : http);
        const url = `http://${await serve(answer, drips)}`;
        await endsInTime(() => new WKRClient({ url, checkVersion: false }), WORKER);
        await endsInTime(() => new WKRClient({ url }), { encode: WORKER['encode'] });
      });

      test('CloudFormation', async () => {
        const endpoint = `http://${await serve(() => http, drips)}`;
        const nothing = { close: () => undefined };
        await endsInTime(() => nothing, {
          connect: (_, options) => connect({ stack: 'a', endpoint, ...options }),
          findStack: (_, options) => findStack('a', { endpoint, ...options }),
        });
      });
    });
  }
});
