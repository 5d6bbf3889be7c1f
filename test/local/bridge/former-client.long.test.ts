/**
 * The genuine clients of Analytics Zoo 0.11 and BigDL 2 write and read, unchanged, across a bridge that is killed again and
 * again. FORMER_CLIENT_PYTHON names a Python that has them:
 * `python -m venv v && v/bin/pip install redis pyarrow httpx pyyaml opencv-python-headless`, then
 * `v/bin/pip install --no-deps analytics-zoo-serving==0.11.2 bigdl-serving==2.4.0`.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { openSqs } from '../../../lib/queue/sender.ts';
import { OutputQueue } from '../../../sdk/index.ts';
import { MIGRATED, migratedProgram } from '../../python/python.ts';
import { childEnvironment, useAws } from '../../support/environment.ts';
import { count } from '../../support/faults/events.ts';
import { modelFolder } from '../../support/faults/model.ts';
import { onnxModel } from '../../support/onnx.ts';
import { redisUrl } from '../../support/redis.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { SAMPLE, testStack } from '../../support/stack.ts';
import { ROOT, startReady } from '../../support/start.ts';
import { until } from '../../support/until.ts';

const PYTHON = process.env['FORMER_CLIENT_PYTHON'] ?? 'python3';
const run = promisify(execFile);
const RECORDS = 3_000;
const KILLS = 10;

/** Each third of the records is read with another call; every hundredth fails. */
const PROGRAM = `
import contextlib, importlib, json, sys, time
import numpy as np
module, role, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = importlib.import_module(module)
assert "cluster_serving" not in sys.modules, "this is no genuine client"
with contextlib.redirect_stdout(sys.stderr):
    queue = (client.InputQueue if role == "write" else client.OutputQueue)(host="localhost", port=port)
    expected = {f"r{i}": "NaN" if i % 100 == 99 else [2 * i + 1, 2 * i + 0.5] for i in range(count)}
    if role == "write":
        for i in range(count):
            queue.enqueue(f"r{i}", x=np.array([i] * 3 if i % 100 == 99 else [i, i - 0.25]))
        sys.exit()
    plain = lambda found: found if isinstance(found, str) else found.tolist()
    taken = {}
    for i in range(count):
        uri = f"r{i}"
        if i % 3 < 2:
            while isinstance(found := queue.query(uri), str) and found == "[]":
                time.sleep(0.02)
            again = queue.query_and_delete(uri) if i % 3 else queue.query(uri)
            assert plain(again) == plain(found), uri
            assert not i % 3 or queue.query(uri) == "[]", uri
            if i % 3: taken[uri] = plain(found)
    while len(taken) < count:
        for uri, found in queue.dequeue().items():
            assert uri not in taken, uri
            taken[uri] = plain(found)
        time.sleep(0.02)
print(json.dumps({uri: [taken[uri], value] for uri, value in expected.items() if taken[uri] != value}))
`;

/** `x` times 2 plus 1, for pairs of numbers. */
const model = () =>
  onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 2] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 2] }],
    nodes: [
      { op: 'Mul', inputs: ['x', 'two'], outputs: ['double'] },
      { op: 'Add', inputs: ['double', 'one'], outputs: ['y'] },
    ],
    weights: [
      { name: 'two', dtype: 'float32', shape: [1], data: Float32Array.of(2) },
      { name: 'one', dtype: 'float32', shape: [1], data: Float32Array.of(1) },
    ],
  });

/** For the options of a test. */
function withGenuine(module: string) {
  const isGenuine = `import ${module}, sys; sys.exit("cluster_serving" in sys.modules)`;
  const hasClient = spawnSync(PYTHON, ['-c', isGenuine], { env: childEnvironment() }).status === 0;
  return { skip: hasClient ? false : `${PYTHON} has no genuine ${module}: set FORMER_CLIENT_PYTHON` };
}

for (const module of ['zoo.serving.client', 'bigdl.serving.client']) {
  test(`${module} writes and reads across ${KILLS} kills of the bridge`, withGenuine(module), async (t) => {
    const folder = await temporaryFolder(t, 'cs-former-');
    await modelFolder(folder, model());
    await writeFile(join(folder, 'config.yaml'), 'modelPath: model\n');
    const { addresses } = await startReady(
      t,
      '-c',
      join(folder, 'config.yaml'),
      '--data-dir',
      join(folder, 'data'),
    );
    const source = new Redis(await redisUrl(t));
    const results = new Redis(addresses.redisUrl);
    for (const redis of [source, results]) {
      redis.on('error', () => undefined);
      t.after(() => redis.disconnect());
    }
    const port = (redis: Redis) => String(redis.options.port);
    const python = (role: string, redis: Redis) =>
      run(PYTHON, ['-c', PROGRAM, module, role, port(redis), String(RECORDS)]);

    const startBridge = () => {
      const url = `redis://127.0.0.1:${port(source)}`;
      const args = ['bridge', '--redis', url, '--queue-url', addresses.queueUrl, '--claim-seconds', '1'];
      const child = spawn(process.execPath, [join(ROOT, 'cli/bin/cluster-serving.mjs'), ...args], {
        env: childEnvironment(addresses.environment),
        stdio: 'ignore',
      });
      t.after(() => child.kill('SIGKILL'));
      return child;
    };
    const read = async () => {
      if ((await source.exists('serving_stream')) === 0) return '';
      return JSON.stringify(
        await source.xinfo('CONSUMERS', 'serving_stream', 'cluster-serving').catch(() => ''),
      );
    };

    const writing = python('write', source);
    const reading = python('read', results);
    let bridge: ChildProcess | undefined;
    let unfinished = 0;
    for (let i = 0; i < KILLS; i++) {
      const before = await read();
      bridge = startBridge();
      // It has read something, and may have sent some of it.
      await until(async () => (await read()) !== before);
      bridge.kill('SIGKILL');
      await once(bridge, 'exit');
      const [pending] = (await source.xpending('serving_stream', 'cluster-serving')) as [number];
      if (pending > 0) unfinished++;
    }
    t.diagnostic(`${unfinished} of ${KILLS} kills left records that were read and not removed`);
    await writing;
    bridge = startBridge();
    const { stdout } = await reading;
    assert.deepEqual(JSON.parse(stdout), {});

    // Whatever was sent twice has one outcome: nothing comes after all of them were taken.
    await until(async () => (await source.xlen('serving_stream')) === 0);
    useAws(addresses.environment);
    const sqs = openSqs({ endpoint: new URL(addresses.queueUrl).origin, region: 'us-east-1' });
    await until(async () => (await count({ sqs, queueUrl: addresses.queueUrl })) === 0);
    sqs.destroy();
    const output = new OutputQueue({ url: addresses.redisUrl });
    t.after(() => output.close());
    assert.equal((await output.dequeue()).size, 0);
    assert.equal(await source.llen('serving_stream:dead'), 0);
    bridge.kill('SIGTERM');
    assert.deepEqual(await once(bridge, 'exit'), [0, null]);
  });
}

test(
  'the program of the migration page runs as it was before its two lines changed',
  withGenuine('zoo.serving.client'),
  async (t) => {
    const { redisUrl: url } = await testStack(t);
    const where = `host="localhost", port=${new URL(url).port}`;
    const program = await migratedProgram(where, join(SAMPLE, 'images/digit-3.png'));
    const { stdout } = await run(PYTHON, ['-c', program]);
    // The genuine client prints, too.
    const lines = stdout.split('\n').filter((line) => /^the class |has the shape/.test(line));
    assert.equal(`${lines.join('\n')}\n`, MIGRATED);
  },
);
