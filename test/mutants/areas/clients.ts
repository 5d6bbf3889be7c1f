/** Bugs in the SDK, the settings, the model's runners and the commands for dead letters. */
import type { Suite } from '../mutant.ts';

const CONFIG = 'test/lib/config/config.test.ts';
const LEGACY = 'test/lib/config/legacy.test.ts';
const SDK = 'test/sdk/input-queue.test.ts';
const WKR_CLIENT = 'test/workers/clients/typescript.test.ts';
const HTTP_RESULTS = 'test/sdk/http-results.test.ts';
const INPUTS = 'test/sdk/inputs.test.ts';
const MANAGER = 'test/lib/inference/model-manager.test.ts';
const FOLDER = 'test/faults/swap/folder.test.ts';
const READY = 'test/convert/verify/ready.test.ts';
const WARM_UP = 'test/lib/inference/warm-up.test.ts';
const DLQ = 'test/cli/dlq/dlq.test.ts';
const REPLAY = 'test/system/dlq-replay.test.ts';

export const CLIENTS: readonly Suite[] = [
  {
    file: 'lib/config/file.ts',
    tests: [CONFIG],
    bugs: [
      {
        guarantee: 'a config has at most 1 MiB',
        find: 'if (bytes <= MAX_CONFIG_BYTES) return;',
        replace: 'return;',
      },
      {
        guarantee: 'a config has at most 20,000 tokens',
        find: 'if (++tokens > MAX_TOKENS) throw',
        replace: 'if (++tokens > 1_000 * MAX_TOKENS) throw',
      },
      {
        guarantee: 'a config has at most 100 aliases',
        find: 'if (++this.#aliases > MAX_ALIASES) throw',
        replace: 'if (++this.#aliases > 1_000_000 * MAX_ALIASES) throw',
      },
      {
        guarantee: 'a config is nested at most 8 levels deep',
        find: 'if (depth > MAX_DEPTH) throw',
        replace: 'if (depth > 100 * MAX_DEPTH) throw',
      },
      {
        guarantee: 'an unknown tag is refused',
        find: 'if (node.tag === undefined || HARMLESS_TAG.test(node.tag)) return;',
        replace: 'return;',
      },
      {
        guarantee: 'all problems are in one message',
        find: 'const lines = sorted.slice(0, MAX_PROBLEMS)',
        replace: 'const lines = sorted.slice(0, 1)',
      },
      {
        guarantee: 'settings are checked against each other',
        find: 'if (broken.length > 0)',
        replace: 'if (broken.length > 100)',
      },
      {
        guarantee: 'a config is UTF-8',
        find: 'const text = decodeUtf8(bytes);',
        replace: 'const text = decodeUtf8(bytes) ?? Buffer.from(bytes).toString();',
      },
    ],
  },
  {
    file: 'lib/config/settings.ts',
    tests: [CONFIG, LEGACY],
    bugs: [
      {
        guarantee: 'an unknown key is refused',
        find: 'problems.push({ line, text: `${shownKey(written)}: unknown key${hinted}` });',
        replace: '',
      },
      {
        guarantee: 'the same key twice is refused',
        find: 'else problems.push(repeated(written, line, first));',
        replace: '',
      },
      {
        guarantee: 'two keys that disagree are refused',
        find: 'else if (JSON.stringify(other.value) !== JSON.stringify(value)) {',
        replace: 'else if (false) {',
      },
      {
        guarantee: 'an old key that has no effect says so',
        find: "if (rule?.outcome === 'replaced') note(rule.text, entry);",
        replace: "if (rule?.outcome === 'replaced') continue;",
      },
      {
        guarantee: 'an encrypted model is refused and not served as it is',
        find: "else if (rule?.outcome === 'refused') problems.push(...refusal(rule, entry));",
        replace: "else if (rule?.outcome === 'refused') continue;",
      },
    ],
  },
  {
    file: 'lib/config/readers.ts',
    tests: [CONFIG],
    bugs: [
      {
        guarantee: 'a whole number has no fraction',
        find: 'Number.isInteger(read) && ',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/config/schema.ts',
    tests: [CONFIG],
    bugs: [
      {
        guarantee: 'function.timeoutSeconds is at least 3',
        find: 'LEAST_TIMEOUT_SECONDS = 3',
        replace: 'LEAST_TIMEOUT_SECONDS = 1',
      },
      {
        guarantee: 'function.timeoutSeconds is at most 900 (Lambda)',
        find: '    900,\n',
        replace: '    901,\n',
        tests: ['test/lib/config/ranges.test.ts'],
      },
      {
        guarantee: 'function.memoryMB is at most 10,240 (Lambda)',
        find: 'whole(128, 10_240)',
        replace: 'whole(128, 10_241)',
        tests: ['test/lib/config/ranges.test.ts'],
      },
      {
        guarantee: 'http.timeoutMs is at most 29,000 (API Gateway)',
        find: 'whole(1, 29_000)',
        replace: 'whole(1, 30_001)',
        tests: ['test/lib/config/ranges.test.ts'],
      },
      {
        guarantee: 'queue.maximumConcurrency is at least 2 (SQS)',
        find: 'whole(2, 1_000)',
        replace: 'whole(1, 1_000)',
        tests: ['test/lib/config/ranges.test.ts'],
      },
      {
        guarantee: 'queue.windowSeconds is at most 300 (SQS)',
        find: 'whole(0, 300)',
        replace: 'whole(0, 301)',
        tests: ['test/lib/config/ranges.test.ts'],
      },
      {
        guarantee: 'queue.batchSize is at most 10,000 (SQS)',
        find: "    whole(1, 10_000),\n    'Records of one call",
        replace: "    whole(1, 10_001),\n    'Records of one call",
        tests: ['test/lib/config/ranges.test.ts'],
      },
      {
        guarantee: 'results stay at most 14 days',
        find: 'resultTtlSeconds: setting(whole(1, 14 * 86_400)',
        replace: 'resultTtlSeconds: setting(whole(0, 14 * 86_400)',
        tests: ['test/lib/config/ranges.test.ts'],
      },
      {
        guarantee: 'std is not 0',
        find: '(value) => value !== 0',
        replace: '() => true',
      },
      {
        guarantee: 'an origin has no path',
        find: ' && new URL(word).origin === word',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/config/image-presets.ts',
    tests: ['test/lib/config/image-presets.test.ts'],
    bugs: [
      {
        guarantee: 'a preset has the numbers of its library',
        find: 'mean: [103.939, 116.779, 123.68]',
        replace: 'mean: [123.68, 116.779, 103.939]',
      },
      {
        guarantee: 'the mean and std of a preset keep to their colours',
        find: 'isSwapped ? values.toReversed() : values',
        replace: 'values',
      },
      {
        guarantee: 'keys beside a preset override it',
        find: '{ channels, scale, mean: inOrder(mean), std: inOrder(std), ...own }',
        replace: '{ ...own, channels, scale, mean: inOrder(mean), std: inOrder(std) }',
      },
    ],
  },
  {
    file: 'lib/config/rules.ts',
    tests: [CONFIG],
    bugs: [
      {
        guarantee: 'a batch of more than ten needs a window',
        find: 'queue.batchSize <= MAX_UNGATHERED || queue.windowSeconds >= 1',
        replace: 'true',
      },
      {
        guarantee: 'width and height go together',
        find: '(image.width === undefined) === (image.height === undefined)',
        replace: 'true',
      },
      {
        guarantee: 'waiting for a token leaves time for the prediction',
        find: '!http.tokenBucketEnabled || http.tokenAcquireTimeoutMs < predictMs',
        replace: 'true',
      },
      {
        guarantee: '"*" stands alone',
        find: "http.corsOrigins.length < 2 || !http.corsOrigins.includes('*')",
        replace: 'true',
      },
    ],
  },
  {
    file: 'lib/config/job.ts',
    tests: ['test/lib/config/ranges.test.ts'],
    bugs: [
      {
        guarantee: 'a message is hidden for six times what its function may take',
        find: '6 * job.function.timeoutSeconds',
        replace: '5 * job.function.timeoutSeconds',
      },
      {
        guarantee: 'the function ends before API Gateway gives up',
        find: 'Math.min(seconds, MAX_PREDICT_SECONDS)',
        replace: 'seconds',
      },
      {
        guarantee: 'results stay for a day by default',
        find: 'resultTtlSeconds: 86_400,',
        replace: 'resultTtlSeconds: 8_640,',
      },
      {
        guarantee: 'a record runs five times without an outcome by default',
        find: 'maxReceiveCount: 5,',
        replace: 'maxReceiveCount: 50,',
      },
    ],
  },
  {
    file: 'lib/config/environment.ts',
    tests: ['test/lib/compose/predict.test.ts', 'test/lib/compose/predictions.test.ts'],
    bugs: [
      {
        guarantee: 'a missing variable fails with its name',
        find: 'if (!value) throw badConfig(`the environment variable ${name} is not set`);\n  return value;',
        replace: "return value ?? '';",
        tests: ['test/lib/config/ranges.test.ts'],
      },
    ],
  },
  {
    file: 'lib/inference/model-manager.ts',
    tests: [MANAGER, FOLDER],
    bugs: [
      {
        guarantee: 'work never runs on a closed runner',
        find: 'while (opened.closed) opened = this.#current ?? (await this.#first());',
        replace: '',
      },
      {
        guarantee: 'a runner closes after its last user',
        find: '!opened.retired || opened.closed || opened.users > 0',
        replace: '!opened.retired || opened.closed',
      },
      {
        guarantee: 'a runner closes once',
        find: '!opened.retired || opened.closed || opened.users > 0',
        replace: '!opened.retired || opened.users > 0',
        survives:
          'Equivalent: no request can begin to use a runner that is closed, so nothing closes it a second time.',
      },
      {
        guarantee: 'a third version waits until the first is closed',
        find: 'if (this.#leaving) return;',
        replace: '',
      },
      {
        guarantee: 'the same version is not opened again',
        find: 'if (version !== this.version) await',
        replace: 'await',
        tests: [MANAGER, FOLDER, 'test/lib/inference/model.test.ts'],
      },
      {
        guarantee: 'all first requests share one opening',
        find: 'this.#opening ??= this.#open()',
        replace: 'this.#opening = this.#open()',
      },
      {
        guarantee: 'a failed opening is tried again',
        find: '      .finally(() => {\n        this.#opening = undefined;\n      });',
        replace: ';',
        tests: [MANAGER, 'test/faults/swap/torn.test.ts', FOLDER],
      },
      {
        guarantee: 'a version that does not load is reported while the old one serves',
        find: 'if (!isUnderWay) this.#report(error);',
        replace: '',
        tests: [MANAGER, FOLDER, 'test/lib/inference/model.test.ts'],
      },
      {
        guarantee: 'on Lambda a call waits for the check that it finds due',
        find: 'return isAwaited ? refreshing : undefined;',
        replace: 'return undefined;',
        tests: [MANAGER],
      },
      {
        guarantee: 'on Lambda a check that failed stays due',
        find: '(!isChecked || isUnderWay)',
        replace: 'isUnderWay',
        tests: [MANAGER],
      },
      {
        guarantee: 'a new version is looked for every refreshMs',
        find: 'if (waitMs > 0 && waitMs <= this.#options.refreshMs) return undefined;',
        replace: 'return undefined;',
        tests: [MANAGER, 'test/lib/inference/model.test.ts', FOLDER],
      },
    ],
  },
  {
    file: 'lib/pipeline/run-size.ts',
    tests: ['test/lib/pipeline/run-size.test.ts'],
    bugs: [
      {
        guarantee: 'a run has no more rows than the batch',
        find: 'Math.min(this.#most, STEP * from)',
        replace: 'STEP * from',
      },
      {
        guarantee: 'another size must be clearly faster',
        find: 'const CLEARLY = 0.95;',
        replace: 'const CLEARLY = 1;',
      },
      {
        guarantee: 'batches that are smaller than a run could be find their size too',
        find: 'return Math.min(this.#size, this.#reach);',
        replace: 'return this.#size;',
      },
      {
        guarantee: 'a batch that has become smaller for good is a full one',
        find: 'rows > this.#reach || (isOver && this.#largest < this.#reach)',
        replace: 'rows > this.#reach',
      },
      {
        guarantee: 'trials become rare',
        find: 'Math.min(LONGEST_PAUSE, 2 * this.#pause)',
        replace: 'FIRST_PAUSE',
      },
      {
        guarantee: 'trials do not end',
        find: 'const LONGEST_PAUSE = 1_024;',
        replace: 'const LONGEST_PAUSE = 1_000_000;',
      },
      {
        guarantee: 'a trial ends where its size is never reached',
        find: 'if (!isMeasured && this.#runs < TRIAL_RUNS) return;',
        replace: 'if (!isMeasured) return;',
      },
      {
        guarantee: 'a run that was disturbed counts nothing',
        find: 'const SAMPLES = 3;',
        replace: 'const SAMPLES = 1;',
      },
    ],
  },
  {
    file: 'lib/pipeline/nested-block.ts',
    tests: ['test/lib/inference/packed.test.ts'],
    bugs: [
      {
        guarantee: 'each answer of a run that requests share goes to its own request',
        find: 'for (const value of values) eachRow',
        replace: 'for (const value of values.toReversed()) eachRow',
        tests: ['test/local/gateway/shared-runs.test.ts'],
      },
      {
        guarantee: 'an array of JSON that is empty is no block',
        find: 'if (count === 0) throw',
        replace: 'if (count === -1) throw',
      },
    ],
  },
  {
    file: 'lib/pipeline/block.ts',
    tests: ['test/lib/pipeline/block.test.ts'],
    bugs: [
      {
        guarantee: 'records that may not share a run do not run as a block',
        find: '(separable || count === 1) &&',
        replace: '',
      },
      {
        guarantee: 'a block of records with several rows is left to its records',
        find: 'shape[0] === 1 &&',
        replace: '',
      },
      {
        guarantee: 'a block is no larger than a run',
        find: 'bytes <= maxBytes &&',
        replace: '',
      },
      {
        guarantee: 'a block has no more rows than a run',
        find: 'count <= mostRows(settings) &&',
        replace: '',
      },
      {
        guarantee: 'a block whose numbers are converted is left to its records',
        find: "columns.some((column) => 'buffer' in data && column.data.buffer === data.buffer),",
        replace: "columns.some(() => 'buffer' in data),",
      },
      {
        guarantee: 'an output that does not follow the rows is no block',
        find: "dtype !== 'string' && isFirst(settings.outputAxes, i)",
        replace: "dtype !== 'string'",
      },
      {
        guarantee: 'an output with another number of rows than the block is no answer',
        find: ' || shape[0] !== count) return undefined;',
        replace: ') return undefined;',
      },
    ],
  },
  {
    file: 'lib/inference/packed.ts',
    tests: ['test/lib/inference/packed.test.ts'],
    bugs: [
      {
        guarantee: 'an array of JSON that is empty travels as a record, which is refused by name',
        find: 'if (!Array.isArray(content)) return undefined;',
        replace: 'if (!Array.isArray(content)) continue;',
      },
      {
        guarantee: 'records with other names than those of the inputs do not travel as a block of them',
        find: 'if (!records.every((record) => hasExactly(record, specs))) return undefined;',
        replace: '',
      },
      {
        guarantee: 'each record of a block has its own tensors',
        find: 'data.subarray(i * length, (i + 1) * length)',
        replace: 'data.subarray(0, length)',
      },
      {
        guarantee: 'each answer of a run that requests share goes to its own request',
        find: 'i * length);',
        replace: '(records.length - 1 - i) * length);',
      },
      {
        guarantee: 'tensors of other shapes are no block',
        find: 'shape.every((dim, axis) => dim === other.shape[axis])',
        replace: 'shape.length > 0',
      },
      {
        guarantee: 'a block loses no tokens of a text',
        find: 'tokens === undefined &&',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/inference/isolated-runner.ts',
    tests: [READY, 'test/system/hostile-models.test.ts'],
    bugs: [
      {
        guarantee: 'a run that takes too long ends with its process',
        find: 'if (!goesOn) await this.close();',
        replace: '',
        tests: ['test/lib/inference/isolated-runner.test.ts'],
      },
      {
        guarantee: 'a process that ended is model_failed',
        find: "new ServingError('model_failed', `the model ended",
        replace: "new ServingError('internal', `the model ended",
        tests: ['test/lib/inference/isolated-runner.test.ts'],
      },
      {
        guarantee: 'a run has a time limit',
        find: 'Promise.race([work, late])',
        replace: 'work',
        tests: ['test/lib/inference/isolated-runner.test.ts'],
      },
      {
        guarantee: 'a process that is still opening its model is kept for the next event',
        find: 'isOpening && isTimeout(error) && started.waitedMs < MOST_OPENING_MS',
        replace: 'false',
        tests: ['test/lib/inference/isolated-runner.test.ts'],
      },
      {
        guarantee: "one event at a time: a kill takes no other event's records along",
        find: 'this.#last = turn.catch(() => undefined);',
        replace: '',
        tests: ['test/lib/inference/isolated-runner.test.ts'],
      },
    ],
  },
  {
    file: 'lib/inference/warm-up.ts',
    tests: [WARM_UP],
    bugs: [
      {
        guarantee: 'a run has at most 128 MiB of inputs',
        find: 'RUN_BYTES = 128 * 1024 * 1024',
        replace: 'RUN_BYTES = 1024 * 1024 * 1024',
        tests: ['test/lib/inference/warm-up.test.ts'],
      },
    ],
  },
  {
    file: 'lib/inference/threads.ts',
    tests: ['test/lib/inference/warm-up.test.ts'],
    bugs: [
      {
        guarantee: 'one thread for each vCPU',
        find: 'Math.floor(memoryMB / 1769)',
        replace: 'Math.ceil(memoryMB / 1769)',
        tests: ['test/lib/inference/warm-up.test.ts'],
      },
    ],
  },
  {
    file: 'lib/inference/session.ts',
    tests: [
      'test/lib/inference/model.test.ts',
      'test/bad-input/models.test.ts',
      'test/lib/inference/runner.test.ts',
    ],
    bugs: [
      {
        guarantee: 'a text that is not UTF-8 is never answered with another character',
        find: 'assertCarried(made, feeds);',
        replace: '',
        tests: ['test/lib/http/open-inference/endpoint.test.ts'],
      },
      {
        guarantee: 'a model without inputs is refused',
        find: "if (inputs.length === 0) throw modelUnavailable('the model has no inputs');",
        replace: '',
      },
    ],
  },
  {
    file: 'sdk/http/input-queue.ts',
    tests: [SDK],
    bugs: [
      {
        guarantee: 'tracestate travels over HTTPS too',
        find: '...(/^[ -~]{1,512}$/.test(tracestate) && { tracestate })',
        replace: '...(tracestate.length > 9_999 && { tracestate })',
        tests: ['test/e2e/traces.test.ts'],
      },
      {
        guarantee: 'every error of enqueue carries the uri',
        find: 'throw withUri(error, uri);',
        replace: 'throw error;',
      },
      {
        guarantee: 'enqueueMany throws when a record was not taken',
        find: 'if (errors.length === 0) return taken;',
        replace: 'if (errors.length < 1_000) return taken;',
      },
      {
        guarantee: 'enqueueMany has a bounded number of records under way',
        find: 'if (flying.size < IN_FLIGHT) continue;',
        replace: 'continue;',
      },
      {
        guarantee: 'nothing is under way when enqueueMany has ended',
        find: 'await Promise.all(flying);',
        replace: '',
      },
      {
        guarantee: 'predict has a time limit',
        find: "{ timeoutMs, signal, what: 'there was no prediction in' }",
        replace: "{ timeoutMs: 100_000, signal, what: 'there was no prediction in' }",
      },
    ],
  },
  {
    file: 'sdk/input-queue.ts',
    tests: [SDK],
    bugs: [
      {
        guarantee: 'a queue that was closed takes no record',
        find: "if (this.#isClosed) throw badRequest('this queue was closed');",
        replace: '',
      },
    ],
  },
  {
    file: 'sdk/queue.ts',
    tests: [SDK],
    bugs: [
      {
        guarantee: 'a queue that could not be found is looked for again',
        find: '      this.#sender = undefined;\n      throw error;',
        replace: '      throw error;',
      },
    ],
  },
  {
    file: 'sdk/worker-client.ts',
    tests: [WKR_CLIENT],
    bugs: [
      {
        guarantee: 'the answer of another request is refused',
        find: "if (header['id'] !== marked)",
        replace: "if (typeof header['id'] !== 'string')",
      },
      {
        guarantee: 'clients with one identity tell their requests apart',
        find: '`--${crypto.randomUUID().slice(0, 8)}`',
        replace: "'--00000000'",
      },
      {
        guarantee: 'a request that waits for room is sent again only after a refusal',
        find: 'answer.status !== 429 || performance.now()',
        replace: 'performance.now()',
      },
      {
        guarantee: 'encodeAsync ends with its consumer',
        find: 'if (sending.isStopped) break;',
        replace: '',
      },
      {
        guarantee: 'what an iterator throws reaches the caller',
        find: "if ('error' in sending) throw sending.error;",
        replace: '',
      },
    ],
  },
  {
    file: 'sdk/wkr/answers.ts',
    tests: [WKR_CLIENT],
    bugs: [
      {
        guarantee: 'a value has no blocks that belong to none',
        find: 'if (isLast) reader.end();',
        replace: '',
      },
      {
        guarantee: 'an item over 32 MiB is not sent',
        find: 'if (size <= MAX_FRAME_BYTES) return',
        replace: 'if (size > 0) return',
      },
      {
        guarantee: 'an outcome is a value or an error',
        find: 'Object.keys(outcome).length !== 1',
        replace: 'Object.keys(outcome).length < 1',
      },
    ],
  },
  {
    file: 'sdk/wkr/results.ts',
    tests: [WKR_CLIENT],
    bugs: [
      {
        guarantee: 'ids sort as numbers',
        find: 'BigInt(id) : undefined',
        replace: 'id : undefined',
      },
      {
        guarantee: 'a caller that stops waiting loses no result',
        find: 'await Promise.race([this.#asking, this.#change()]);',
        replace: 'await this.#asking;',
      },
    ],
  },
  {
    file: 'sdk/fetch.ts',
    tests: [SDK, HTTP_RESULTS],
    bugs: [
      {
        guarantee: 'a request over its time limit is aborted',
        find: '...init, signal: end }',
        replace: '...init }',
      },
      {
        guarantee: 'an answer over 64 MiB is refused, and not read beyond its limit',
        find: 'isTooLarge = size > maxBytes;',
        replace: 'isTooLarge = false;',
      },
      {
        guarantee: 'an answer that says it is too long is not read',
        find: "Number(headers.get('content-length') ?? 0) > maxBytes",
        replace: 'false',
      },
      {
        guarantee: 'the code of the service reaches the caller',
        find: 'const known = errorCodeOf(code) ?? codeOfStatus(status);',
        replace: 'const known = codeOfStatus(status);',
      },
      {
        guarantee: "a gateway's 403 is unauthorized",
        find: "403: 'unauthorized',",
        replace: '',
      },
      {
        guarantee: "a gateway's 429 is rate_limited",
        find: "429: 'rate_limited',",
        replace: '',
      },
      {
        guarantee: 'a url that is no API says so',
        find: 'if (answer.status === 404 && errorCodeOf(code) === undefined) {',
        replace: 'if (false) {',
      },
    ],
  },
  {
    file: 'sdk/http-results.ts',
    tests: [HTTP_RESULTS],
    bugs: [
      {
        guarantee: 'wait ends with timeout',
        find: 'limitMs > 0; limitMs = endAt - now()',
        replace: 'limitMs > -10_000; limitMs = endAt - now()',
      },
      {
        guarantee: 'a wait for a silent service ends with its limit',
        find: 'limitMs: Math.min(ANSWER_MS, limitMs)',
        replace: 'limitMs: Math.min(ANSWER_MS, Math.max(2_000, limitMs))',
      },
      {
        guarantee: 'an answer that is no result is an error that says so',
        find: "if (typeof Object(body).uri === 'string') return",
        replace: 'return',
      },
      {
        guarantee: 'a server that does not wait is not asked without a pause',
        find: 'if (pauseMs > 0) await',
        replace: 'if (pauseMs > 1_000) await',
      },
      {
        guarantee: 'what was taken and not yielded is in the next drain',
        find: 'for (let more = true; ; ) {',
        replace: 'for (let more = true; ; ) {\n      if (more) this.#left.length = 0;',
      },
      {
        guarantee: 'a failed record throws its own error',
        find: "if (json.status !== 'succeeded') throw failureOf(json);",
        replace: '',
      },
      {
        guarantee: 'a uri without a result is undefined',
        find: "error.code === 'not_found' && error.uri === undefined",
        replace: "error.code === 'conflict' && error.uri === undefined",
      },
      {
        guarantee: 'cancel is false when it is too late',
        find: "if (ServingError.from(error).code === 'conflict') return false;",
        replace: '',
      },
      {
        guarantee: 'a uri keeps its question mark and its slashes',
        find: '`uri=${encodeURIComponent(uri)}${',
        replace: '`uri=${uri}${',
      },
    ],
  },
  {
    file: 'sdk/http/tensors.ts',
    tests: [HTTP_RESULTS],
    bugs: [
      {
        guarantee: 'int64 beyond 2^53 comes back exactly',
        find: 'return BigInt(element);',
        replace: 'return BigInt(Number(element));',
      },
    ],
  },
  {
    file: 'sdk/http/output-queue.ts',
    tests: [HTTP_RESULTS],
    bugs: [
      {
        guarantee: 'dequeue gives what was taken when the store goes away meanwhile',
        find: 'if (all.size === 0) throw error;',
        replace: 'throw error;',
      },
      {
        guarantee: 'dequeue throws when nothing was taken',
        find: 'if (all.size === 0) throw error;',
        replace: '',
      },
      {
        guarantee: 'an aborted signal ends a wait before it begins',
        find: 'signal?.throwIfAborted();\n    const asked',
        replace: 'const asked',
        survives:
          'Equivalent: request() and ResultStore.wait() end at once with an aborted signal and throw its reason.',
      },
    ],
  },
  {
    file: 'sdk/inputs.ts',
    tests: [INPUTS],
    bugs: [
      {
        guarantee: 'a Buffer is refused, because it may mean an image or numbers',
        find: "if (typeof Buffer === 'function' && Buffer.isBuffer(value)) {",
        replace: 'if (value === null) {',
      },
      {
        guarantee: 'elements and shape agree',
        find: 'assertCount(shape, data.length, TENSOR_ELEMENTS);',
        replace: '',
      },
      {
        guarantee: 'plain numbers keep all their digits',
        find: 'data.every((element, i) => Object.is(element, tensor.data[i]))',
        replace: 'data.every(() => true)',
      },
      {
        guarantee: 'a record needs an input',
        find: 'if (entries.length === 0) throw',
        replace: 'if (entries.length < 0) throw',
      },
    ],
  },
  {
    file: 'sdk/image-file.ts',
    tests: [INPUTS],
    bugs: [
      {
        guarantee: 'an image file that cannot be read is bad_request',
        find: 'throw badRequest(`cannot read the image file',
        replace: 'throw new Error(`cannot read the image file',
        survives:
          'Equivalent: toInputs turns any error that is none of ours into bad_request with the same message.',
      },
    ],
  },
  {
    file: 'cli/dlq/where.ts',
    tests: ['test/cli/dlq/where.test.ts'],
    bugs: [
      {
        guarantee: 'since= is the first moment that counts',
        find: 'archivedAt >= since',
        replace: 'archivedAt > since',
      },
      {
        guarantee: 'until= is the first moment that does not',
        find: 'archivedAt < until',
        replace: 'archivedAt <= until',
      },
      {
        guarantee: 'given ids restrict what is found',
        find: '(only.size === 0 || only.has(id)) && ',
        replace: '',
      },
      {
        guarantee: 'a condition is given once',
        find: 'if (given.has(field)) throw',
        replace: 'if (given.size > 100) throw',
      },
      {
        guarantee: 'uri=none finds messages without a uri',
        find: "if (pattern === 'none') return uri === undefined;",
        replace: '',
      },
      {
        guarantee: 'code= needs to know where results are',
        find: 'if (where.code === undefined || results) return;',
        replace: 'return;',
      },
    ],
  },
  {
    file: 'cli/confirm.ts',
    tests: [DLQ],
    bugs: [
      {
        guarantee: 'without a terminal nothing is deleted without --yes',
        find: 'if (!canAsk()) throw',
        replace: 'if (!canAsk()) return true;\n  if (!canAsk()) throw',
      },
    ],
  },
  {
    file: 'cli/dlq/purge.ts',
    tests: [DLQ],
    bugs: [
      {
        guarantee: 'a purge without --yes asks',
        find: 'if (!yes && !(await confirmed(',
        replace: 'if (yes && !(await confirmed(',
      },
    ],
  },
  {
    file: 'local/console/replay.ts',
    tests: [REPLAY],
    bugs: [
      {
        guarantee: 'a dry run stores and removes nothing',
        find: "this.#options.dryRun ? 'replaced' : await",
        replace: 'await',
      },
      {
        guarantee: 'a message leaves the bucket only when its result is stored',
        find: 'message: body }, sent, outcome)) done.push(id);',
        replace: 'message: body }, sent, outcome) || true) done.push(id);',
      },
    ],
  },
];
