/** What a worker's process writes gets a time, a level and the worker, on a single machine and in a function. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, type TestContext, test } from 'node:test';
import { logWith } from '../../../lib/contract/log.ts';
import { EVENT_LOG, FileLog, logLines, type ServiceLog } from '../../../lib/workers/log.ts';
import { WorkerProcess, WorkerStartError } from '../../../lib/workers/process.ts';
import { stamp } from '../../../lib/workers/stamp.ts';
import { PYTHON, WITH_PYTHON } from '../../support/python.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import { COMMANDS, ENVIRONMENT, FILES, type Language, openMessage, sourceOf } from './child.ts';

const FROM = { name: 'WKRServer worker 3', worker: 3, pid: 42 };
const NOW = new Date(2026, 2, 8, 9, 5, 0, 42);
const STAMPED = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ WKRServer worker \d+: /;

const stamped = (text: string) => Buffer.from(stamp(Buffer.from(text), FROM, NOW)).toString();

/** Lines without their time and worker. */
const plain = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => {
      assert.match(line, STAMPED);
      return line.replace(/^\S+ \S+ /, '').replace('WKRServer worker 3: ', '');
    });

test('each line of a traceback gets time, level and worker, in order', () => {
  const traceback = 'Traceback (most recent call last):\n  File "server.py", line 2\n\nValueError: INFO: é\n';
  assert.equal(
    stamped(traceback),
    traceback.replaceAll(/^(?=.|\n)/gm, '2026-03-08 09:05:00,042 ERROR WKRServer worker 3: '),
  );
});

test('a line of the own logger stays as it is, and another log keeps its level', () => {
  const own = '2026-03-08 09:04:59,001 ERROR WKRServer worker 3: it failed\n';
  assert.equal(stamped(own), own);
  assert.deepEqual(
    plain(
      stamped(
        [
          'INFO:root:loaded',
          '  its second line',
          '[WARNING] slow',
          '2026-03-08 09:05:00,042 - lib - DEBUG - x',
          '2026-03-08 09:05:00,042 INFO WKRServer worker 4: of another',
          'server.py:3: UserWarning: old',
          "KeyError: 'INFO'",
          '',
        ].join('\n'),
      ),
    ),
    [
      'INFO INFO:root:loaded',
      'INFO   its second line',
      'WARNING [WARNING] slow',
      'DEBUG 2026-03-08 09:05:00,042 - lib - DEBUG - x',
      'INFO 2026-03-08 09:05:00,042 INFO WKRServer worker 4: of another',
      'WARNING server.py:3: UserWarning: old',
      "ERROR KeyError: 'INFO'",
    ],
  );
});

test('bytes that are not UTF-8 stay as they are', () => {
  const line = Buffer.from([0x61, 0xff, 0xc3, 0xa9, 0x0a]);
  assert.deepEqual(Buffer.from(stamp(line, FROM, NOW)).subarray(-line.length), line);
});

test('in a function each text is one event, with the ids of the invocation', async (t) => {
  const written: string[] = [];
  const write = process.stdout.write.bind(process.stdout);
  // The test runner writes there too.
  t.mock.method(process.stdout, 'write', (text: unknown) =>
    typeof text === 'string' && text.startsWith('{"level"') ? written.push(text) : write(text as Uint8Array),
  );
  const err = new PassThrough();
  const out = new PassThrough();
  logWith({ function_request_id: 'r1' }, () => {
    logLines(err, EVENT_LOG, 'err', FROM);
    logLines(out, EVENT_LOG, 'log', FROM);
    err.write('Traceback:\n  File "a"\nValueError: é\nINFO:root:x\n  more\n');
    out.write('a\nb\n2026-03-08 09:05:00,042 WARNING WKRServer worker 3: slow\n');
  });
  await new Promise(setImmediate);
  t.mock.restoreAll();
  const events = written.map((text) => JSON.parse(text) as Record<string, unknown>);
  assert.deepEqual(
    events.map(({ level, message }) => [level, message]),
    [
      ['error', 'Traceback:\n  File "a"\nValueError: é'],
      ['info', 'INFO:root:x\n  more'],
      ['info', 'a'],
      ['info', 'b'],
      ['warn', 'slow'],
    ],
  );
  for (const { worker, pid, timestamp, function_request_id: id } of events)
    assert.deepEqual([worker, pid, typeof timestamp, id], [3, 42, 'string', 'r1']);
});

const SOURCES = {
  python: `
def get_model(self, envs, model_dir, model_name, tmp_dir):
    if model_name == "no start": raise OSError("no licence")
def get_preprocess(self, envs):
    return lambda batch: batch if batch != ["pre"] else 1 / 0
def get_postprocess(self, envs):
    return lambda batch: batch if batch != ["post"] else batch["x"]
def predict(self, model, input):
    import sys, logging, os
    logging.basicConfig(level="INFO")
    if input == ["log"]:
        print("before", file=sys.stderr)
        logging.info("theirs")
        self.new_logger().error("ours")
        os.write(2, b"from C\\n")
    if input == ["short"]: return []
    if input == ["long"]: return [1, 2]
    if input == ["shape"]: return 5
    if input == ["raise"]: raise ValueError("no such\\nitem")
    return input
def off_model(self, model):
    raise KeyError("off")`,
  typescript: `
  getModel(_envs: any, _dir: any, name: any): any { if (name === 'no start') throw new Error('no licence'); }
  getPreprocess() { return (batch: any) => { if (batch[0] === 'pre') throw new Error('division'); return batch; }; }
  getPostprocess() { return (batch: any) => { if (batch[0] === 'post') throw new Error('indices'); return batch; }; }
  predict(_model: unknown, [item]: any) {
    if (item === 'log') {
      console.error('before');
      console.error('INFO:root:theirs');
      this.newLogger().error('ours');
      console.error('from C');
    }
    if (item === 'short') return [];
    if (item === 'long') return [1, 2];
    if (item === 'shape') return 5;
    if (item === 'raise') throw new RangeError('no such\\nitem');
    return [item];
  }
  offModel() { throw new Error('off'); }`,
};

