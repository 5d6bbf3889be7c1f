/** The guide's worker, its client and its command lines, unchanged but for what they leave blank. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isAlive } from '../../../local/machine/process.ts';
import { freePort } from '../../support/free-port.ts';
import { WITH_PYTHON } from '../../support/python.ts';
import { until } from '../../support/until.ts';
import { Service } from '../decentral/service.ts';

const FIXTURES = fileURLToPath(new URL('../../../../shared/fixtures/wkr', import.meta.url));
const GUIDE = existsSync(FIXTURES)
  ? WITH_PYTHON
  : { skip: 'needs the listings of the guide (../shared/fixtures/wkr)' };

const WORKER = `import os, time
from wkr_serving.server import WKRHardWorker
class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return [os.path.basename(model_dir), model_name, self.batch_size, self.transfer_proto]
    def predict(self, model, items):
        time.sleep(max(item if isinstance(item, float) else 0 for item in items))
        return [{"item": item, "model": model, "pid": os.getpid()} for item in items]
    def off_model(self, model):
        with open("off", "a") as file: file.write("off\\n")
`;

/** What the guide never defines: the model and the result; here twice the input. */
async function guideFiles(): Promise<Readonly<Record<string, string>>> {
  const server = await readFile(join(FIXTURES, 'server.py'), 'utf8');
  const filled = server
    .replace('        return model, logger', '        model = 2\n        return model, logger')
    .replace(
      '        return result',
      '        result = [item * 2 + 0.1 for item in input]\n        return result',
    );
  return { 'server.py': filled, 'tensorflow.py': '' };
}

/** Listing `number` of commands.sh with other ports and the logs in the folder. */
async function listing(number: number, port: number, httpPort: number): Promise<string> {
  const text = await readFile(join(FIXTURES, 'commands.sh'), 'utf8');
  const [, lines = ''] = new RegExp(`# listing ${number} of the guide\n(.*?)(\n\n|$)`, 's').exec(text) ?? [];
  return lines
    .replace('8996', String(port))
    .replace('8900', String(httpPort))
    .replace('/path/to/model', '.')
    .replace('/tmp/log_dir', 'log_dir');
}

test("the guide's worker serves its client, and terminate ends it", GUIDE, async (t) => {
  const service = await Service.in(t, await guideFiles());
  const [port, httpPort] = [await freePort(), await freePort()];
  const supervised = await service.start(await listing(3, port, httpPort));
  const client = (await readFile(join(FIXTURES, 'client.py'), 'utf8')).replace('8996', String(port));
  const check = `${client}
    assert output.dtype == np.float64 and output.shape == (5, 5), output
    assert output.tobytes() == (np.zeros((5, 5)) * 2 + 0.1).tobytes()
`;
  await writeFile(join(service.folder, 'client.py'), check);
  const asked = await service.sh('python3 client.py');
  assert.equal(asked.code, 0, asked.stderr);
  const day = new Date().toLocaleDateString('sv');
  const log = await service.text(`log_dir/WKRServer_${day}.log`);
  assert.equal(log.match(/Begin load model/g)?.length, 2);
  const status = await (await fetch(`http://127.0.0.1:${httpPort}/status/server`)).json();
  const { num_worker: workers, statistic_postsink: finished } = status as {
    num_worker: number;
    statistic_postsink: { others: Record<string, { avg: number }> };
  };
  assert.equal(workers, 2);
  for (const key of ['preprocess', 'predict', 'batchsize']) assert.ok(finished.others[key], key);
  assert.equal((await fetch(`http://127.0.0.1:${httpPort}/stat`)).status, 200);
  const done = await service.sh(`wkr-serving-terminate -ip localhost -port ${port} -timeout 20000`);
  assert.equal(done.code, 0, done.stderr);
  assert.equal(await supervised.ended(), 0);
});

test("the guide's production script starts and stops it", GUIDE, async (t) => {
  const service = await Service.in(t, await guideFiles());
  const port = await freePort();
  const made = await service.sh(await listing(4, port, await freePort()));
  assert.equal(made.code, 0, made.stderr);
  const started = await service.sh('sh run_script.sh start');
  t.after(() => service.sh('sh run_script.sh stopf'));
  assert.equal(started.code, 0, started.stdout);
  const pid = Number(await service.text('YOUR_PRODUCTION_SERVICE_NAME.pid'));
  assert.ok(await isAlive({ pid }));
  assert.equal((await service.sh('sh run_script.sh start')).code, 1);
  assert.equal((await service.sh('sh run_script.sh stop')).code, 0);
  // A process that is ending has no command line any more, by which the script knows it.
  await until(async () => !(await isAlive({ pid })));
});

