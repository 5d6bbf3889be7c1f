/** The guide's decentralize file and its command lines, unchanged but for what they leave blank. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isAlive } from '../../../local/machine/process.ts';
import { freePort } from '../../support/free-port.ts';
import { redisUrl } from '../../support/redis.ts';
import { until } from '../../support/until.ts';
import { Service } from './service.ts';

const FIXTURES = fileURLToPath(new URL('../../../../shared/fixtures/wkr', import.meta.url));
const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
const GUIDE = {
  skip: existsSync(FIXTURES)
    ? !hasRedis && 'needs redis-server'
    : 'needs the listings of the guide (../shared/fixtures/wkr)',
};

/** What the guide never defines: `request`, PUSH_API, and a server for WKRClient to call. */
const STUBS = {
  'requests.py': '',
  'request.py': `import json, types, urllib.request
def post(url, json=None):
    body = __import__("json").dumps(json).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, method="POST")) as answer:
        return types.SimpleNamespace(status_code=answer.status)
`,
  'stub.py': `import os, wkr_serving.client
class Client:
    def __init__(self, ip, port, port_out, ignore_all_checks):
        self.server = [ip, port, port_out]
    def encode(self, input):
        return {"input": input, "server": self.server}
    def close(self):
        with open("closed", "a") as file:
            file.write("%d\\n" % os.getpid())
wkr_serving.client.WKRClient = Client
`,
};

async function fileFor(redis: string, pushApi: string): Promise<string> {
  const text = await readFile(join(FIXTURES, 'decentralize.py'), 'utf8');
  const { hostname, port } = new URL(redis);
  const filled = text.replace("'10.40.34.14'", `'${hostname}'`).replace('12345', port);
  return `import request, stub\nPUSH_API = "${pushApi}"\n${filled}`;
}

/** Listing `number` of commands.sh, with other ports, two clients for each server, and logs in the folder. */
async function listing(number: number, port: number, httpPort: number): Promise<string> {
  const text = await readFile(join(FIXTURES, 'commands.sh'), 'utf8');
  const [, lines = ''] = new RegExp(`# listing ${number} of the guide\n(.*?)(\n\n|$)`, 's').exec(text) ?? [];
  return lines
    .replace('21324', String(port))
    .replace('8900', String(httpPort))
    .replace('-num_client 24', '-num_client 2')
    .replace('/tmp/log_dir', 'log_dir');
}

/** Counts what is posted to it. */
async function startPushApi(t: TestContext): Promise<{ url: string; bodies: unknown[] }> {
  const bodies: unknown[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      bodies.push(JSON.parse(body));
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies };
}

test(
  'two servers with two clients each post all of 100 items, and close their models once',
  GUIDE,
  async (t) => {
    const [redis, api] = await Promise.all([redisUrl(t), startPushApi(t)]);
    const service = await Service.in(t, { ...STUBS, 'decentralize.py': await fileFor(redis, api.url) });
    const [port, httpPort] = [await freePort(), await freePort()];
    const supervised = await service.start(await listing(8, port, httpPort));
    const { clients } = await supervised.until((status) =>
      status.clients.every(({ state }) => state === 'running'),
    );
    const pids = clients.map(({ pid }) => pid);
    assert.equal(new Set(pids).size, 4);
    assert.deepEqual(
      clients.map(({ server }) => server),
      [1, 1, 2, 2].map((which) => [which === 1 ? '10.40.34.16' : '10.40.34.14', 8068, 8069]),
    );
    const { hostname, port: redisPort } = new URL(redis);
    const push = `from wkr_serving.client.helper import RedisHandler
queue = RedisHandler("EXAMPLE_QUEUE", "${hostname}", ${redisPort})
for i in range(100): queue.push({"item": i})`;
    assert.equal((await service.sh(`python3 -c '${push}'`)).code, 0);
    await until(() => api.bodies.length === 100);
    const items = (api.bodies as { input: { item: number } }[]).map(({ input }) => input.item);
    assert.deepEqual(
      items.toSorted((a, b) => a - b),
      Array.from({ length: 100 }, (_, i) => i),
    );
    const page = await (await fetch(`http://127.0.0.1:${httpPort}/stat`)).text();
    assert.match(page, /<td>Running<\/td><td>4<\/td>/);
    assert.deepEqual(await supervised.ask('terminate'), { success: true });
    assert.equal(await supervised.ended(), 0);
    const closed = (await service.text('closed')).trim().split('\n').map(Number);
    assert.equal(closed.length, 4);
    assert.deepEqual(new Set(closed), new Set(pids));
    assert.equal(api.bodies.length, 100);
    const day = new Date().toLocaleDateString('sv');
    assert.match(
      await service.text(`log_dir/WKRClient_${day}.log`),
      /INFO .*: DONE job with input: {'item': 42}/,
    );
  },
);

test('the printed script starts and stops it', GUIDE, async (t) => {
  const redis = await redisUrl(t);
  const service = await Service.in(t, { ...STUBS, 'decentralize.py': await fileFor(redis, 'http://unused') });
  const port = await freePort();
  // The guide's line before -name lacks its backslash.
  const line = (await listing(9, port, await freePort())).replace('log_dir\n-name', 'log_dir \\\n-name');
  const made = await service.sh(line);
  assert.equal(made.code, 0, made.stderr);
  const started = await service.sh('sh run_script.sh start');
  service.after(() => service.sh('sh run_script.sh stopf'));
  assert.equal(started.code, 0, started.stdout);
  const pid = Number(await service.text('YOUR_DECENTRALIZE_SERVICE_NAME.pid'));
  assert.ok(await isAlive({ pid }));
  assert.equal((await service.sh('sh run_script.sh stop')).code, 0);
  assert.ok(!(await isAlive({ pid })));
  assert.equal((await service.text('closed')).trim().split('\n').length, 4);
});
