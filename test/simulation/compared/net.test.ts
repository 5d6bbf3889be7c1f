/** The simulated network against real sockets: the same client and server code sees the same events on both. */
import assert from 'node:assert/strict';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import { before, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { startEmbedded } from '../../../embedded-redis/server.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { netModule } from '../models/net.ts';
import { type Lab, openLab } from './lab.ts';

/** The part of a socket that both have. */
type Plain = Pick<Duplex, 'on' | 'once' | 'write' | 'end' | 'destroy'> & {
  setTimeout(ms: number, onTimeout: () => void): unknown;
};
type Connect = () => Plain;

interface Scenario {
  readonly name: string;
  /** Undefined: nothing listens. */
  readonly serve?: (socket: Plain) => void;
  readonly ask: (socket: Plain) => void;
}

const SCENARIOS: readonly Scenario[] = [
  { name: 'nothing listens', ask: () => undefined },
  {
    name: 'an answer, then the client ends',
    serve: (socket) => socket.on('data', (bytes) => socket.write(`got ${bytes.toString()}`)),
    ask: (socket) => {
      socket.on('connect', () => socket.write('hello'));
      socket.on('data', () => socket.end());
    },
  },
  {
    name: 'the server ends after its answer',
    serve: (socket) => socket.on('data', () => socket.end('bye')),
    ask: (socket) => socket.on('connect', () => socket.write('hello')),
  },
  {
    name: 'the server closes without an answer',
    serve: (socket) => socket.on('data', () => socket.end()),
    ask: (socket) => socket.on('connect', () => socket.write('hello')),
  },
  {
    name: 'the client gives up a silent server',
    serve: () => undefined,
    ask: (socket) => {
      socket.setTimeout(50, () => socket.destroy(new Error('silent')));
      socket.on('connect', () => socket.write('hello'));
    },
  },
  {
    name: 'bytes of several writes come in their order',
    serve: (socket) => {
      let all = '';
      socket.on('data', (bytes) => {
        all += bytes.toString();
        if (all.length === 20) socket.end(all);
      });
    },
    ask: (socket) =>
      socket.on('connect', () => ['01234', '56789', 'abcde', 'fghij'].map((text) => socket.write(text))),
  },
];

/** Events of the client until its connection is closed. */
function seen(connect: Connect, ask: Scenario['ask']): Promise<string[]> {
  const events: string[] = [];
  let received = '';
  const socket = connect();
  return new Promise((resolve) => {
    socket.on('connect', () => events.push('connect'));
    socket.on('data', (bytes) => (received += bytes.toString()));
    socket.on('end', () => events.push('end'));
    socket.on('error', (error: NodeJS.ErrnoException) => events.push(`error ${error.code ?? error.message}`));
    socket.on('close', (hadError: unknown) =>
      resolve([...events, `received ${received}`, `close ${hadError === true ? 'with' : 'without'} error`]),
    );
    ask(socket);
  });
}

async function onRealSockets({ serve, ask }: Scenario): Promise<string[]> {
  const server = net.createServer(serve ?? (() => undefined));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  if (!serve) await new Promise((resolve) => server.close(resolve));
  const events = await seen(() => net.createConnection({ port, host: '127.0.0.1' }), ask);
  server.close();
  return events;
}

describe('the simulated network', () => {
  let lab: Lab;
  before(async () => {
    lab = await openLab();
  });

  for (const [i, scenario] of SCENARIOS.entries()) {
    test(`as real sockets: ${scenario.name}`, async () => {
      const { network, process } = lab;
      const port = 5_000 + i;
      const simulated = netModule(network, process);
      const { serve } = scenario;
      if (serve) simulated.createServer({}, serve).listen(port, '', () => undefined);
      const events = await lab.run(() => seen(() => simulated.connect({ port }), scenario.ask));
      assert.deepEqual(events, await onRealSockets(scenario));
    });
  }

  test('as real sockets: a connection that is reset', async () => {
    const ask: Scenario['ask'] = (socket) => socket.on('connect', () => socket.write('hello'));
    const server = net.createServer((socket) => socket.on('data', () => socket.resetAndDestroy()));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const real = await seen(() => net.createConnection({ port, host: '127.0.0.1' }), ask);
    server.close();
    const { network, process } = lab;
    const simulated = netModule(network, process);
    const reset = () => {
      for (const link of network.links) if (link.port === 5_100) link.reset();
    };
    simulated
      .createServer({}, (socket) => socket.on('error', () => undefined).on('data', reset))
      .listen(5_100, '', () => undefined);
    assert.deepEqual(await lab.run(() => seen(() => simulated.connect({ port: 5_100 }), ask)), real);
  });

  test('ioredis and the embedded Redis answer as over a real socket', async (t) => {
    const real = await startEmbedded({
      dataDir: await temporaryFolder(t),
      port: 0,
      host: '127.0.0.1',
      log: () => undefined,
      now: Date.now,
    });
    t.after(() => real.close());
    const overSocket = await answers(
      new Redis(`redis://127.0.0.1:${real.port}`),
      new Redis(`redis://127.0.0.1:${real.port}`),
    );
    const {
      Redis: Simulated,
      startEmbedded: start,
    }: { Redis: typeof Redis; startEmbedded: typeof startEmbedded } = Object(lab.program);
    const simulated = await lab.run(async () => {
      await start({ dataDir: '/data', port: 6379, host: '127.0.0.1', log: () => undefined, now: Date.now });
      return answers(new Simulated('redis://redis:6379'), new Simulated('redis://redis:6379'));
    });
    assert.deepEqual(simulated, overSocket);
    assert.equal(overSocket.length, 10);
  });
});

type Client = InstanceType<typeof Redis>;

async function answers(redis: Client, subscriber: Client): Promise<unknown[]> {
  const heard = new Promise((resolve) =>
    subscriber.on('message', (channel, message) => resolve([channel, message])),
  );
  await subscriber.subscribe('news');
  const script = "redis.call('SET', KEYS[1], ARGV[1]) return {redis.call('GET', KEYS[1]), #ARGV}";
  const all: unknown[] = [
    await redis.set('a', '1', 'PX', 60_000),
    await redis.hset('h', { status: 'x', value: 'ÿ\u{1f600}' }),
    await redis.hgetall('h'),
    await redis.eval(script, 1, 'k', 'v'),
    await redis.multi().incr('n').incr('n').exec(),
    await redis
      .pipeline()
      .get('a')
      .hget('a', 'x')
      .exec()
      .then((replies) => replies?.map(([error, reply]) => error?.message ?? reply)),
    await redis
      .eval('return redis.call("NOSUCH")', 0)
      .catch((error: Error) => error.message.replace(/script: .*/, '')),
    await redis.xadd('s', '1-1', 'uri', 'u'),
    await redis.publish('news', 'now'),
    await heard,
  ];
  redis.disconnect();
  subscriber.disconnect();
  return all;
}