async function startWorker(t: TestContext, language: Language, log: ServiceLog) {
  const folder = await temporaryFolder(t, 'cs-worker-');
  await writeFile(join(folder, FILES[language]), sourceOf(language, SOURCES));
  const process = new WorkerProcess({
    command: COMMANDS[language],
    environment: ENVIRONMENT,
    directory: folder,
    log,
    source: { name: 'WKRServer worker 3', worker: 3 },
  });
  t.after(() => process.kill());
  return { process, open: openMessage(folder) };
}

for (const language of ['python', 'typescript'] as const) {
  const options = language === 'python' ? WITH_PYTHON : {};
  describe(`the log of a worker in ${language}`, options, () => {
    test('has what failed before the batch is answered, stamped line by line', async (t) => {
      const folder = await temporaryFolder(t, 'cs-log-');
      const { process, open } = await startWorker(t, language, new FileLog(folder, 'w', () => new Date()));
      await process.open(open);
      const err = async () => {
        const [name] = (await readdir(folder)).filter((file) => file.endsWith('.err'));
        return name === undefined ? '' : readFile(join(folder, name), 'utf8');
      };
      let before = '';
      for (const [item, expected] of [
        ['short', /^ERROR \w+: 0 results for 1 items; its batch failed$/m],
        ['long', /^ERROR \w+: 2 results for 1 items; its batch failed$/m],
        ['shape', /^ERROR TypeError: the result is a \w+, not .*; its batch failed$/m],
        ['raise', /^ERROR (ValueError|RangeError): no such\nERROR item$/m],
        ['pre', /^ERROR (ZeroDivisionError: division|Error: division)/m],
        ['post', /^ERROR (TypeError: list indices|Error: indices)/m],
      ] as const) {
        await process.run([item]);
        const now = await err();
        const lines = plain(now.slice(before.length)).join('\n');
        assert.match(lines, expected, item);
        const isTraceback = /^ERROR Traceback|^ERROR {5}at /m.test(lines);
        assert.equal(isTraceback, ['raise', 'pre', 'post'].includes(item), lines);
        before = now;
      }
      await process.run(['log']);
      await until(async () => /from C/.test(await err()));
      assert.deepEqual(plain((await err()).slice(before.length)), [
        'ERROR before',
        'INFO INFO:root:theirs',
        'ERROR ours',
        'ERROR from C',
      ]);
      await process.retire(5_000);
      assert.match(plain(await err()).join('\n'), /^ERROR (KeyError: 'off'|Error: off)/m);
    });

    test('has the traceback of a start that fails', async (t) => {
      const folder = await temporaryFolder(t, 'cs-log-');
      const { process, open } = await startWorker(t, language, new FileLog(folder, 'w', () => new Date()));
      await assert.rejects(process.open({ ...open, modelName: 'no start' }), WorkerStartError);
      await process.ended;
      const [name = ''] = await readdir(folder);
      const lines = plain(await readFile(join(folder, name), 'utf8'));
      assert.match(lines.join('\n'), /^ERROR (OSError|Error): no licence/m);
    });
  });
}

test(
  'a wrong number of results is logged for a request and for a record of the queue',
  WITH_PYTHON,
  async (t) => {
    const directory = await temporaryFolder(t, 'cs-worker-');
    const code = `
from wkr_serving.server import WKRHardWorker
class Worker(WKRHardWorker):
    def predict(self, model, input): return [1, 2]
    def get_model(self, envs, model_dir, model_name, tmp_dir): return None
`;
    await writeFile(join(directory, 'server.py'), code);
    const config = `worker:\n  class: server.Worker\n  python: ${PYTHON}\n  logDir: logs\n`;
    const stack = await testStack(t, { config, directory });
    const errors = async () => {
      const names = (await readdir(join(directory, 'logs'))).filter((name) => name.endsWith('.err'));
      const texts = names.map((name) => readFile(join(directory, 'logs', name), 'utf8'));
      return (await Promise.all(texts)).join('').split('\n').filter(Boolean);
    };
    const post = (path: string, body: object) =>
      fetch(stack.url + path, { method: 'POST', body: JSON.stringify(body) });
    assert.equal((await post('/predict', { instances: [{ x: 1 }] })).status, 422);
    assert.equal((await post('/predictions', { uri: 'a', instances: [{ x: 1 }] })).status, 202);
    await until(async () => (await errors()).length > 1);
    for (const line of await errors())
      assert.match(
        line,
        /^\S+ \S+ ERROR WKRServer worker 0: ValueError: 2 results for 1 items; its batch failed$/,
      );
  },
);
