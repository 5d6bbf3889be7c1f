/** A worker behind the service of a single machine: requests, the queue, and what happens when it fails. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Stack } from '../../../local/service/stack.ts';
import { InputQueue, OutputQueue, type Result } from '../../../sdk/index.ts';
import { SDK } from '../../lib/workers/child.ts';
import { PYTHON, WITH_PYTHON } from '../../support/python.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { clientOptions, testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

const PYTHON_WORKER = `
import ctypes, datetime, os, time
import numpy as np
from wkr_serving.server import WKRHardWorker

class Worker(WKRHardWorker):
    def get_env(self, device_id, tmp_dir):
        return self.new_logger()

    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return envs

    def predict(self, logger, items):
        return [self.one(item, len(items)) for item in items]

    def one(self, item, size):
        if item == "die": os.kill(os.getpid(), 9)
        if item == "raise": raise ValueError("no such item")
        if item == "endless":
            while True: ctypes.PyDLL(None).pause()  # holds the interpreter, and uses no processor
        if item == "short": return None
        if item == "print":
            libc = ctypes.CDLL(None)
            libc.printf(b"from C\\n")
            libc.fflush(None)
        if isinstance(item, str) and item.startswith("slow"): time.sleep(0.3)
        if item == "bytes": return b"\\x00\\xff"
        if item == "when": return datetime.datetime(2026, 1, 2, 3, 4, 5)
        if isinstance(item, np.ndarray): return item * 2
        if isinstance(item, dict) and "a" in item: return {"a": np.asarray(item["a"], "float64"), "b": np.ones((2,), "int64")}
        return {"item": item, "batch": size, "pid": os.getpid()}

    def off_model(self, model):
        model.info("off_model")
`;

const TYPESCRIPT_WORKER = `
import { WKRHardWorker } from './SDK';
export class Worker extends WKRHardWorker {
  getModel() { return undefined; }
  predict(_model, items) {
    return items.map((item) => {
      if (item === 'raise') throw new TypeError('no such item');
      if (item === 'die') process.kill(process.pid, 'SIGKILL');
      // Blocks the event loop, and uses no processor.
      if (item === 'endless') for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      if (item?.dtype) return { ...item, data: item.data.map((x) => 2 * x) };
      return { item, batch: items.length, pid: process.pid };
    });
  }
}
`.replace('./SDK', SDK);

const answerOf = (text: string): unknown => JSON.parse(text.slice('{value='.length, -1));

async function ask(stack: Stack, ...items: readonly unknown[]) {
  const response = await fetch(`${stack.url}/predict`, {
    method: 'POST',
    body: JSON.stringify({ instances: items.map((x) => ({ x })) }),
  });
  const body = (await response.json()) as { predictions?: string[]; code?: string; error?: string };
  return { status: response.status, ...body, values: (body.predictions ?? []).map(answerOf) };
}

async function openStack(t: Hooks, file: string, code: string, config = '') {
  const directory = await temporaryFolder(t, 'cs-worker-');
  await writeFile(join(directory, file), code);
  const worker = `worker:\n  class: server.Worker\n  python: ${PYTHON}\n  logDir: logs\n  predictTimeout: 3000\n`;
  const stack = await testStack(t, { config: `batchSize: 4\n${worker}${config}`, directory });
  const log = async (extension: string) => {
    const date = new Date().toISOString().slice(0, 10);
    return readFile(join(directory, 'logs', `WKRServer_${date}.${extension}`), 'utf8');
  };
  return { stack, directory, log };
}

const WORKERS = {
  python: { file: 'server.py', code: PYTHON_WORKER, options: WITH_PYTHON },
  typescript: { file: 'server.ts', code: TYPESCRIPT_WORKER, options: { skip: false as const } },
} as const;

for (const [language, { file, code, options }] of Object.entries(WORKERS)) {
  describe(`a worker in ${language}`, options, () => {
    const cleanups: (() => Promise<void>)[] = [];
    let scene: Awaited<ReturnType<typeof openStack>>;
    before(async () => {
      scene = await openStack({ after: (cleanup) => cleanups.unshift(cleanup) }, file, code);
    });
    after(async () => {
      for (const cleanup of cleanups) await cleanup();
    });

    test('answers a request, each instance with what predict returned for it', async () => {
      const { status, values } = await ask(scene.stack, 'one', 2, [3, 4], { five: 6 }, null);
      assert.equal(status, 200);
      const items = (values as { item: unknown }[]).map(({ item }) => item);
      assert.deepEqual(items, ['one', 2, [3, 4], { five: 6 }, null]);
    });

    test('items that wait share a batch, up to its size', async () => {
      const { values } = await ask(scene.stack, 'a', 'b', 'c', 'd', 'e');
      const sizes = (values as { batch: number }[]).map(({ batch }) => batch);
      assert.deepEqual(sizes, [4, 4, 4, 4, 1]);
    });

    test('one item of several that raises fails alone', async () => {
      const answers = await Promise.all(['a', 'raise', 'b', 'c'].map((item) => ask(scene.stack, item)));
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 422, 200, 200],
      );
      assert.deepEqual(
        [answers[1]?.code, answers[1]?.error?.endsWith('no such item')],
        ['model_failed', true],
      );
      const together = await ask(scene.stack, 'a', 'raise');
      assert.match(together.error ?? '', /instance 1|instances\[1\]/);
    });

    test('a process that dies, or does not end, fails its item alone, and the next item finds another one', async () => {
      const [{ pid }] = (await ask(scene.stack, 'x')).values as [{ pid: number }];
      for (const [item, why] of [
        ['die', /SIGKILL/],
        ['endless', /predict did not end within 3000 ms/],
      ] as const) {
        const answers = await Promise.all([item, 'neighbor'].map((one) => ask(scene.stack, one)));
        assert.deepEqual([answers[0]?.status, answers[1]?.status], [422, 200], JSON.stringify(answers));
        assert.match(answers[0]?.error ?? '', why);
      }
      const [next] = (await ask(scene.stack, 'y')).values as [{ pid: number }];
      assert.notEqual(next.pid, pid);
    });

    test('serves the queue too, and a tensor comes back as a tensor', async (t) => {
      const { input, output } = clientOptions(scene.stack);
      const [send, read] = [new InputQueue(input), new OutputQueue(output)];
      t.after(() => Promise.all([send.close(), read.close()]));
      await send.enqueue('tensor', {
        x: [
          [1.5, 2],
          [3, -4],
        ],
      });
      const result = await read.wait('tensor', { timeoutMs: 20_000 });
      assert.deepEqual(result.outputs[0]?.shape, [2, 2]);
      assert.deepEqual([...(result.outputs[0]?.data as Float32Array)], [3, 4, 6, -8]);
      assert.equal(result.model, 'server.Worker');
    });

    test('a record of the queue that fails has its error, and the others have their results', async (t) => {
      const { input, output } = clientOptions(scene.stack);
      const [send, read] = [new InputQueue(input), new OutputQueue(output)];
      t.after(() => Promise.all([send.close(), read.close()]));
      const uris = ['good-1', 'bad', 'good-2'];
      const send1 = (uri: string) =>
        fetch(`${scene.stack.url}/predictions`, {
          method: 'POST',
          body: JSON.stringify({ uri, instances: [{ x: uri === 'bad' ? 'die' : uri }] }),
        });
      for (const uri of uris) assert.equal((await send1(uri)).status, 202);
      const outcomes = await Promise.all(
        uris.map((uri) =>
          read.wait(uri, { timeoutMs: 20_000 }).then(
            ({ value }: Result) => (value as { item: unknown }).item,
            (error: { code: string }) => error.code,
          ),
        ),
      );
      assert.deepEqual(outcomes, ['good-1', 'model_failed', 'good-2']);
    });

    test('is ready, and says so by the name of its class', async () => {
      // A test before may have ended its process.
      await until(async () => (await fetch(`${scene.stack.url}/ready`)).status === 200);
      const answer = await fetch(`${scene.stack.url}/ready`);
      assert.partialDeepStrictEqual(await answer.json(), { ready: true, model: 'server.Worker' });
    });
  });
}

describe('a worker in Python', WITH_PYTHON, () => {
  const cleanups: (() => Promise<void>)[] = [];
  let scene: Awaited<ReturnType<typeof openStack>>;
  before(async () => {
    const hooks: Hooks = { after: (cleanup) => cleanups.unshift(cleanup) };
    scene = await openStack(hooks, 'server.py', PYTHON_WORKER);
  });
  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  test('a short result fails its batch and not the next one', async () => {
    const short = PYTHON_WORKER.replace(
      'return [self.one(item, len(items)) for item in items]',
      'return items[1:]',
    );
    const hooks: (() => Promise<void>)[] = [];
    const { stack } = await openStack({ after: (hook) => hooks.unshift(hook) }, 'server.py', short);
    const answer = await ask(stack, 'a', 'b', 'c');
    assert.deepEqual([answer.status, answer.code], [422, 'model_failed']);
    assert.match(answer.error ?? '', /2.*3|3.*2/);
    assert.equal((await ask(stack, 'a')).status, 422);
    for (const hook of hooks) await hook();
  });

  test('what C writes to its output is in the log, and a traceback in the other file alone', async () => {
    assert.equal((await ask(scene.stack, 'print')).status, 200);
    await ask(scene.stack, 'raise');
    await until(async () => /from C/.test(await scene.log('log')));
    await until(async () => /ValueError: no such item/.test(await scene.log('err')));
    assert.doesNotMatch(await scene.log('log'), /Traceback/);
  });

  test('bytes and dates read the same in a request, in a stored result, and over HTTPS', async (t) => {
    const { input, output } = clientOptions(scene.stack);
    const [send, read] = [new InputQueue(input), new OutputQueue(output)];
    t.after(() => Promise.all([send.close(), read.close()]));
    const expected = {
      bytes: ['AP8=', Uint8Array.of(0, 255)],
      when: ['2026-01-02T03:04:05', new Date('2026-01-02T03:04:05Z')],
    } as const;
    for (const [item, [text, value]] of Object.entries(expected)) {
      assert.deepEqual((await ask(scene.stack, item)).values, [text]);
      await fetch(`${scene.stack.url}/predictions`, {
        method: 'POST',
        body: JSON.stringify({ uri: item, instances: [{ x: item }] }),
      });
      const stored = await read.wait(item, { timeoutMs: 20_000 });
      assert.deepEqual(
        stored.value instanceof Date ? stored.value : new Uint8Array(stored.value as Uint8Array),
        value,
      );
      const overHttp = await fetch(`${scene.stack.url}/predictions/${item}`);
      assert.equal(((await overHttp.json()) as { value: unknown }).value, text);
    }
  });

  test('a dict of arrays has outputs by name, bit by bit, on every path', async (t) => {
    const { output } = clientOptions(scene.stack);
    const read = new OutputQueue(output);
    t.after(() => read.close());
    const body = { uri: 'dict', instances: [{ x: { a: [0.1, 1e300] } }] };
    const predicted = await ask(scene.stack, { a: [0.1, 1e300] });
    assert.deepEqual(predicted.values, [
      [
        { data: [0.1, 1e300], shape: [2] },
        { data: [1, 1], shape: [2] },
      ],
    ]);
    await fetch(`${scene.stack.url}/predictions`, { method: 'POST', body: JSON.stringify(body) });
    const { outputs } = await read.wait('dict', { timeoutMs: 20_000 });
    assert.deepEqual(
      outputs.map(({ name, dtype }) => [name, dtype]),
      [
        ['a', 'float64'],
        ['b', 'int64'],
      ],
    );
    assert.deepEqual([...(outputs[0]?.data as Float64Array)], [0.1, 1e300]);
  });

  test('/ready is answered with 200 while a run does not end', async () => {
    const { url } = scene.stack;
    const isReady = async () => (await fetch(`${url}/ready`)).status === 200;
    // A test before may have ended the process.
    await until(isReady);
    const run = { isOver: false };
    const endless = ask(scene.stack, 'endless').finally(() => (run.isOver = true));
    const answers: boolean[] = [];
    while (!run.isOver) {
      answers.push(await isReady());
      await setTimeout(50);
    }
    await endless;
    // The run is ended with its process, and the last answers may be of the time after.
    const during = answers.slice(0, -2);
    assert.ok(during.length > 0 && during.every(Boolean), String(answers));
  });
});

test(
  'closing answers the item in flight, calls off_model once in each process, and leaves none',
  WITH_PYTHON,
  async () => {
    const cleanups: (() => Promise<void>)[] = [];
    const hooks: Hooks = { after: (cleanup) => cleanups.unshift(cleanup) };
    const { stack, log } = await openStack(hooks, 'server.py', PYTHON_WORKER, '  numWorker: 2\n');
    const [{ pid }] = (await ask(stack, 'x')).values as [{ pid: number }];
    const slow = ask(stack, 'slow');
    // It is in the process when nothing else has been answered since.
    await until(async () => (await ask(stack, 'y')).status === 200);
    await stack.close();
    assert.equal((await slow).status, 200);
    assert.deepEqual((await log('log')).match(/off_model/g), ['off_model', 'off_model']);
    assert.throws(() => process.kill(pid, 0), /ESRCH/);
    for (const cleanup of cleanups) await cleanup();
  },
);

test('a worker of arrays gets them stacked, those of one shape together', WITH_PYTHON, async (t) => {
  const code = `
from wkr_serving.server import WKRHardWorker
class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir): return None
    def predict(self, model, batch): return [{"batch": list(batch.shape), "dtype": str(batch.dtype)} for _ in batch]
`;
  const { stack } = await openStack(t, 'server.py', code, '  protocol: npy\n');
  const { values } = await ask(stack, [1, 2], [6, 7], [3, 4, 5]);
  assert.deepEqual(values, [
    { batch: [2, 2], dtype: 'float32' },
    { batch: [2, 2], dtype: 'float32' },
    { batch: [1, 3], dtype: 'float32' },
  ]);
  const refused = await ask(stack, 'no array');
  assert.deepEqual([refused.status, refused.code], [400, 'bad_input']);
});

for (const [what, file, code, expected] of [
  ['no file of its name', 'other.py', '', /there is no .*server\.py and no .*server\.ts/],
  [
    'an error while it loads',
    'server.py',
    'raise RuntimeError("bad weights")',
    /bad weights[\s\S]*Traceback/,
  ],
] as const) {
  test(`a worker with ${what} does not start, and the error says why`, WITH_PYTHON, async (t) => {
    await assert.rejects(openStack(t, file, code), expected);
  });
}
