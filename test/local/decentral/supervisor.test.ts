/** Clients that a supervisor keeps: their messages, and what its commands start and stop, with a program in place of Python. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeFrame } from '../../../lib/codecs/values/frame.ts';
import { type After, type ClientMessage, ClientProcess } from '../../../local/decentral/process.ts';
import type { RemoteServer } from '../../../local/decentral/servers.ts';
import { Supervisor } from '../../../local/decentral/supervisor.ts';
import { temporaryFolder } from '../../support/runner.ts';

const HELLO = { type: 'hello', protocol: 1 };
const READY = [HELLO, { type: 'loaded' }, { type: 'ready' }];
const quiet = { write: () => undefined };
const frames = (headers: readonly object[], blocks: readonly Uint8Array[] = []) =>
  Buffer.concat(headers.flatMap((header) => encodeFrame(header as Record<string, unknown>, blocks)));

/** What stands for Python: it writes these bytes to its pipe and runs the rest of the script. */
async function program(
  t: TestContext,
  bytes: Uint8Array,
  rest = '',
): Promise<{ python: string; folder: string }> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'bytes'), bytes);
  const python = join(folder, 'python');
  await writeFile(python, `#!/bin/sh\ncat bytes >&4\n${rest}\n`, { mode: 0o755 });
  return { python, folder };
}

async function run(t: TestContext, bytes: Uint8Array, rest?: string) {
  const { python, folder } = await program(t, bytes, rest);
  const opening = {
    worker: 'a.B',
    directory: folder,
    ip: 'a',
    port: 1,
    portOut: 2,
    logName: 'l',
    verbose: false,
  };
  const messages: ClientMessage[] = [];
  // What ends does so by itself.
  let isLate = false;
  const late: After = (_, act) => {
    const timer = setTimeout(() => {
      isLate = true;
      act();
    }, 10_000).unref();
    return () => clearTimeout(timer);
  };
  const how = await new Promise<string>((ended) => {
    void new ClientProcess(python, opening, { message: (one) => messages.push(one), ended }, quiet, late);
  });
  assert.equal(isLate, false);
  return { how, messages };
}

test('a process has ended when its last message is read, and how', async (t) => {
  const progress = { type: 'progress', done: 2, failed: 1, lastError: 'e' };
  const error = { type: 'T', message: 'm', traceback: 'tb' };
  const failed = { type: 'failed', phase: 'load', text: 'T: m', traceback: 'tb' };
  const all = [...READY, progress, { type: 'failed', phase: 'load', error }, { type: 'retired' }];
  assert.deepEqual(await run(t, frames(all), 'exit 3'), {
    how: 'exit code 3',
    messages: [
      { type: 'hello' },
      { type: 'loaded' },
      { type: 'ready' },
      progress,
      failed,
      { type: 'retired' },
    ],
  });
  assert.equal((await run(t, Buffer.of(), 'kill -9 $$')).how, 'SIGKILL');
});

test('what is no message of a client ends its process', async (t) => {
  for (const [bytes, problem] of [
    [frames([HELLO], [Buffer.of(1)]), 'it has blocks'],
    [frames([{ type: 'hello', protocol: 2 }]), 'it speaks protocol 2, not 1'],
    [frames([{ type: 'run' }]), 'unknown type'],
    [frames([{ type: 'progress', done: -1, failed: 0, lastError: '' }]), 'done is no whole number >= 0'],
    [frames([{ type: 'progress', done: 0, failed: 0.5, lastError: '' }]), 'failed is no whole number >= 0'],
    [frames([{ type: 'progress', done: 0, failed: 0 }]), 'lastError is no text'],
    [frames([{ type: 'failed', phase: 'load' }]), 'type is no text'],
    [frames([{ type: 'failed', error: { type: '', message: '', traceback: '' } }]), 'phase is no text'],
  ] as const) {
    const { how, messages } = await run(t, bytes, 'exec sleep 5');
    assert.deepEqual([how, messages], [`malformed message of a client: ${problem}`, []]);
  }
});

test('a program that is not there has ended too', async (t) => {
  const folder = await temporaryFolder(t);
  const opening = {
    worker: 'a.B',
    directory: folder,
    ip: 'a',
    port: 1,
    portOut: 2,
    logName: 'l',
    verbose: false,
  };
  const how = await new Promise<string>((ended) => {
    const events = { message: () => undefined, ended };
    void new ClientProcess(join(folder, 'none'), opening, events, quiet, () => () => {});
  });
  assert.match(how, /^it cannot be started: .*ENOENT/);
});

const [A, B]: readonly RemoteServer[] = [
  ['a', 1, 2],
  ['b', 1, 2],
];
/** Ends when it reads that it is retired. */
const UNTIL_RETIRED = `exec '${process.execPath}' -e "
require('node:net').Socket({ fd: 3 }).on('data', (bytes) => bytes.includes('retire') && process.exit(0))"`;

async function supervise(t: TestContext, numClient: number, servers: readonly RemoteServer[]) {
  const { python, folder } = await program(t, frames(READY), UNTIL_RETIRED);
  const settings = {
    worker: 'a.B',
    directory: folder,
    python,
    logName: 'l',
    verbose: false,
    portOut: 2,
    numClient,
    servers,
  };
  const supervisor = new Supervisor(settings, quiet, () => undefined);
  t.after(() => supervisor.close());
  await supervisor.start();
  const signal = new AbortController().signal;
  const use = (count: number, of: readonly RemoteServer[]) => supervisor.switch(count, of, signal);
  await use(numClient, servers);
  const clients = () =>
    supervisor
      .status()
      .clients.map(({ server, state }) => `${server[0]} ${state}`)
      .toSorted();
  const pids = (of: RemoteServer) =>
    supervisor.status().clients.flatMap(({ server, pid }) => (server[0] === of[0] ? [pid] : []));
  return { supervisor, use, clients, pids, signal };
}

test('a switch keeps as many clients of each server as are wanted, ends the others and starts what is missing', async (t) => {
  const { supervisor, use, clients, pids } = await supervise(t, 2, [A as RemoteServer]);
  assert.deepEqual(clients(), ['a running', 'a running']);
  const [first] = pids(A as RemoteServer);
  await use(1, [A, B] as RemoteServer[]);
  assert.deepEqual(clients(), ['a running', 'b running']);
  assert.deepEqual(pids(A as RemoteServer), [first]);
  assert.deepEqual(supervisor.totals(), { clients: 2, running: 2, restarts: 0, done: 0, failed: 0 });
  const { number_client_per_server: count, remote_servers: servers, port_out } = supervisor.status();
  assert.deepEqual([count, servers, port_out], [1, [A, B], 2]);
  // One that is listed twice.
  await use(1, [B, B] as RemoteServer[]);
  assert.deepEqual(clients(), ['b running', 'b running']);
});

test('a restart replaces every client before it is over, and a closed supervisor starts none', async (t) => {
  const { supervisor, use, clients, pids, signal } = await supervise(t, 1, [A as RemoteServer]);
  const before = pids(A as RemoteServer);
  await supervisor.restart(signal);
  assert.deepEqual(clients(), ['a running']);
  assert.notDeepEqual(pids(A as RemoteServer), before);
  await supervisor.idle();
  assert.deepEqual(clients(), []);
  await use(1, [A as RemoteServer]);
  assert.deepEqual(clients(), ['a running']);
  const late = assert.rejects(supervisor.restart(signal), { code: 'cancelled', message: /another command/ });
  await Promise.all([late, supervisor.close()]);
  await use(1, [A as RemoteServer]);
  assert.deepEqual(clients(), []);
});
