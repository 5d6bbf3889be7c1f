/**
 * A bug against each sentence of the list in docs/explanation/reliability.md, by its number, where no other area has
 * one, and against what a worker's process may do to its neighbors. `--only acceptance` runs them.
 */
import type { Suite } from '../mutant.ts';

const SERVE = 'test/workers/serve.test.ts';
const SERVING = 'test/system/worker/serving.test.ts';
const LOOP = 'test/workers/loop.test.ts';
const ENCODE = 'test/workers/http/encode.test.ts';
const CLIENTS = 'test/system/worker/clients.test.ts';
const CHANGES = 'test/system/worker/changes.test.ts';
const HOSTILE = 'test/system/hostile-workers.test.ts';

export const WORKER_ACCEPTANCE: readonly Suite[] = [
  {
    file: 'cli/wkr/serving/start.ts',
    tests: [SERVING],
    bugs: [
      {
        guarantee: 'acceptance 1: a second port has the same routes',
        find: '{ secondPort: values.http_port }',
        replace: '{}',
      },
      {
        guarantee: 'acceptance 24: others are let in only with a token or the word that none is wanted',
        find: 'if (opens) throw wrongUse(',
        replace: "if (opens === '') throw wrongUse(",
      },
    ],
  },
  {
    file: 'lib/pipeline/batcher.ts',
    tests: ['test/lib/pipeline/batcher.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance 3: ten at once are one batch, which does not wait',
        find: 'this.waiting >= batchSize) return 0;',
        replace: 'this.waiting > batchSize) return 0;',
      },
    ],
  },
  {
    file: 'lib/compose/worker.ts',
    tests: [SERVE],
    bugs: [
      {
        guarantee: 'acceptance 4: a worker whose processes run is ready',
        find: 'isReady: () => pool.ready > 0',
        replace: 'isReady: () => pool.free > 0',
      },
      {
        guarantee: 'acceptance 28: a third process starts under load',
        find: 'pool.resize(nextSize(loads, scaling));',
        replace: 'nextSize(loads, scaling);',
        tests: [CHANGES],
      },
      {
        guarantee: 'acceptance 28: a third process retires without load',
        find: 'pool.resize(nextSize(loads, scaling));',
        replace: 'pool.resize(Math.max(pool.size, nextSize(loads, scaling)));',
        tests: [CHANGES],
      },
    ],
  },
  {
    file: 'lib/workers/loop.ts',
    tests: [LOOP],
    bugs: [
      {
        guarantee: 'acceptance 6: a short result fails its batch, in TypeScript',
        find: 'if (rows.length === length) return rows;',
        replace: 'if (rows.length <= length) return rows;',
      },
    ],
  },
  {
    file: 'python/wkr_serving/_protocol/loop.py',
    tests: [LOOP],
    bugs: [
      {
        guarantee: 'acceptance 6: a short result fails its batch, in Python',
        find: 'if len(result) != len(items):',
        replace: 'if len(result) > len(items):',
      },
      {
        guarantee: 'acceptance 12: off_model is called at the end',
        find: 'self.worker.off_model(self._model)',
        replace: 'pass',
        tests: [SERVING],
      },
      {
        guarantee: 'acceptance 13: no pickle is loaded',
        find: 'import os\nimport shutil',
        replace: 'import os\nimport pickle\nimport shutil',
        tests: ['test/security/static.test.ts'],
      },
    ],
  },
  {
    file: 'lib/http/worker/endpoint.ts',
    tests: [ENCODE],
    bugs: [
      {
        guarantee: 'acceptance 7: an undecodable body is 400',
        find: "readJson(request.body(), 'any JSON', parseExactly)",
        replace: "readJson(request.body() || '0', 'any JSON')",
      },
    ],
  },
  {
    file: 'lib/workers/pool.ts',
    tests: [SERVE],
    bugs: [
      {
        guarantee: 'acceptance 8: a process that was killed is started again',
        find: 'this.#options.clock.after(pauseMs(place.failures), () => {',
        replace: 'this.#options.clock.after(2 ** 31 - 1, () => {',
      },
    ],
  },
  {
    file: 'lib/workers/process.ts',
    tests: [HOSTILE],
    bugs: [
      {
        guarantee: 'acceptance 10: what C writes to descriptor 1 is in the log',
        find: "logLines(this.#child.stdout as Readable, { write: this.#log }, 'log');",
        replace: 'this.#child.stdout?.resume();',
        tests: [SERVE],
      },
      {
        guarantee: 'acceptance of hostile workers: no answer is kept for a later batch',
        find: 'if (this.#isGreeted || this.#hello) throw',
        replace: 'if (this.#isGreeted && this.#hello) throw',
      },
      {
        guarantee: 'acceptance of hostile workers: a process that is being ended gets no batch',
        find: 'if (this.#why !== undefined) throw',
        replace: "if (this.#why === '') throw",
      },
      {
        guarantee:
          'acceptance of hostile workers: an answer that comes again fails no item of the next batch',
        find: "message.type !== 'result' || message.id > id",
        replace: "message.type !== 'result' || message.id !== id",
      },
      {
        guarantee: 'acceptance of hostile workers: a process without its pipes is ended',
        find: 'signalCode === null && !this.#isRetiring',
        replace: 'signalCode !== null && !this.#isRetiring',
      },
      {
        guarantee: 'acceptance of hostile workers: the answer of another run is refused',
        find: "message.type !== 'result' || message.id !== id",
        replace: "message.type !== 'result' || message.id === id - 1",
      },
      {
        guarantee: 'acceptance of hostile workers: a process that does not retire is killed',
        find: 'this.kill(`did not retire within ${limitMs} ms`), limitMs)',
        replace: 'this.kill(`did not retire within ${limitMs} ms`), 100 * limitMs)',
      },
    ],
  },
  {
    file: 'lib/workers/worker-runner.ts',
    tests: [HOSTILE],
    bugs: [
      {
        guarantee:
          'acceptance of hostile workers: a batch whose process had been ended before runs in another',
        find: 'error instanceof WorkerEnded && !error.hadBatch && tries > 1',
        replace: 'error instanceof WorkerEnded && !error.hadBatch && tries < 1',
      },
    ],
  },
  {
    file: 'lib/codecs/values/frame.ts',
    tests: ['test/workers/golden.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance of hostile workers: the frames in front of a malformed one are delivered',
        find: 'if (frame) yield frame;',
        replace: 'if (frame && at === chunk.byteLength) yield frame;',
      },
    ],
  },
  {
    file: 'lib/codecs/values/write-value.ts',
    tests: ['test/workers/golden.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance 14: a value round-trips to the sign of a zero',
        find: 'Number.isFinite(value) && !Object.is(value, -0)',
        replace: 'Number.isFinite(value)',
      },
      {
        guarantee: 'acceptance 14: a tuple does not become a list',
        find: "isTuple(value) ? { [TAG]: 'tuple', items } : items",
        replace: 'items',
      },
    ],
  },
  {
    file: 'python/wkr_serving/_protocol/process.py',
    tests: ['test/workers/process.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance 11: a worker ends with its service, whatever it does',
        find: 'ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)',
        replace: 'pass',
      },
    ],
  },
  {
    file: 'lib/inference/model-manager.ts',
    tests: [CHANGES, 'test/lib/inference/model-manager.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance 16: a new model fails no request of the old one',
        find: 'opened.closed || opened.users > 0) return;',
        replace: 'opened.closed || opened.users > 3) return;',
      },
    ],
  },
  {
    file: 'cli/wkr/control-client.ts',
    tests: [CLIENTS],
    bugs: [
      {
        guarantee: 'acceptance 19: -timeout ends a call of a silent port',
        find: 'const signal = AbortSignal.timeout(timeoutMs);',
        replace: 'const signal = AbortSignal.timeout(600_000 + timeoutMs);',
      },
    ],
  },
  {
    file: 'local/decentral/client.ts',
    tests: [CLIENTS],
    bugs: [
      {
        guarantee: 'acceptance 20: a client that was killed returns',
        find: "this.#become('starting');\n      this.#start();",
        replace: "this.#become('starting');",
      },
    ],
  },
  {
    file: 'python/wkr_serving/client/helper.py',
    tests: ['test/workers/decentral/redis-handler.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance 21: what is pushed first is popped first, and with lifo last',
        find: 'b"L" if order == "fifo" else b"R"',
        replace: 'b"R" if order == "fifo" else b"L"',
      },
    ],
  },
  {
    file: 'local/worker/routes.ts',
    tests: [ENCODE],
    bugs: [
      {
        guarantee: 'acceptance 23: terminate without its token is 401',
        find: "if (!isBearer(event.headers['authorization'], token)) {",
        replace: "if (token === '') {",
      },
    ],
  },
  {
    file: 'local/gateway/caller.ts',
    tests: [ENCODE],
    bugs: [
      {
        guarantee: 'acceptance 25: a foreign Host is 403',
        find: 'if (isOwnHost(host, rules.allowedHosts, socket.localAddress)) return undefined;',
        replace: "if (host !== '') return undefined;",
      },
    ],
  },
  {
    file: 'lib/workers/results.ts',
    tests: ['test/workers/http/stack.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance 26: a dict of arrays reads the same by every route',
        find: 'outputs.length > 0 && outputs.length === entries.length ? outputs : undefined',
        replace: 'outputs.length > 1e9 ? outputs : undefined',
      },
    ],
  },
  {
    file: 'lib/workers/deployed-runner.ts',
    tests: ['test/system/deployed-worker.test.ts'],
    bugs: [
      {
        guarantee: 'acceptance 27: what had no time is returned to the queue, and nothing else',
        find: 'return { ok: false, error: noTimeLeft() };',
        replace: "return { ok: false, error: new ServingError('model_failed', 'late') };",
      },
    ],
  },
];
