/** Bugs in what runs workers: the batcher, the pool, its size, and what becomes of a batch that fails. */
import type { Suite } from '../mutant.ts';

const BATCHER = 'test/lib/pipeline/batcher.test.ts';
const PACE = 'test/lib/pipeline/pace.test.ts';
const POOL = 'test/workers/pool.test.ts';
const SERVE = 'test/workers/serve.test.ts';

export const WORKERS: readonly Suite[] = [
  {
    file: 'lib/pipeline/batcher-calls.ts',
    tests: ['test/lib/pipeline/callers.test.ts'],
    bugs: [
      {
        guarantee: 'what was left does not run',
        find: "line.extract(is('gone'))",
        replace: 'line.extract(() => false)',
      },
      {
        guarantee: 'a caller who may have left takes no place of others',
        find: "this.requests.extract(is('doubtful'))",
        replace: 'this.requests.extract(() => false)',
      },
      {
        guarantee: 'a caller who is still there is served',
        find: "this.#doubtful.extract(is('waits'))",
        replace: 'this.#doubtful.extract(() => false)',
      },
    ],
  },
  {
    file: 'lib/pipeline/batcher.ts',
    tests: [BATCHER],
    bugs: [
      {
        guarantee: 'calls that came together leave no process idle',
        find: 'Math.max(1, this.#runner.free));',
        replace: '1);',
      },
      {
        guarantee: 'a batch waits while each turn brings calls',
        find: 'this.waiting > before && this.waiting < this.#options.batchSize && left > 0',
        replace: 'false',
      },
      {
        guarantee: 'a batch waits for a number of turns at most',
        find: ' && left > 0;',
        replace: ';',
      },
      {
        guarantee: 'a full batch waits for no further turn',
        find: ' && this.waiting < this.#options.batchSize',
        replace: '',
      },
      {
        guarantee: 'what the answers of a batch bring shares the next one',
        find: 'const TURNS_AFTER_BATCH = 2;',
        replace: 'const TURNS_AFTER_BATCH = 1;',
      },
      {
        guarantee: 'late calls get their error while no process is free',
        find: 'this.#runner.free > 0 || !this.#stopTimer',
        replace: 'this.#runner.free > 0',
      },
      {
        guarantee: 'a batch has at most batchSize records',
        find: 'while (batch.length < batchSize && skipped',
        replace: 'while (batch.length <= batchSize && skipped',
      },
      {
        guarantee: 'every fifth batch begins with the queue',
        find: 'const queueFirst = ++this.#batches >= QUEUE_TURN && ',
        replace: 'const queueFirst = ++this.#batches < 0 && ',
      },
      {
        guarantee: 'calls take turns',
        find: 'if (call.next < call.records.length) calls.push(call);',
        replace: 'if (call.next < call.records.length) calls.unshift(call);',
      },
      {
        guarantee: 'records of one batch have one key',
        find: 'const fits = key === (batch[0]?.key ?? key);',
        replace: 'const fits = key !== undefined;',
      },
      {
        guarantee: 'a record that waits is sent after its time',
        find: 'oldestMs + timeoutMs - clock.now()',
        replace: 'oldestMs + 2 * timeoutMs - clock.now()',
      },
      {
        guarantee: 'a request is refused when too many wait',
        find: 'if (policy.failFast) this.#admit();',
        replace: 'if (policy.failFast && this.waiting < 0) this.#admit();',
      },
      {
        guarantee: 'the queue is never refused',
        find: 'if (policy.failFast) this.#admit();',
        replace: 'this.#admit();',
      },
      {
        guarantee: 'a call without time is not run',
        find: 'this.#lines.dropLate();',
        replace: '',
      },
      {
        guarantee: 'a request with one budget is not cut',
        find: 'return taken === 0 || taken + records.length <= batchSize ? records.length : 0;',
        replace: 'return taken === 0 || taken + records.length <= batchSize ? 1 : 0;',
      },
      {
        guarantee: 'a runner that gives fewer outcomes answers none',
        find: 'if (outcomes.length !== records.length) {',
        replace: 'if (outcomes.length > records.length) {',
      },
      {
        guarantee: 'a call waits only while none of its records runs',
        find: 'if (--call.running === 0 && call.unfinished > 0)',
        replace: 'if (call.unfinished > 0)',
      },
      {
        guarantee: 'requests that were sent away do not run',
        find: 'this.#lines.requests.extract(() => true)',
        replace: 'this.#lines.requests.calls',
        tests: [PACE],
      },
    ],
  },
  {
    file: 'lib/pipeline/pace.ts',
    tests: [PACE],
    bugs: [
      {
        guarantee: 'no more requests wait than are served in time',
        find: "if (line.requests < this.#room(line)) return 'waits';",
        replace: "if (line.requests >= 0) return 'waits';",
      },
      {
        guarantee: 'more processes serve more in the same time',
        find: '(LONGEST_WAIT_MS * processes)',
        replace: 'LONGEST_WAIT_MS',
      },
      {
        guarantee: 'in an overload requests wait only for the next batch',
        find: "return line.records < this.#most(line) ? 'waits' : 'refused';",
        replace: "return line.records < MOST_WAITING ? 'waits' : 'refused';",
      },
      {
        guarantee: 'an overload lasts until less comes than can be served',
        find: 'if (this.#arrivals * this.#requestMs <= thereMs * CALM_SHARE) this.#overloaded = false;',
        replace: 'this.#overloaded = false;',
      },
      {
        guarantee: 'a request that is refused unread is an arrival',
        find: '    this.#arrive(line.processes);\n    return this.#overloaded;',
        replace: '    return this.#overloaded;',
      },
      {
        guarantee: 'a time slice is as long as it may be, and no longer',
        find: 'const limitMs = requested > 0 ? TOGETHER_MS : this.#sliceLimitMs();',
        replace: 'const limitMs = 1_000_000;',
      },
      {
        guarantee: 'the queue does not delay the request that it runs with',
        find: 'requested > 0 ? TOGETHER_MS : ',
        replace: '',
      },
      {
        guarantee: 'while requests come slices are short',
        find: 'return isQuiet ? QUIET_SLICE_MS : ',
        replace: 'return this.#batchMs >= 0 ? QUIET_SLICE_MS : ',
      },
      {
        guarantee: 'a slice is at most twice the last',
        find: 'Number.isFinite(this.#queuedMs) ? this.#queuedMs / 2 : LEAST_RECORD_MS',
        replace: 'LEAST_RECORD_MS',
      },
      {
        guarantee: 'a long slice gives requests time before the next',
        find: 'return this.#options.now() - this.#sliceEndMs >= boundMs;',
        replace: 'return boundMs >= 0;',
      },
      {
        guarantee: 'the queue is not passed over for more than a second',
        find: 'Math.min(MOST_PASSED_OVER_MS, PASSED_OVER_TIMES * this.#sliceMs)',
        replace: 'PASSED_OVER_TIMES * this.#sliceMs',
      },
      {
        guarantee: 'what runs one by one is no long batch',
        find: 'Math.floor(TOGETHER_MS / this.#requestedMs)',
        replace: 'batchSize',
      },
    ],
  },
  {
    file: 'lib/workers/pool.ts',
    tests: [POOL],
    bugs: [
      {
        guarantee: 'the pause between starts doubles',
        find: 'FIRST_PAUSE_MS * 2 **',
        replace: 'FIRST_PAUSE_MS * 1 **',
      },
      {
        guarantee: 'the pause ends at 30 s',
        find: 'Math.min(LONGEST_PAUSE_MS, ',
        replace: 'Math.max(0, ',
      },
      {
        guarantee: 'a completed batch ends the doubling',
        find: 'place.failures = 0;',
        replace: '',
      },
      {
        guarantee: 'a process is replaced after its number of batches',
        find: 'place.batches >= maxBatches',
        replace: 'place.batches > maxBatches',
      },
      {
        guarantee: 'a process that does not get ready is ended',
        find: 'process.kill(`was not ready within ${startTimeoutMs} ms`)',
        replace: 'undefined',
      },
      {
        guarantee: 'work does not wait forever',
        find: 'reject(modelUnavailable(`no worker was ready within ${startTimeoutMs} ms`));',
        replace: '',
      },
      {
        guarantee: 'a pool that shrinks ends no batch',
        find: "if (place.state === 'idle' || place.state === 'paused') this.#leave(place);\n    }\n  }\n\n  /** Ends all",
        replace: 'this.#leave(place);\n    }\n  }\n\n  /** Ends all',
      },
      {
        guarantee: 'a stop ends what is still busy',
        find: 'process?.kill(`was still busy',
        replace: 'process?.retire; void (`was still busy',
      },
    ],
  },
  {
    file: 'lib/workers/autoscale.ts',
    tests: [POOL],
    bugs: [
      {
        guarantee: 'a constant load does not flap',
        find: '(squeeze * size) / (size - 1)',
        replace: 'squeeze',
      },
      {
        guarantee: 'a pool does not grow beyond its most',
        find: 'size < scaling.most && ',
        replace: '',
      },
      {
        guarantee: 'a resize begins the measurement anew',
        find: 'loads.slice(loads.findLastIndex((load) => load.size !== size) + 1)',
        replace: 'loads.slice(0)',
      },
    ],
  },
  {
    file: 'lib/workers/worker-runner.ts',
    tests: [SERVE],
    bugs: [
      {
        guarantee: 'one item of a batch that raises fails alone',
        find: 'if (items.length === 1 || attempt.isBug || !retryAlone) {',
        replace: 'if (items.length >= 1) {',
      },
      {
        guarantee: 'predict has a time limit',
        find: 'const stop = clock.after(predictTimeoutMs, () => {',
        replace: 'const stop = clock.after(predictTimeoutMs * 100, () => {',
      },
    ],
  },
];
