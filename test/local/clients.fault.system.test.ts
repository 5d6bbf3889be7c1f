/**
 * F26: clients that leave, and clients that wait. What runs the records is stopped while they come, so that what was run is
 * known at the end: all whose clients still read, and nothing else.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Stack } from '../../local/service/stack.ts';
import { SDK } from '../lib/workers/child.ts';
import { quietLog } from '../support/faults/quiet.ts';
import { pick, seeded, shuffled } from '../support/faults/seeds.ts';
import { childPids } from '../support/isolated.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { connect as connectGrpc, inferMessage } from './grpc/client.ts';

const LEAVING = 600;
const STAYING = 40;
const WAITS = 1_000;

const PICTURE = { image: Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => Array(8).fill(0))) };

/** How a client leaves, once its request is written. `before`: not all of it. */
const LEAVES = ['close', 'reset', 'before'] as const;
/** How it stays: as usual, having ended its sending, or with the request of another client's form before its own. */
const STAYS = ['open', 'half-closed', 'pipelined', 'HTTP/1.0'] as const;

interface Service {
  readonly stack: Stack;
  /** The path and the body of a request. */
  readonly requests: readonly (readonly [path: string, body: string])[];
  /** Stops what runs records. */
  stop(): Promise<void> | void;
  goOn(): Promise<void> | void;
}

async function modelService(t: TestContext): Promise<Service> {
  const stack = await testStack(t, { hasGrpc: true });
  const signal = async (name: NodeJS.Signals) => {
    for (const pid of await childPids('self', /onnx-process|isolated-process/)) process.kill(pid, name);
  };
  t.after(() => signal('SIGCONT'));
  const row = PICTURE.image.flat(2);
  const tensor = { name: 'image', datatype: 'FP32', shape: [1, 3, 8, 8], data: row };
  return {
    stack,
    requests: [
      ['/predict', JSON.stringify({ instances: [PICTURE] })],
      ['/v2/models/serving_stream/infer', JSON.stringify({ inputs: [tensor] })],
      ['/v1/models/serving_stream:predict', JSON.stringify({ instances: [PICTURE.image] })],
      ['/encode_json', JSON.stringify(PICTURE)],
    ],
    stop: () => signal('SIGSTOP'),
    goOn: () => signal('SIGCONT'),
  };
}

/** A worker that does nothing while there is a file. */
async function workerService(t: TestContext): Promise<Service> {
  const directory = await temporaryFolder(t, 'cs-clients-');
  const file = join(await temporaryFolder(t, 'cs-clients-'), 'stop');
  await writeFile(
    join(directory, 'server.ts'),
    `import { WKRHardWorker } from '${SDK}';
import { existsSync } from 'node:fs';
const pause = new Int32Array(new SharedArrayBuffer(4));
export class Worker extends WKRHardWorker {
  getModel() {}
  predict(_model: unknown, items: any[]) {
    while (existsSync(${JSON.stringify(file)})) Atomics.wait(pause, 0, 0, 10);
    return items;
  }
}
`,
  );
  const stack = await testStack(t, { config: 'batchSize: 4\nworker:\n  class: server.Worker\n', directory });
  const goOn = () => rm(file, { force: true });
  t.after(goOn);
  return {
    stack,
    requests: [
      ['/predict', '{"instances":[{"x":"text"}]}'],
      ['/encode_json', '{"x":1}'],
    ],
    stop: () => writeFile(file, ''),
    goOn,
  };
}

function socketTo({ stack }: Pick<Service, 'stack'>): Socket {
  // Only a socket that may be half open goes on reading when it has ended its sending.
  return connect({ port: Number(new URL(stack.url).port), host: '127.0.0.1', allowHalfOpen: true }).on(
    'error',
    () => undefined,
  );
}