test('flags reach the worker, and terminate waits for the item in flight', WITH_PYTHON, async (t) => {
  const service = await Service.in(t, { 'server.py': WORKER });
  const flags =
    '-model_dir models -model_name m.bin -batch_size 3 -protocol obj -name flags -verbose -cpu -memory_mb 4000';
  const supervised = await service.start(`wkr-serving-start server.Worker -port 0 ${flags}`);
  const { port } = supervised;
  const encode = async (item: unknown) => {
    const response = await fetch(`http://127.0.0.1:${port}/encode_json`, {
      method: 'POST',
      body: JSON.stringify(item),
    });
    return (await response.json()) as {
      error_code: number;
      data: { item: unknown; model: unknown; pid: number };
    };
  };
  const { data } = await encode('a');
  assert.deepEqual(data.model, ['models', 'm.bin', 3, 'obj']);
  const status = (await (await fetch(`http://127.0.0.1:${port}/status/server`)).json()) as Record<
    string,
    unknown
  >;
  assert.deepEqual([status['memory_mb'], status['batch_size']], [4000, 3]);
  const slow = encode(1.5);
  await until(async () =>
    /"total_job_in_queue":1/.test(await (await fetch(`http://127.0.0.1:${port}/status/server`)).text()),
  );
  const done = await service.sh(`wkr-serving-terminate -port ${port} -timeout 20000`);
  assert.equal(done.code, 0, done.stderr);
  assert.equal((await slow).data.item, 1.5);
  assert.equal(await supervised.ended(), 0);
  assert.equal(await service.text('off'), 'off\n');
  await until(async () => !(await isAlive({ pid: data.pid })));
});

test('-watch replaces the processes when the code changes', WITH_PYTHON, async (t) => {
  const service = await Service.in(t, { 'server.py': WORKER });
  const supervised = await service.start('wkr-serving-start server.Worker -port 0 -watch');
  const answer = async () => {
    const url = `http://127.0.0.1:${supervised.port}/encode_json`;
    return (await (await fetch(url, { method: 'POST', body: '7' })).json()) as { data: { item: unknown } };
  };
  assert.equal((await answer()).data.item, 7);
  const changed = WORKER.replace('"item": item', '"item": item + 1');
  await writeFile(join(service.folder, '.server.py'), changed);
  await rename(join(service.folder, '.server.py'), join(service.folder, 'server.py'));
  await until(async () => (await answer()).data.item === 8);
  await until(() => /^wkr: version server\.Worker-[0-9a-f]{8} serves$/m.test(supervised.output));
  const done = await service.sh(`wkr-serving-terminate -port ${supervised.port} -timeout 20000`);
  assert.equal(done.code, 0, done.stderr);
  assert.equal(await supervised.ended(), 0);
  await until(async () => (await service.text('off')) === 'off\noff\n');
});

test('SIGTERM answers the item in flight, calls off_model once and exits with 0', WITH_PYTHON, async (t) => {
  const service = await Service.in(t, { 'server.py': WORKER });
  const supervised = await service.start('wkr-serving-start server.Worker -port 0');
  const url = `http://127.0.0.1:${supervised.port}`;
  const slow = fetch(`${url}/encode_json`, { method: 'POST', body: '1.5' });
  await until(async () => /"total_job_in_queue":1/.test(await (await fetch(`${url}/status/server`)).text()));
  supervised.child.kill('SIGTERM');
  const { data } = (await (await slow).json()) as { data: { item: unknown } };
  assert.equal(data.item, 1.5);
  assert.equal(await supervised.ended(), 0);
  assert.equal(await service.text('off'), 'off\n');
});

test('WKRServer starts the command from a program, with the flags of its parser', WITH_PYTHON, async (t) => {
  const port = await freePort();
  const main = `import time, urllib.request
from wkr_serving.server import WKRServer
from wkr_serving.server.helper import get_args_parser
from server import Worker
if __name__ == "__main__":
    args = get_args_parser().parse_args(["-port", "${port}", "-num_worker", "1", "-device_map", "-1"])
    with WKRServer(args, hardprocesser=Worker) as server:
        for _ in range(300):
            try:
                request = urllib.request.Request("http://127.0.0.1:${port}/encode_json", b"7")
                print(urllib.request.urlopen(request).read().decode())
                break
            except OSError:
                time.sleep(0.1)
    print("exit", server.join())
`;
  const service = await Service.in(t, { 'server.py': WORKER, 'main.py': main });
  const { code, stdout, stderr } = await service.sh('python3 main.py');
  assert.equal(code, 0, stderr);
  assert.match(stdout, /"error_code":0.*"item":7/);
  assert.match(stdout, /^exit 0$/m);
  assert.equal(await service.text('off'), 'off\n');
});

