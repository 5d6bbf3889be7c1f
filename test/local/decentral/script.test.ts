/** The production script: what it prints, its exit codes, and what it leaves behind. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isAlive } from '../../../local/machine/process.ts';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import { Service } from './service.ts';

const CLASS = `import time
from wkr_serving.client import WKRWorker
class Client(WKRWorker):
    def get_model(self, ip, port, port_out):
        pass
    def do_work(self, model, logger):
        time.sleep(0.05)
`;

test('a script with every flag starts, refuses a second start, replaces a stale pid', async (t) => {
  const service = await Service.in(t, { 'work.py': CLASS });
  const [port, httpPort] = [await freePort(), await freePort()];
  const flags = `-port ${port} -port_out 2 -http_port=${httpPort} -num_client 1 -log_dir "it's \\$HOME; \\\`id\\\`" -log_name w \
    -remote_servers [[a, 1, 2], ['b', 3, 4]] -python python3 -verbose -name all.flags-1`;
  const made = await service.sh(`wkr-decentral-make work.Client ${flags} > run.sh && sh -n run.sh`);
  assert.equal(made.code, 0, made.stderr);
  const run = async (verb: string) => {
    const { code, stdout } = await service.sh(`sh run.sh ${verb}`);
    return [code, stdout.replace(/\d+/g, 'N').trim()] as const;
  };
  service.after(() => run('stopf'));
  const name = 'all.flags-N';
  const pidOf = async () => Number(await service.text('all.flags-1.pid'));
  assert.deepEqual(await run('status'), [3, `${name} does not run`]);
  assert.deepEqual(await run('start'), [0, `${name} is ready (pid N)`]);
  const first = await pidOf();
  assert.match(await service.text('logs/std.log'), /^ready http/m);
  const day = new Date().toLocaleDateString('sv');
  assert.match(await service.text(`it's $HOME; \`id\`/w_${day}.log`), /ready on port/);
  assert.deepEqual(await run('start'), [1, `${name} already runs (pid N)`]);
  assert.deepEqual(await run('status'), [0, `${name} runs (pid N)`]);
  assert.deepEqual(await run('restart'), [0, `${name} has stopped\n${name} is ready (pid N)`]);
  const second = await pidOf();
  assert.equal(await isAlive({ pid: first }), false);
  const asked = await service.sh(`wkr-decentral-status -port ${port}`);
  const { clients } = JSON.parse(asked.stdout) as { clients: { pid: number }[] };
  assert.deepEqual(await run('stopf'), [0, `${name} has stopped`]);
  for (const pid of [second, ...clients.map((client) => client.pid)]) {
    await until(async () => !(await isAlive({ pid })), 5_000);
  }
  // A pid that another process has by now.
  const other = spawn('sleep', ['1000']);
  t.after(() => other.kill());
  await writeFile(join(service.folder, 'all.flags-1.pid'), `${other.pid}\n`);
  assert.deepEqual(await run('status'), [1, `${name} does not run; ${name}.pid is stale`]);
  assert.deepEqual(await run('start'), [0, `${name} is ready (pid N)`]);
  assert.notEqual(await pidOf(), other.pid);
  assert.deepEqual(await run('stop'), [0, `${name} has stopped`]);
  assert.equal(await service.text('all.flags-1.pid'), '');
  assert.deepEqual(await run('stop'), [0, `${name} does not run`]);
  assert.equal(await isAlive({ pid: other.pid ?? 0 }), true);
  assert.equal((await service.sh('sh run.sh')).code, 2);
});

test('a start that fails prints the end of the log and leaves nothing', async (t) => {
  const service = await Service.in(t, { 'work.py': 'raise RuntimeError("no licence")\n' });
  const make = `wkr-decentral-make work.Client -port ${await freePort()} -num_client 1 -remote_servers [[a, 1, 2]]`;
  assert.equal((await service.sh(`${make} -name broken > run.sh`)).code, 0);
  const { code, stdout } = await service.sh('sh run.sh start');
  assert.equal(code, 1);
  assert.match(stdout, /^broken did not start; the end of logs\/std\.log:\n[^]*RuntimeError: no licence/);
  assert.equal(await service.text('broken.pid'), '');
  const unnamed = await service.sh(make);
  assert.equal(unnamed.code, 2);
  assert.match(unnamed.stderr, /-name is missing/);
  assert.equal((await service.sh(`${make} -name '../x'`)).code, 2);
});
