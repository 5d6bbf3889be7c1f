/** What clients can do to each other and to their supervisor, and what the commands say of it. */
import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { restartDelayMs } from '../../../local/decentral/client.ts';
import { isAlive } from '../../../local/machine/process.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import { Service, type Status } from './service.ts';

const CLASS = `import os, time
from wkr_serving.client import WKRWorker

class Client(WKRWorker):
    def get_model(self, ip, port, port_out):
        if ip == "refuses":
            raise ConnectionError("refused by %s" % port)
        return ip

    def do_work(self, model, logger):
        logger.debug("called")
        if model == "fails":
            raise ValueError("no answer")
        if model == "hangs":
            open("hanging", "w").close()
            time.sleep(1000)
        if model == "garbage":
            # What it said before has been read.
            while not os.path.exists("go"):
                time.sleep(0.02)
            # One of the pipes, under the number that it was moved to.
            for number in range(200, 210):
                try:
                    os.write(number, b"\\x7f" * 8)
                except OSError:
                    pass
        time.sleep(0.05)

    def off_model(self, model):
        with open("closed", "a") as file:
            file.write("%d\\n" % os.getpid())
        if model == "raises":
            raise RuntimeError("cannot be closed")
`;
const FILES = { 'work.py': CLASS };

const line = (servers: string, flags = '') =>
  `wkr-decentral-start work.Client -port 0 -num_client 1 -remote_servers ${servers} ${flags}`;

const ascending = (a: number, b: number) => a - b;

const closed = async (service: Service) =>
  (await service.text('closed')).trim().split('\n').map(Number).toSorted(ascending);

test('a restart waits 0.1 s, and twice as long each time, up to 30 s', () => {
  assert.deepEqual(
    [1, 2, 3, 8, 9, 10, 2000].map(restartDelayMs),
    [100, 200, 400, 12_800, 25_600, 30_000, 30_000],
  );
});

test('the pauses after calls that fail grow from 0.03 s to 5 s', async (t) => {
  const service = await Service.in(t, {});
  const code =
    'from wkr_serving._protocol.decentral_loop import pause_s; print([pause_s(n) for n in (1, 2, 8, 9, 10**6)])';
  assert.equal((await service.sh(`python3 -c '${code}'`)).stdout, '[0.03, 0.06, 3.84, 5.0, 5.0]\n');
});

test('a client that is killed returns, and its counts stay', async (t) => {
  const supervised = await (await Service.in(t, FILES)).start(line('[[a, 1, 2], [b, 1, 2]]'));
  const before = await supervised.until(({ clients }) => clients.every(({ done }) => done > 0));
  const [first, second] = before.clients;
  assert.ok(first && second);
  process.kill(first.pid, 'SIGKILL');
  const after = await supervised.until(
    ({ clients }) => clients[0]?.restarts === 1 && clients[0].state === 'running',
  );
  assert.notEqual(after.clients[0]?.pid, first.pid);
  assert.ok((after.clients[0]?.done ?? 0) >= first.done);
  assert.equal(after.clients[0]?.last_error, 'the process ended: SIGKILL');
  assert.deepEqual([after.clients[1]?.pid, after.clients[1]?.restarts], [second.pid, 0]);
});

