/** The loops of both languages obey the same rules: each worker is written in both. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, test } from 'node:test';
import type { FromWorker, RunResult } from '../../../lib/workers/messages.ts';
import { WITH_PYTHON } from '../../support/python.ts';
import { endWorkers, openMessage, type Source, sourceOf, WorkerChild } from './child.ts';

afterEach(endWorkers);

const ECHO: Source = { python: '', typescript: '' };

function outcomesOf(message: FromWorker): RunResult['outcomes'] {
  assert.ok(message.type === 'result' && 'outcomes' in message, JSON.stringify(message));
  return message.outcomes;
}

function failureOf(message: FromWorker) {
  assert.ok(message.type === 'result' && 'failed' in message, JSON.stringify(message));
  return message.failed;
}

for (const language of ['python', 'typescript'] as const) {
  const open = (source: Source, message: Parameters<typeof openMessage>[1] = {}) =>
    WorkerChild.open(language, sourceOf(language, source), message);

  describe(`a worker in ${language}`, language === 'python' ? WITH_PYTHON : {}, () => {
    test('says hello first, then ready, and answers a batch in its order', async () => {
      const child = await WorkerChild.start(language, sourceOf(language, ECHO));
      const hello = await child.receive();
      assert.ok(hello.type === 'hello');
      assert.deepEqual([hello.protocol, hello.language, hello.version], [1, language, '0.1.0']);
      assert.match(hello.runtime, /^\d+\.\d+\.\d+/);
      child.send(openMessage(child.folder));
      const imageAs = language === 'python' ? 'pil' : 'rgb';
      assert.deepEqual(await child.receive(), { type: 'ready', retryAlone: true, imageAs });
      const answer = await child.run([1, 'two', [3]], 77);
      assert.deepEqual(answer, {
        type: 'result',
        id: 77,
        outcomes: [{ value: 1 }, { value: 'two' }, { value: [3] }],
        statistics: {},
      });
      assert.equal(await child.retire(), 0);
    });

    test('gets a 5x5 float64 and gives it back bit by bit, NaN payloads included', async () => {
      const child = await open(ECHO);
      const data = Float64Array.from({ length: 25 }, (_, i) => i / 3);
      new BigUint64Array(data.buffer).set([0x7ff8_dead_beef_0001n, 0xfff0_0000_0000_0001n, 1n << 63n], 5);
      const tensor = { dtype: 'float64', shape: [5, 5], data } as const;
      const [outcome] = outcomesOf(await child.run([tensor]));
      assert.ok(outcome && 'value' in outcome);
      const { dtype, shape, data: back } = outcome.value as typeof tensor;
      assert.deepEqual([dtype, shape], ['float64', [5, 5]]);
      assert.deepEqual(new Uint8Array(back.buffer, back.byteOffset, 200), new Uint8Array(data.buffer));
    });

    test('calls the methods in order, with what the one before returned', async () => {
      const child = await open(
        {
          python: `
def get_env(self, device_id, tmp_dir):
    self.calls = [["env", device_id, os.path.dirname(tmp_dir) == self.tmp_folder, os.path.isdir(tmp_dir)]]
    return "envs"
def get_preprocess(self, envs):
    self.calls.append(["pre", envs])
    return lambda batch: [item + 1 for item in batch]
def get_postprocess(self, envs):
    self.calls.append(["post", envs])
    return lambda batch: [item * 10 for item in batch]
def get_model(self, envs, model_dir, model_name, tmp_dir):
    self.calls.append(["model", envs, model_dir, model_name])
    self.calls.append([self.worker_id, self.device_id, self.transfer_proto, self.batch_size,
                       self.gpu_memory_fraction, self.model_name, self.verbose, self.log_name])
    return ["m"]
def predict(self, model, input):
    print(json.dumps(self.calls + [model]))
    return input`,
          typescript: `
  calls: unknown[] = [];
  async getEnv(deviceId: number, tmpDir: string) {
    const { dirname } = await import('node:path');
    const { existsSync } = await import('node:fs');
    this.calls = [['env', deviceId, dirname(tmpDir) === this.tmpFolder, existsSync(tmpDir)]];
    return 'envs';
  }
  async getPreprocess(envs: any) {
    this.calls.push(['pre', envs]);
    return async (batch: any) => batch.map((item: number) => item + 1);
  }
  async getPostprocess(envs: any) {
    this.calls.push(['post', envs]);
    return async (batch: any) => batch.map((item: number) => item * 10);
  }
  async getModel(envs: any, modelDir: string, modelName: string) {
    this.calls.push(['model', envs, modelDir, modelName]);
    this.calls.push([this.workerId, this.deviceId, this.transferProto, this.batchSize,
                     this.gpuMemoryFraction, this.modelName, this.verbose, this.logName]);
    return ['m'];
  }
  async predict(model: any, input: any) {
    console.log(JSON.stringify([...this.calls, model]));
    return input;
  }`.replaceAll('getModel(): any', ''),
        },
        { deviceId: 1 },
      );
      assert.deepEqual(outcomesOf(await child.run([1, 2])), [{ value: 20 }, { value: 30 }]);
      await child.retire();
      assert.deepEqual(JSON.parse(child.stdout), [
        ['env', 1, true, true],
        ['pre', 'envs'],
        ['post', 'envs'],
        ['model', 'envs', '/models', 'model.hdf5'],
        [3, 1, 'obj', 4, 0.5, 'model.hdf5', false, 'WKRServer'],
        ['m'],
      ]);
    });

    test('stacks the items of npy along a new first axis, and splits an array result', async () => {
      const child = await open(
        {
          python: 'def predict(self, model, input):\n    print(input.shape)\n    return input * 2',
          typescript: `
  predict(_model: unknown, input: any) {
    console.log('(' + input.shape.join(', ') + ')');
    return { ...input, data: input.data.map((x: number) => x * 2) };
  }`,
        },
        { transferProto: 'npy' },
      );
      const item = (...values: number[]) => ({
        dtype: 'float32',
        shape: [2],
        data: Float32Array.from(values),
      });
      const outcomes = outcomesOf(await child.run([item(1, 2), item(3, 4), item(5, 6)]));
      const expected = [item(2, 4), item(6, 8), item(10, 12)];
      assert.deepEqual(
        outcomes,
        expected.map((value) => ({ value })),
      );
      await child.retire();
      assert.equal(child.stdout, '(3, 2)\n');
    });

    test('fails the batch when predict raises, writes the traceback to stderr, and runs the next batch', async () => {
      const child = await open({
        python: `
def predict(self, model, input):
    if input[0] == "bad":
        raise KeyError("no such thing")
    return input`,
        typescript: `
  predict(_model: unknown, input: any) {
    if (input[0] === 'bad') throw new RangeError('no such thing');
    return input;
  }`,
      });
      const failed = failureOf(await child.run(['bad', 'good']));
      const [type, message] =
        language === 'python' ? ['KeyError', "'no such thing'"] : ['RangeError', 'no such thing'];
      assert.deepEqual(failed, { kind: 'raised', type, message });
      assert.deepEqual(outcomesOf(await child.run(['good'])), [{ value: 'good' }]);
      await child.retire();
      assert.match(child.stderr, language === 'python' ? /Traceback[\s\S]*server\.py/ : /server\.ts/);
    });

    test('names both lengths when there are fewer results than items, before and after postprocess', async () => {
      const predict: Source = {
        python: 'def predict(self, model, input):\n    return input[:-1]',
        typescript: 'predict(_model: unknown, input: any) { return input.slice(0, -1); }',
      };
      const postprocess: Source = {
        python: 'def get_postprocess(self, envs):\n    return lambda batch: batch[:-1]',
        typescript: 'getPostprocess() { return (batch: any) => batch.slice(0, -1); }',
      };
      for (const source of [predict, postprocess]) {
        const child = await open(source);
        const failed = failureOf(await child.run([1, 2, 3]));
        assert.deepEqual([failed.kind, failed.message], ['length', '2 results for 3 items']);
      }
    });

    test('postprocess never sees a result of the wrong length', async () => {
      const child = await open({
        python: `
def predict(self, model, input):
    return input * 2
def get_postprocess(self, envs):
    return lambda batch: print("seen") or batch[:2]`,
        typescript: `
  predict(_model: unknown, input: any) { return [...input, ...input]; }
  getPostprocess() { return (batch: any) => { console.log('seen'); return batch.slice(0, 2); }; }`,
      });
      assert.equal(failureOf(await child.run([1, 2])).message, '4 results for 2 items');
      await child.retire();
      assert.equal(child.stdout, '');
    });

    test('fails the batch for a result that is not a list, tuple or array', async () => {
      const child = await open({
        python: `
def predict(self, model, input):
    return {"dict": {1: 2}, "text": "ab", "scalar": np.array(2.0), "none": None}[input[0]]`,
        typescript: `
  predict(_model: unknown, input: any) {
    return { dict: {}, text: 'ab', none: null, scalar: { dtype: 'int8', shape: [], data: new Int8Array(1) } }[input[0] as string];
  }`,
      });
      for (const kind of ['dict', 'text', 'scalar', 'none'])
        assert.equal(failureOf(await child.run([kind])).kind, 'shape', kind);
    });

    test('an error in a slot, or a value that cannot be sent, fails that item alone', async () => {
      const child = await open({
        python: `
def predict(self, model, input):
    return [1, ValueError("bad item"), {"a b": [object()]}, np.array([object()]), 5]`,
        typescript: `
  predict() {
    return [1, new TypeError('bad item'), { 'a b': [new (class Thing {})()] }, () => 1, 5];
  }`,
      });
      const outcomes = outcomesOf(await child.run([0, 0, 0, 0, 0]));
      assert.deepEqual([outcomes[0], outcomes[4]], [{ value: 1 }, { value: 5 }]);
      const errors = outcomes.slice(1, 4).map((outcome) => ('error' in outcome ? outcome.error : undefined));
      assert.equal(errors[0]?.message, 'bad item');
      assert.match(errors[1]?.message ?? '', /^result\[2\]\['a b'\]\[0\]: a (object|Thing) cannot be sent$/);
      assert.match(errors[2]?.message ?? '', /^result\[3\]: /);
      assert.deepEqual([errors[1]?.type, errors[2]?.type], ['TypeError', 'TypeError']);
    });

    test('sends a batch of ten thousand errors, and items of a megabyte of JSON', async () => {
      const child = await open({
        python: `
def predict(self, model, input):
    return [ValueError("x" * 5000) for _ in input] if len(input) > 100 else input`,
        typescript: `
  predict(_model: unknown, input: any) {
    return input.length > 100 ? input.map(() => new Error('é'.repeat(5000))) : input;
  }`,
      });
      const outcomes = outcomesOf(await child.run(Array.from({ length: 10_000 }, (_, i) => i)));
      assert.equal(outcomes.length, 10_000);
      const first = outcomes[0];
      assert.ok(first && 'error' in first && Buffer.byteLength(first.error.message) > 3500);
      const texts = Array.from({ length: 4 }, (_, i) => [`${i}`.repeat(1_000_000), { i }]);
      assert.deepEqual(
        outcomesOf(await child.run(texts)),
        texts.map((value) => ({ value })),
      );
    });

    test('calls off_model once when it retires, removes its folder and exits with 0', async () => {
      const child = await open({
        python: `
def get_model(self, envs, model_dir, model_name, tmp_dir):
    return tmp_dir
def off_model(self, model):
    import os
    print("off", os.path.exists(model), model)`,
        typescript: `
  getModel(_envs: any, _dir: any, _name: any, tmpDir: any): any { return tmpDir; }
  async offModel(model: any) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    console.log('off', (await import('node:fs')).existsSync(model), model);
  }`,
      });
      assert.equal(await child.retire(), 0);
      const found = /^off true (.*)\n$/i.exec(child.stdout);
      assert.ok(found, child.stdout);
      assert.equal(existsSync(found[1] as string), false);
    });

    test('an error of off_model does not keep it from retiring', async () => {
      const child = await open({
        python: 'def off_model(self, model):\n    raise ValueError("stuck")',
        typescript: "async offModel() { throw new Error('stuck'); }",
      });
      assert.equal(await child.retire(), 0);
      assert.match(child.stderr, /stuck/);
    });

    test('records one sample for each name and batch, and only warns of other values than numbers', async () => {
      const child = await open({
        python: `
def predict(self, model, input):
    self.record_statistic({"batchsize": len(input), "time": np.float32(0.5), "text": "x"})
    self.record_statistic({"batchsize": 7, "nan": float("nan")})
    return input`,
        typescript: `
  predict(_model: unknown, input: any) {
    this.recordStatistic({ batchsize: input.length, time: 0.5, text: 'x' as any });
    this.recordStatistic({ batchsize: 7, nan: NaN });
    return input;
  }`,
      });
      for (let id = 1; id < 3; id++) {
        const answer = await child.run([1, 2], id);
        assert.ok(answer.type === 'result');
        assert.deepEqual(answer.statistics, { batchsize: [2, 7], time: [0.5] });
      }
      await child.retire();
      assert.match(child.stdout, /WARNING.*text is not a number/);
      assert.match(child.stdout, /WARNING.*nan is not a number/);
    });

    test('its logger writes errors to stderr and the rest to stdout, debug only when it is verbose', async () => {
      for (const verbose of [false, true]) {
        const child = await open(
          {
            python: `
def predict(self, model, input):
    for logger in (self.new_logger(), self.new_logger()):
        pass
    logger.debug("a debug"); logger.info("an info"); logger.warning("a warning"); logger.error("an error")
    return input`,
            typescript: `
  predict(_model: unknown, input: any) {
    const logger = this.newLogger();
    logger.debug('a debug'); logger.info('an info'); logger.warning('a warning'); logger.error('an error');
    return input;
  }`,
          },
          { verbose },
        );
        await child.run([1]);
        await child.retire();
        const lines = (text: string) =>
          text
            .trim()
            .split('\n')
            .map((line) => line.replace(/^\S+ \S+ /, ''));
        assert.deepEqual(lines(child.stdout), [
          ...(verbose ? ['DEBUG WKRServer worker 3: a debug'] : []),
          'INFO WKRServer worker 3: an info',
          'WARNING WKRServer worker 3: a warning',
        ]);
        assert.deepEqual(lines(child.stderr), ['ERROR WKRServer worker 3: an error']);
      }
    });

    for (const [phase, source] of [
      [
        'get_env',
        {
          python: 'def get_env(self, device_id, tmp_dir):\n    raise OSError("no env")',
          typescript: "getEnv(): any { throw new Error('no env'); }",
        },
      ],
      [
        'get_preprocess',
        {
          python: 'def get_preprocess(self, envs):\n    return 5',
          typescript: 'getPreprocess(): any { return 5; }',
        },
      ],
      [
        'get_postprocess',
        {
          python: 'def get_postprocess(self, envs):\n    raise OSError()',
          typescript: "async getPostprocess(): Promise<any> { throw new Error(''); }",
        },
      ],
      [
        'get_model',
        {
          python: 'def get_model(self, *args):\n    sys.exit(0)',
          typescript: "getModel(): any { throw new Error('x'); }",
        },
      ],
      [
        'load',
        { python: 'raise OSError("no class")', typescript: "static { throw new Error('no class'); }" },
      ],
    ] as const) {
      test(`fails in the phase ${phase} with a traceback, and exits with 1`, async () => {
        const child = await open(source);
        const { answer } = child;
        assert.ok(answer.type === 'failed', JSON.stringify(answer));
        assert.equal(answer.phase, phase);
        assert.match(answer.error.traceback, language === 'python' ? /Traceback/ : /\n\s+at /);
        assert.equal(await child.ended, 1);
        const folder = join(child.folder, 'tmp');
        assert.deepEqual(existsSync(folder) ? readdirSync(folder) : [], []);
      });
    }

    test('bounds the text of an error and keeps the end of a long traceback', async () => {
      const child = await open({
        python: 'def get_env(self, device_id, tmp_dir):\n    raise OSError("ä" * 1_000_000)',
        typescript: "getEnv(): any { throw new Error('ä'.repeat(1_000_000)); }",
      });
      assert.ok(child.answer.type === 'failed');
      assert.ok(Buffer.byteLength(child.answer.error.message) <= 4096);
      assert.ok(Buffer.byteLength(child.answer.error.traceback) <= 65_536);
      assert.ok(child.answer.error.message.startsWith('ää'));
    });

    test('refuses another protocol with the phase hello and exits with 3', async () => {
      const child = await open(ECHO, { protocol: 2 });
      assert.ok(child.answer.type === 'failed');
      assert.equal(child.answer.phase, 'hello');
      assert.match(child.answer.error.message, /protocol 1.*2/);
      assert.equal(await child.ended, 3);
    });

    test('refuses a worker that is there in both languages, and a name that is not a module and class', async () => {
      const files = {
        'server.py': sourceOf('python', ECHO),
        'server.ts': sourceOf('typescript', ECHO),
      };
      const both = await WorkerChild.open(language, files);
      assert.ok(both.answer.type === 'failed');
      assert.equal(both.answer.phase, 'load');
      assert.match(both.answer.error.message, /both .*server\.(py|ts) and .*server\.(py|ts) exist/);
      for (const worker of ['server', '../server.Worker', 'server.Nothing', 'missing.Worker', 'server.']) {
        const child = await open(ECHO, { worker });
        assert.ok(child.answer.type === 'failed', worker);
        assert.equal(child.answer.phase, 'load');
      }
    });

    test('takes a class that does not extend the base class', async () => {
      const source = {
        python: `class Worker:
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return self.worker_id
    def predict(self, model, input):
        self.record_statistic({"n": 1})
        self.new_logger().info("here")
        return [model for _ in input]
`,
        typescript: `export class Worker {
  getModel() { return (this as any).workerId; }
  predict(model: unknown, input: any) {
    (this as any).recordStatistic({ n: 1 });
    (this as any).newLogger().info('here');
    return input.map(() => model);
  }
}
`,
      }[language];
      const child = await WorkerChild.open(language, source);
      const answer = await child.run(['a']);
      assert.deepEqual(outcomesOf(answer), [{ value: 3 }]);
      assert.deepEqual(answer.type === 'result' && answer.statistics, { n: [1] });
      await child.retire();
      assert.match(child.stdout, /here/);
    });
  });
}