function requestText([path, body]: readonly [string, string], version = 'HTTP/1.1'): string {
  return `POST ${path} ${version}\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

async function leave(service: Service, how: (typeof LEAVES)[number], text: string): Promise<void> {
  const socket = socketTo(service);
  const closed = once(socket, 'close');
  await once(socket, 'connect');
  socket.write(how === 'before' ? text.slice(0, -1) : text);
  if (how === 'close') socket.destroySoon();
  else setImmediate(() => (how === 'reset' ? socket.resetAndDestroy() : socket.destroy()));
  await closed;
}

/** @returns the status lines of its answers, once its connection is closed */
async function stay(service: Service, how: (typeof STAYS)[number], text: string): Promise<string[]> {
  const socket = socketTo(service);
  let answer = '';
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString('latin1');
    if (how === 'open' && answer.includes('\r\n\r\n')) socket.end();
  });
  socket.on('end', () => socket.end());
  const closed = once(socket, 'close');
  socket.write(how === 'pipelined' ? text + text : text);
  if (how === 'half-closed' || how === 'pipelined') socket.end();
  await closed;
  return answer.match(/HTTP\/1\.1 \d+ \w+/g) ?? [];
}

async function metric({ stack }: Pick<Service, 'stack'>, pattern: RegExp): Promise<number> {
  const response = await fetch(`${stack.url}/metrics`, { headers: { accept: 'text/plain; version=0.0.4' } });
  let sum = 0;
  for (const [, value] of (await response.text()).matchAll(pattern)) sum += Number(value);
  return sum;
}

const WAITING = /^cluster_serving_records_waiting (\d+)$/gm;
const SUCCEEDED = /^cluster_serving_records_total\{source="request",outcome="succeeded"\} (\d+)$/gm;
const OTHERS =
  /^cluster_serving_records_total\{source="request",outcome="(?!succeeded|cancelled).*\} (\d+)$/gm;
const IN_FLIGHT = /^cluster_serving_requests_in_flight (\d+)$/gm;
const LEFT = /^cluster_serving_requests_total\{.*status="499"\} (\d+)$/gm;

for (const [kind, start] of [
  ['a model', modelService],
  ['a worker', workerService],
] as const) {
  test(`F26: what clients of ${kind} asked for and left is not run, and those that stay are served`, async (t) => {
    const { lines } = quietLog(t);
    const service = await start(t);
    let [ran, left] = [0, 0];
    for (const seed of [1, 2, 3]) {
      const random = seeded(seed);
      await service.stop();
      const text = () => requestText(pick(random, service.requests));
      // Until one waits behind those that run.
      let running = 0;
      const staying: Promise<string[]>[] = [];
      await until(async () => {
        staying.push(stay(service, 'open', text()));
        await until(async () => (await metric(service, IN_FLIGHT)) === staying.length + 1);
        running = staying.length - (await metric(service, WAITING));
        return running > 0 && running < staying.length;
      });
      const clients = shuffled(random, [
        ...Array.from({ length: LEAVING }, () => ({ leaves: pick(random, LEAVES) })),
        ...Array.from({ length: STAYING }, () => ({ stays: pick(random, STAYS) })),
      ]);
      const leaving: Promise<void>[] = [];
      let wanted = staying.length;
      for (const client of clients) {
        if ('leaves' in client) {
          leaving.push(leave(service, client.leaves, text()));
          continue;
        }
        const version = client.stays === 'HTTP/1.0' ? client.stays : undefined;
        wanted += client.stays === 'pipelined' ? 2 : 1;
        staying.push(stay(service, client.stays, requestText(pick(random, service.requests), version)));
      }
      await Promise.all(leaving);
      // What is reset may be gone before the service has read it, so nothing says that the last one was seen but that no more
      // comes. A request for figures counts itself.
      let looks = 0;
      const seen = clients.filter((client) => 'leaves' in client && client.leaves !== 'reset').length;
      const before = left;
      await until(async () => {
        const open = await metric(service, IN_FLIGHT);
        const gone = await metric(service, LEFT);
        looks = gone === left && open === wanted + 1 ? looks + 1 : 0;
        left = gone;
        return left >= before + seen && looks >= 10;
      });
      // The process is stopped: what was left does not wait before it.
      await until(async () => (await metric(service, WAITING)) === wanted - running);
      await service.goOn();
      const answers = (await Promise.all(staying)).flat();
      assert.deepEqual(new Set(answers), new Set(['HTTP/1.1 200 OK']));
      assert.equal(answers.length, wanted);
      ran += answers.length;
      assert.equal(await metric(service, SUCCEEDED), ran);
      assert.equal(await metric(service, OTHERS), 0);
      assert.equal(await metric(service, LEFT), left);
    }
    assert.deepEqual(lines.slice(0, 3), []);
  });
}

test('F26: calls over gRPC that are cancelled, or whose deadline is over, are not run', async (t) => {
  quietLog(t);
  const service = await modelService(t);
  const call = connectGrpc(t, service.stack.grpcPort as number);
  const raw = new Uint8Array(4 * 3 * 8 * 8);
  const message = inferMessage('serving_stream', [
    { name: 'image', datatype: 'FP32', shape: [1, 3, 8, 8], raw },
  ]);
  await service.stop();
  const first = call('ModelInfer', message);
  const begun = async () => (await metric(service, /^cluster_serving_workers (\d+)$/gm)) > 0;
  await until(begun);
  const left = new AbortController();
  const cancelled = Array.from({ length: 100 }, () => call('ModelInfer', message, { signal: left.signal }));
  const late = Array.from({ length: 100 }, () => call('ModelInfer', message, { deadlineMs: 1_000 }));
  const ended = Promise.allSettled([...cancelled, ...late]);
  const staying = Array.from({ length: STAYING }, () => call('ModelInfer', message));
  await until(async () => (await metric(service, WAITING)) >= STAYING + 100);
  left.abort();
  assert.deepEqual(new Set((await ended).map(({ status }) => status)), new Set(['rejected']));
  await until(async () => (await metric(service, WAITING)) <= STAYING);
  await service.goOn();
  await Promise.all([first, ...staying]);
  assert.equal(await metric(service, SUCCEEDED), STAYING + 1);
});

test('F26: a thousand clients that wait for results leave every other request served, and end with their clients', async (t) => {
  quietLog(t);
  const stack = await testStack(t);
  const service = { stack };
  const inFlight = () => metric(service, IN_FLIGHT);
  const sockets = Array.from({ length: WAITS }, (_, i) => {
    const socket = socketTo(service);
    socket.write(`GET /predictions/none-${i} HTTP/1.1\r\nhost: localhost\r\nprefer: wait=20\r\n\r\n`);
    return socket;
  });
  t.after(() => sockets.map((socket) => socket.destroy()));
  await until(async () => (await inFlight()) > WAITS);
  const instances = [PICTURE];
  const post = (path: string) => {
    const body = JSON.stringify(path === '/predict' ? { instances } : { uri: 'a', instances });
    return fetch(`${stack.url}${path}`, { method: 'POST', body });
  };
  for (let i = 0; i < STAYING; i++) {
    assert.equal((await post('/predict')).status, 200);
    assert.equal((await post('/predictions')).status, 202);
  }
  for (const path of ['/', '/ready', '/metrics', '/status?uri=x'])
    assert.equal((await fetch(`${stack.url}${path}`)).status, 200, path);
  const found = await fetch(`${stack.url}/predictions?uri=a`, { headers: { prefer: 'wait=20' } });
  assert.equal(found.status, 200);
  for (const socket of sockets) socket.destroy();
  await until(async () => (await inFlight()) === 1);
});