test('a get_model that raises blocks no other client, and what do_work raises is counted and logged', async (t) => {
  const service = await Service.in(t, FILES);
  const flags = '-log_dir logs -log_name work -verbose';
  const supervised = await service.start(line('[[refuses, 7, 8], [good, 1, 2], [fails, 1, 2]]', flags));
  const { clients } = await supervised.until(
    ({ clients: [refused, good, failing] }) =>
      (refused?.restarts ?? 0) > 1 && (good?.done ?? 0) > 1 && (failing?.failed ?? 0) > 1,
  );
  assert.equal(clients[0]?.last_error, 'get_model: ConnectionError: refused by 7');
  assert.equal(clients[1]?.last_error, '');
  assert.equal(clients[2]?.last_error, 'ValueError: no answer');
  assert.deepEqual([clients[2]?.restarts, clients[2]?.done], [0, 0]);
  await supervised.ask('terminate');
  const day = new Date().toLocaleDateString('sv');
  const [log, err] = [await service.text(`logs/work_${day}.log`), await service.text(`logs/work_${day}.err`)];
  assert.match(log, /DEBUG work good:1 #2: called/);
  assert.match(
    log,
    /client refuses:7 #1: get_model: ConnectionError: refused by 7; it starts again in 0\.1 s/,
  );
  assert.match(
    err,
    /ERROR work fails:1 #3: do_work failed\n.* ERROR work fails:1 #3: Traceback[^]* #3: ValueError: no answer/,
  );
  for (const written of err.trimEnd().split('\n'))
    assert.match(written, /^\S+ \S+,\d{3} ERROR work \w+:\d #\d: /);
  assert.doesNotMatch(log, /Traceback/);
});

test('a client that breaks the protocol is replaced', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(line('[[garbage, 1, 2], [a, 1, 2]]'));
  await supervised.until((status) => status.clients.every(({ state }) => state === 'running'));
  await writeFile(join(service.folder, 'go'), '');
  const { clients } = await supervised.until((status) => (status.clients[0]?.restarts ?? 0) > 0);
  assert.match(
    clients[0]?.last_error ?? '',
    /malformed frame: a header of 2139062143 bytes is over the limit/,
  );
  assert.equal(clients[1]?.restarts, 0);
});

test('status names what was asked for, switch changes it and keeps clients of servers that stay', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(`${line('\'[["a", 1, 2], ["b", 3, 4]]\'')} -port_out 21326`);
  await supervised.until(({ clients }) => clients.every(({ state }) => state === 'running'));
  const { clients, ...rest } = (await supervised.ask('status')) as Status;
  assert.deepEqual(rest, {
    port: supervised.port,
    port_out: 21_326,
    number_client_per_server: 1,
    remote_servers: [
      ['a', 1, 2],
      ['b', 3, 4],
    ],
  });
  assert.deepEqual(await supervised.ask('switch', '-num_client 2 -remote_servers [[b, 3, 4], [c, 5, 6]]'), {
    success: true,
  });
  const after = await supervised.status();
  const states = after.clients.map(({ server: [ip], state }) => `${ip} ${state}`).toSorted();
  assert.deepEqual(states, ['b running', 'b running', 'c running', 'c running']);
  assert.ok(after.clients.some(({ pid }) => pid === clients[1]?.pid));
  assert.deepEqual(await closed(service), [clients[0]?.pid]);
  assert.deepEqual(await supervised.ask('switch'), { success: true });
  assert.deepEqual(
    (await supervised.status()).clients.map(({ pid }) => pid),
    after.clients.map(({ pid }) => pid),
  );
});

test('a switch that is refused changes nothing', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(line('[[a, 1, 2]]'));
  for (const [flags, problem] of [
    ['-remote_servers [[a, 1]]', /server 1 is malformed/],
    ['-remote_servers [[a, 1, 99999]]', /99999 is no port/],
    ['-num_client 1001', /from 0 to 1000, got "1001"/],
  ] as const) {
    const refused = await service.sh(`wkr-decentral-switch -port ${supervised.port} ${flags}`);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, problem);
  }
  for (const body of ['{"num_client": 2, "remote_servers": "[[a]]"}', '{"num_client": 1.5}', '[]', '{']) {
    assert.equal((await supervised.post('switch', {}, body)).status, 400);
  }
  assert.equal((await supervised.post('switch', {}, ' '.repeat(200_000))).status, 413);
  const { clients, number_client_per_server: count } = await supervised.status();
  assert.deepEqual([clients.length, count], [1, 1]);
});

test('idle stops all clients, restart makes new ones, terminate ends the supervisor', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(line('[[a, 1, 2], [raises, 1, 2]]'));
  const first = (await supervised.until(({ clients }) => clients.every(({ state }) => state === 'running')))
    .clients;
  assert.deepEqual(await supervised.ask('restart'), { success: true });
  const second = (await supervised.status()).clients;
  assert.deepEqual(
    second.map(({ state, restarts }) => [state, restarts]),
    [
      ['running', 0],
      ['running', 0],
    ],
  );
  assert.deepEqual(await supervised.ask('idle'), { success: true });
  assert.deepEqual((await supervised.status()).clients, []);
  assert.deepEqual(await supervised.ask('switch'), { success: true });
  const third = (await supervised.status()).clients;
  assert.deepEqual(await supervised.ask('terminate'), { success: true });
  assert.equal(await supervised.ended(), 0);
  assert.deepEqual(
    await closed(service),
    [...first, ...second, ...third].map(({ pid }) => pid).toSorted(ascending),
  );
  const gone = await service.sh(`wkr-decentral-status -port ${supervised.port}`);
  assert.equal(gone.code, 3);
  assert.match(gone.stderr, /nothing listens on port/);
});

test('of commands that overlap the last one holds, and each caller gets its own answer', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(line('[[a, 1, 2], [b, 1, 2]]'));
  await supervised.until((status) => status.clients.every(({ state }) => state === 'running'));
  const bodies = ['{"num_client": 3}', '{}', '{"num_client": 2}'];
  const verbs = ['switch', 'restart', 'switch'];
  const answers = await Promise.all(verbs.map((verb, i) => supervised.post(verb, {}, bodies[i])));
  const codes = answers.map(({ status }) => status);
  assert.ok(codes.includes(200));
  assert.deepEqual(
    codes.filter((code) => code !== 200 && code !== 409),
    [],
  );
  const { clients, number_client_per_server: count } = await supervised.until((status) =>
    status.clients.every(({ state }) => state === 'running'),
  );
  assert.equal(clients.length, count * 2);
});

