/** What a worker's code can do to its process, and what happens to the process when the service ends. */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, readlink } from 'node:fs/promises';
import { afterEach, describe, test } from 'node:test';
import { encodeMessage } from '../../../lib/workers/messages.ts';
import { WorkerEnded, WorkerProcess } from '../../../lib/workers/process.ts';
import { WITH_PYTHON } from '../../support/python.ts';
import { until } from '../../support/until.ts';
import { endWorkers, type Language, openMessage, SDK, WorkerChild } from './child.ts';

afterEach(endWorkers);

const PYTHON_WORKER = `from wkr_serving.server import WKRHardWorker
import ctypes, os, subprocess, sys, time, multiprocessing, threading

class Worker(WKRHardWorker):
    def get_model(self, *args):
        return None

    def predict(self, model, input):
        return [getattr(self, input[0])()]

    def hold(self):
        print("begun")
        # PyDLL keeps the interpreter's lock, as a C extension may.
        ctypes.PyDLL(None).sleep(1000)

    def spin(self):
        print("begun")
        while True:
            pass

    def raw(self):
        ctypes.CDLL(None).write(1, b"from C\\n", 7)
        ctypes.CDLL(None).write(3, b"x", 1)
        ctypes.CDLL(None).write(4, b"x", 1)
        os.close(4) if os.path.exists("/proc/self/fd/4") else None
        return "alive"

    def child(self):
        self.process = subprocess.Popen(["sleep", "1000"], close_fds=False)
        return self.process.pid

    def forked(self):
        self.process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
        self.process.start()
        return self.process.pid

    def terminated(self):
        self.child()
        self.process.terminate()
        first = self.process.wait()
        self.forked()
        self.process.terminate()
        self.process.join()
        return [first, self.process.exitcode]

    def thread(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return "started"

    def off_model(self, model):
        print("off_model")
`;

const TYPESCRIPT_WORKER = `import { WKRHardWorker } from '${SDK}';
import { spawn } from 'node:child_process';
import { writeSync } from 'node:fs';

export class Worker extends WKRHardWorker {
  getModel() {}
  predict(_model: unknown, input: any) { return Promise.all([(this as any)[input[0]]()]); }
  spin() {
    writeSync(1, 'begun\\n');
    for (;;);
  }
  child() { return spawn('sleep', ['1000'], { stdio: 'inherit' }).pid; }
  offModel() { console.log('off_model'); }
}
`;

const SOURCES = { python: PYTHON_WORKER, typescript: TYPESCRIPT_WORKER };

const start = (language: Language) => WorkerChild.open(language, SOURCES[language]);

const isRunning = (pid: number) => existsSync(`/proc/${pid}`);

async function valueOf(child: WorkerChild, method: string): Promise<unknown> {
  const message = await child.run([method]);
  assert.ok(message.type === 'result' && 'outcomes' in message, JSON.stringify(message));
  const [outcome] = message.outcomes;
  assert.ok(outcome && 'value' in outcome, JSON.stringify(outcome));
  return outcome.value;
}