test('a service that is killed leaves no worker, also within predict', WITH_PYTHON, async (t) => {
  const service = await Service.in(t, { 'server.py': WORKER });
  const supervised = await service.start('wkr-serving-start server.Worker -port 0');
  const url = `http://127.0.0.1:${supervised.port}/encode_json`;
  const answer = await fetch(url, { method: 'POST', body: '1' });
  const { data } = (await answer.json()) as { data: { pid: number } };
  const lost = fetch(url, { method: 'POST', body: '60.5' }).catch(() => 'lost');
  await until(async () =>
    /"total_job_in_queue":1/.test(await (await fetch(url.replace('encode_json', 'status/server'))).text()),
  );
  await supervised.end();
  assert.equal(await lost, 'lost');
  await until(async () => !(await isAlive({ pid: data.pid })), 10_000);
});

for (const [line, expected] of [
  ['wkr-serving-start server.Worker -port 0 -host 0.0.0.0', /-token_file .*-no_token/],
  [`wkr-serving-start server.Worker -port 0 -cors '*'`, /-token_file .*-no_token/],
  ['wkr-serving-start server.Worker', /-port is missing/],
  ['wkr-serving-start server -port 0', /expected one module and class/],
  ['wkr-serving-start server.Worker -port 0 -num_workers 2', /did you mean -num_worker\?/],
  ['wkr-serving-start server.Worker -port 0 -device_map 7', /no GPU 7/],
  ['wkr-serving-start other.Worker -port 0', /there is no .*other\.py/],
  ['wkr-serving-make server.Worker -port 0', /-name is missing/],
] as const) {
  test(`${line} is refused`, async (t) => {
    const service = await Service.in(t, { 'server.py': WORKER });
    const { code, stderr } = await service.sh(line);
    assert.equal(code, 2);
    assert.match(stderr, expected);
  });
}

/** Of this machine, other than the usual one. */
const ADDRESSES = Object.values(networkInterfaces())
  .flatMap((all = []) => all)
  .filter(({ address }) => address !== '127.0.0.1' && !address.startsWith('fe80:'))
  .map(({ address }) => address);

test('terminate finds a service that is bound to one address', WITH_PYTHON, async (t) => {
  const service = await Service.in(t, { 'server.py': WORKER });
  for (const [i, host] of ['127.0.0.2', '0.0.0.0', '::', ...ADDRESSES].entries()) {
    const supervised = await service.start(`wkr-serving-start server.Worker -port 0 -host ${host} -no_token`);
    const { port } = supervised;
    const ip = i % 2 === 0 ? '' : `-ip ${host}`;
    const done = await service.sh(`wkr-serving-terminate -port ${port} -timeout 20000 ${ip}`);
    assert.equal(done.code, 0, `${host} ${ip}: ${done.stderr}`);
    assert.equal(await supervised.ended(), 0);
  }
});

test('of two services on one port terminate ends the one that is meant', WITH_PYTHON, async (t) => {
  const service = await Service.in(t, { 'server.py': WORKER });
  const port = await freePort();
  const start = (host: string) =>
    service.start(`wkr-serving-start server.Worker -port ${port} -host ${host} -name s${host}`);
  const [first, second] = [await start('127.0.0.2'), await start('127.0.0.3')];
  const unclear = await service.sh(`wkr-serving-terminate -port ${port}`);
  assert.equal(unclear.code, 2, unclear.stderr);
  assert.match(unclear.stderr, /services listen on port \d+ of 127\.0\.0\.\d, 127\.0\.0\.\d; -ip says which/);
  const none = await service.sh(`wkr-serving-terminate -port ${port} -ip 127.0.0.4`);
  assert.deepEqual([none.code, /nothing listens on port \d+ of 127\.0\.0\.4/.test(none.stderr)], [3, true]);
  const done = await service.sh(`wkr-serving-terminate -port ${port} -ip 127.0.0.3 -timeout 20000`);
  assert.equal(done.code, 0, done.stderr);
  assert.equal(await second.ended(), 0);
  assert.equal(first.code, undefined);
  // One that was killed leaves its token, which does not count.
  await first.end();
  const third = await start('127.0.0.5');
  const last = await service.sh(`wkr-serving-terminate -port ${port} -timeout 20000`);
  assert.equal(last.code, 0, last.stderr);
  assert.equal(await third.ended(), 0);
});

test(
  'terminate without the token of the port is refused, and without a service says so',
  WITH_PYTHON,
  async (t) => {
    const service = await Service.in(t, { 'server.py': WORKER });
    const supervised = await service.start('wkr-serving-start server.Worker -port 0');
    const foreign = await service.sh(
      `WKR_CONTROL_DIR=elsewhere wkr-serving-terminate -port ${supervised.port}`,
    );
    assert.notEqual(foreign.code, 0);
    assert.match(foreign.stderr, /needs its token.* WKR_CONTROL_DIR/);
    assert.doesNotMatch(foreign.stderr, / --?[a-z]/);
    const none = await service.sh(`wkr-serving-terminate -port ${await freePort()}`);
    assert.equal(none.code, 3);
    assert.match(none.stderr, /nothing listens/);
  },
);