test('TERM stops it as well; a call that does not end is killed', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(line('[[a, 1, 2], [hangs, 1, 2]]'));
  const { clients } = await supervised.until((status) =>
    status.clients.every(({ state }) => state === 'running'),
  );
  await until(async () => (await stat(`${service.folder}/hanging`).catch(() => undefined)) !== undefined);
  supervised.child.kill('SIGTERM');
  assert.equal(await supervised.ended(), 0);
  for (const { pid } of clients) assert.equal(await isAlive({ pid }), false);
  assert.deepEqual(await closed(service), [clients[0]?.pid]);
});

test('no client outlives a supervisor that is killed', async (t) => {
  const supervised = await (await Service.in(t, FILES)).start(line('[[a, 1, 2], [hangs, 1, 2]]'));
  const { clients } = await supervised.until((status) =>
    status.clients.every(({ state }) => state === 'running'),
  );
  supervised.child.kill('SIGKILL');
  await supervised.ended();
  for (const { pid } of clients) await until(async () => !(await isAlive({ pid })), 5_000);
});

test('a class that cannot be loaded ends the start with its traceback', async (t) => {
  const service = await Service.in(t, { ...FILES, 'broken.py': 'import absent_module\n' });
  const start = (flags: string) =>
    service.sh(`wkr-decentral-start ${flags} -port 0 -num_client 1 -remote_servers [[a, 1, 2]]`);
  const broken = await start('broken.Client');
  assert.equal(broken.code, 1);
  assert.match(
    broken.stderr,
    /error: broken\.Client cannot be loaded: ModuleNotFoundError: .*'absent_module'\nTraceback/,
  );
  const python = await start('work.Client -python no-such-python');
  assert.equal(python.code, 1);
  assert.match(python.stderr, /the process ended: it cannot be started: spawn no-such-python ENOENT/);
  assert.equal((await service.sh('wkr-decentral-start work.Client -port 0')).code, 2);
});

test('the port of another service is refused', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(line('[[a, 1, 2]]'));
  const second = await service.sh(line('[[a, 1, 2]]').replace('-port 0', `-port ${supervised.port}`));
  assert.equal(second.code, 2);
  assert.match(second.stderr, /is in use by/);
  assert.equal((await supervised.post('status')).status, 200);
});

test('-timeout ends status on a silent port', async (t) => {
  const service = await Service.in(t, {});
  const server = createServer(() => undefined).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await until(() => server.listening);
  const { port } = server.address() as { port: number };
  const silent = await service.sh(`wkr-decentral-status -port ${port} -timeout=300`);
  assert.equal(silent.code, 1);
  assert.match(silent.stderr, /no answer of port \d+ within 300 ms/);
});

test('the control channel needs its token, its own Host and no foreign Origin', async (t) => {
  const service = await Service.in(t, FILES);
  const supervised = await service.start(line('[[a, 1, 2]]'));
  const path = `control/${supervised.port}.token`;
  const { mode } = await stat(`${service.folder}/${path}`);
  assert.equal(mode & 0o777, 0o600);
  const headers = { authorization: `Bearer ${await service.text(path)}` };
  const statusOf = (verb: string, given: Readonly<Record<string, string>>, method = 'POST') =>
    new Promise<number | undefined>((resolve, reject) => {
      const options = { port: supervised.port, path: `/control/${verb}`, method, headers: given };
      request(options, (response) => resolve(response.resume().statusCode))
        .once('error', reject)
        .end();
    });
  assert.equal(await statusOf('terminate', {}), 401);
  assert.equal(await statusOf('terminate', { authorization: `Bearer ${'0'.repeat(64)}` }), 401);
  assert.equal(await statusOf('terminate', { ...headers, host: 'example.com' }), 403);
  assert.equal(await statusOf('terminate', { ...headers, origin: 'http://example.com' }), 403);
  assert.equal(await statusOf('terminate', headers, 'GET'), 404);
  assert.equal(await statusOf('constructor', headers), 404);
  assert.equal(await statusOf('status', headers), 200);
  await supervised.ask('terminate');
  await supervised.ended();
  assert.equal(await service.text(path), '');
});

test('a program starts and stops it by its own class', async (t) => {
  const main = `import sys
from wkr_serving.client import WKRDecentralizeCentral
from work import Client as Base

class Client(Base):
    pass

if __name__ == "__main__":
    flags = {"port": int(sys.argv[1]), "num_client": 1, "remote_servers": [["a", 1, 2]], "verbose": True, "log_dir": None}
    with WKRDecentralizeCentral(Client, flags):
        sys.stdin.readline()
`;
  const service = await Service.in(t, { ...FILES, 'main.py': main });
  const port = await freePort();
  const supervised = await service.start(`python3 main.py ${port}`);
  const { clients } = await supervised.until((status) => status.clients.every(({ done }) => done > 0));
  supervised.child.stdin?.end();
  assert.equal(await supervised.ended(), 0);
  assert.deepEqual(
    await closed(service),
    clients.map(({ pid }) => pid),
  );
});