for (const language of ['python', 'typescript'] as const) {
  describe(`the process of a worker in ${language}`, language === 'python' ? WITH_PYTHON : {}, () => {
    const endless = language === 'python' ? ['spin', 'hold'] : ['spin'];
    for (const method of endless) {
      test(`ends within 5 s of its parent, even while predict never returns (${method})`, async () => {
        const parent = fork(new URL('parent.ts', import.meta.url), [language, SOURCES[language], method]);
        const [pid] = (await once(parent, 'message')) as [number];
        assert.ok(isRunning(pid));
        const exited = once(parent, 'exit');
        parent.kill('SIGKILL');
        await exited;
        await until(async () => !(await isAlive(pid)), 5_000);
      });
    }

    test('ends at once when its pipe ends without retire, and does not call off_model', async () => {
      const child = await start(language);
      child.hangUp();
      assert.equal(await child.ended, 1);
      assert.equal(child.stdout, '');
    });

    test('survives SIGINT and SIGTERM, and retires', async () => {
      const child = await start(language);
      child.process.kill('SIGINT');
      child.process.kill('SIGTERM');
      assert.equal(await child.retire(), 0);
      assert.equal(child.stdout, 'off_model\n');
    });

    test('a subprocess of the worker does not keep the pipes open', async () => {
      const child = await start(language);
      const pid = Number(await valueOf(child, 'child'));
      try {
        assert.ok((await socketsOf(child.process.pid as number)).length >= 2);
        assert.deepEqual(await socketsOf(pid), []);
        child.process.kill('SIGKILL');
        // With the pipe still open, this would wait for the subprocess.
        await child.pipeEnded();
        assert.ok(isRunning(pid));
      } finally {
        process.kill(pid, 'SIGKILL');
      }
    });

    test('a malformed frame ends it with a reason in the log', async () => {
      const [good = Buffer.alloc(0)] = encodeMessage({ type: 'run', id: 1, items: [] });
      for (const bytes of [
        Buffer.from([0, 0, 0, 0]),
        Buffer.from([255, 0, 0, 0]),
        frameOf('{"type":"no"}'),
        frameOf('{"type":"run","id":1,"items":[{"$t":"bytes","b":0}]}'),
        good.subarray(0, 9),
      ]) {
        const child = await start(language);
        child.sendBytes(bytes);
        if (bytes.length === 9) child.hangUp();
        assert.equal(await child.ended, 1);
        assert.match(child.stderr, /malformed|cut off/);
      }
    });
  });
}

/** A zombie has ended: only the process that started it can remove it. */
async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ') Z');
  return !/\) Z/.test(stat);
}

/** The sockets that a process has open beside the three standard descriptors: Node makes the pipes of them. */
async function socketsOf(pid: number): Promise<string[]> {
  const targets = await Promise.all(
    Array.from({ length: 300 }, (_, i) => readlink(`/proc/${pid}/fd/${i + 3}`).catch(() => '')),
  );
  return targets.filter((target) => target.startsWith('socket:'));
}

function frameOf(json: string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.length);
  return Buffer.concat([length, Buffer.from(json)]);
}

describe('the process of a worker in python', WITH_PYTHON, () => {
  test('what C writes to descriptor 1 is in the log, and what it writes to 3 and 4 does not arrive', async () => {
    const child = await start('python');
    assert.equal(await valueOf(child, 'raw'), 'alive');
    assert.equal(await valueOf(child, 'raw'), 'alive');
    await child.retire();
    assert.equal(child.stdout, 'from C\nfrom C\noff_model\n');
  });

  test('a process that the worker forks does not keep the pipes open', async () => {
    const child = await start('python');
    const pid = Number(await valueOf(child, 'forked'));
    try {
      // It closes them as the first thing, maybe after its number is known.
      await until(async () => (await socketsOf(pid)).length === 0, 20_000);
    } finally {
      process.kill(pid, 'SIGKILL');
    }
  });

  test('SIGTERM ends the subprocesses of the worker, started or forked', async () => {
    const child = await start('python');
    assert.deepEqual(await valueOf(child, 'terminated'), [-15, -15]);
  });

  test('a thread of the worker does not keep it from retiring', async () => {
    const child = await start('python');
    assert.equal(await valueOf(child, 'thread'), 'started');
    assert.equal(await child.retire(), 0);
  });
});

for (const [command, how] of [
  ['false', 'exit code 1'],
  ['/nowhere/python', 'cannot be started: spawn /nowhere/python ENOENT'],
] as const) {
  test(`a process that ends before it was asked to (${command}) says how, and may retire still`, async () => {
    const { env } = process;
    const cwd = () => process.cwd();
    const worker = new WorkerProcess({
      command: [command],
      environment: env,
      directory: cwd(),
      log: { write: () => undefined },
      source: { name: 'worker', worker: 0 },
    });
    await assert.rejects(worker.open(openMessage(cwd())), (error) => {
      assert.ok(error instanceof WorkerEnded);
      assert.equal(error.message, `the worker's process ended (${how})`);
      return true;
    });
    assert.equal(await worker.ended, how);
    // What is expected of it now fails, which nobody waits for.
    await worker.retire(60_000);
  });
}
