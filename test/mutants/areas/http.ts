/** Bugs in lib/http, lib/compose and functions: statuses, limits, what is asked of whom, what comes again. */
import type { Suite } from '../mutant.ts';

const KEYS = 'test/bad-input/keys.test.ts';
const RESPONSE = 'test/lib/http/response.test.ts';
const ENDPOINT = 'test/lib/http/predictions-endpoint.test.ts';
const ENVELOPES = 'test/bad-input/envelopes.test.ts';
const SECURITY = 'test/security/http.test.ts';
const INFERENCE = 'test/lib/http/inference.test.ts';
const EXTENSIONS = 'test/lib/http/open-inference/endpoint.test.ts';
const REFUSALS = 'test/lib/http/inference-refusals.test.ts';
const PREDICTIONS = 'test/bad-input/predictions.test.ts';
const PREDICT = 'test/bad-input/predict.test.ts';
const SERVE = 'test/lib/pipeline/serve.test.ts';
const STATUS = 'test/functions/status.test.ts';
const DEAD_LETTER = 'test/functions/dead-letter.test.ts';
const COMPOSED_PREDICT = 'test/lib/compose/predict.test.ts';

export const HTTP: readonly Suite[] = [
  {
    file: 'lib/http/response.ts',
    tests: [RESPONSE],
    bugs: [
      {
        guarantee: 'errors of 500 and above are logged',
        find: 'if (error.status >= 500) log(error);',
        replace: '',
        tests: [RESPONSE, 'test/security/internal-errors.test.ts'],
      },
      {
        guarantee: '503 says when to come back',
        find: 'error.status === 503 || error.status === 429',
        replace: 'error.status === 429',
      },
      {
        guarantee: '429 says when to come back',
        find: 'error.status === 503 || error.status === 429',
        replace: 'error.status === 503',
        tests: [RESPONSE, COMPOSED_PREDICT, INFERENCE],
      },
      {
        guarantee: 'no browser takes an answer for a page',
        find: "return { 'content-type': `${type}; charset=utf-8`, 'x-content-type-options': 'nosniff' };",
        replace: "return { 'content-type': `${type}; charset=utf-8` };",
        tests: ['test/lib/http/predictions.test.ts'],
      },
      {
        guarantee: 'no browser takes a binary answer for a page',
        find: "{ 'content-type': 'application/octet-stream', 'x-content-type-options': 'nosniff' }",
        replace: "{ 'content-type': 'application/octet-stream' }",
        tests: ['test/lib/http/predictions.test.ts'],
      },
      {
        guarantee: 'a request is answered with 504 before Lambda ends',
        find: 'setTimeout(late, limitMs)',
        replace: 'setTimeout(() => undefined, limitMs)',
      },
      {
        guarantee: 'half a second is kept for the answer',
        find: 'ANSWER_MS = 500',
        replace: 'ANSWER_MS = 0',
      },
      {
        guarantee: 'an error answer holds the public message only',
        find: 'const ownBody: ErrorBody = ({ publicMessage, code, uri }) => ({\n  error: publicMessage,',
        replace: 'const ownBody: ErrorBody = ({ message, code, uri }) => ({\n  error: message,',
      },
    ],
  },
  {
    file: 'lib/http/request.ts',
    tests: [ENVELOPES],
    bugs: [
      {
        guarantee: 'a gzip body is capped while it grows',
        find: 'unzip(bytes, { maxOutputLength: LIMITS[limit] })',
        replace: 'unzip(bytes)',
      },
      {
        guarantee: 'a content-encoding other than gzip and deflate is refused with 415',
        find: 'if (!unzip) {',
        replace: "if (encoding === 'br') {",
      },
      {
        guarantee: 'a body over 6 MiB is refused with 413',
        find: 'if (bytes > LIMITS[limit]) throw',
        replace: 'if (bytes > 2 * LIMITS.httpBodyBytes) throw',
      },
      {
        guarantee: 'a body of exactly 6 MiB is taken',
        find: 'if (bytes > LIMITS[limit]) throw',
        replace: 'if (bytes >= LIMITS.httpBodyBytes) throw',
      },
      {
        guarantee: "a broken gzip body is the caller's fault",
        find: 'throw badRequest(`the ${encoding} body cannot be read',
        replace: 'throw new Error(`the gzip body cannot be read',
      },
      {
        guarantee: 'a body of text is counted in bytes',
        find: 'text.length * 3 <= LIMITS[limit] ? text.length : Buffer.byteLength(text)',
        replace: 'text.length',
      },
      {
        guarantee: 'a uri whose bytes are no UTF-8 is refused',
        find: 'if (uri.includes(REPLACEMENT)) assertUtf8(event.rawQueryString);',
        replace: '',
        tests: [ENDPOINT],
      },
      {
        guarantee: 'the bytes behind the JSON lie on a boundary, so that a typed array needs no copy',
        find: 'const start = past === 0 ? 0 : BOUNDARY - past;',
        replace: 'const start = past;',
        tests: ['test/lib/pipeline/buffer-pool.test.ts', INFERENCE],
      },
    ],
  },
  {
    file: 'lib/http/predictions.ts',
    tests: [PREDICTIONS, ENDPOINT, SECURITY],
    bugs: [
      {
        guarantee: "Location is a query where a path would lose the uri's slashes",
        find: '/^[\\w-]+$/.test(uri) ?',
        replace: 'true ?',
      },
      {
        guarantee: 'there is one uri per instance',
        find: 'given.length !== count',
        replace: 'given.length < count',
      },
      {
        guarantee: 'two instances cannot share a uri',
        find: 'if (twice !== undefined) {',
        replace: 'if (twice === null) {',
      },
      {
        guarantee: 'a uri of the body is checked',
        find: 'const checked = given.map(assertUri);',
        replace: 'const checked = given.map(String);',
      },
      {
        guarantee: 'a record that cannot be read is refused before it is queued',
        find: '    decodeData(record);\n',
        replace: '',
      },
      {
        guarantee: 'an answer over 6 MiB is refused before it is written',
        find: 'if (elements * 2 <= LIMITS.httpBodyBytes) return;',
        replace: 'return;',
        tests: ['test/lib/http/predictions.test.ts'],
      },
      {
        guarantee: 'an answer over 6 MiB is refused',
        find: 'if (bytes > LIMITS.httpBodyBytes) {',
        replace: 'if (bytes > 2 * LIMITS.httpBodyBytes) {',
        tests: [ENDPOINT],
      },
      {
        guarantee: "a wait is capped at 20 s, below the gateway's 30",
        find: 'Math.min(seconds, MAX_WAIT_SECONDS)',
        replace: 'seconds',
        tests: [ENDPOINT],
      },
      {
        guarantee: 'a cancelled record is answered as cancelled and not as failed',
        find: "error.code === 'cancelled' ? 'cancelled' : 'failed'",
        replace: "'failed'",
        tests: ['test/lib/http/predictions.test.ts'],
      },
      {
        guarantee: 'a page says whether there is more',
        find: '"more":${page !== undefined}',
        replace: '"more":${texts.length > 0}',
        tests: ['test/lib/http/predictions.test.ts'],
      },
    ],
  },
  {
    file: 'lib/http/results.ts',
    tests: [ENDPOINT],
    bugs: [
      {
        guarantee: 'a DELETE does not destroy a result that is too large to answer',
        find: 'const seen = await answerWith(asked,',
        replace: "const seen = method === 'DELETE' ? json(200, {}) : await answerWith(asked,",
        tests: [ENDPOINT],
      },
      {
        guarantee: 'a DELETE answers with what it deleted itself',
        find: 'return await answerWith(asked, (use) => results.take(uri, { identity, fetched, use }));',
        replace:
          'await answerWith(asked, (use) => results.take(uri, { identity, fetched, use }));\n    return json(200, {});',
      },
      {
        guarantee: 'a DELETE deletes',
        find: "if (method !== 'DELETE') return seen;",
        replace: 'return seen;',
      },
      {
        guarantee: 'the failure of another record is not an answer',
        find: '|| error.uri !== uri) throw error;',
        replace: ') throw error;',
        tests: [ENDPOINT, PREDICTIONS, SECURITY, 'test/security/internal-errors.test.ts'],
      },
      {
        guarantee: 'a uri without a result is answered with 404',
        find: "throw new ServingError('not_found', 'no result",
        replace: "throw new ServingError('bad_request', 'no result",
      },
      {
        guarantee: 'a page of results keeps to its bytes',
        find: 'results.takePage(PAGE, PAGE_BYTES)',
        replace: 'results.takePage(PAGE, Number.MAX_SAFE_INTEGER)',
        tests: ['test/lib/http/predictions.test.ts', ENDPOINT],
      },
    ],
  },
  {
    file: 'lib/http/accept.ts',
    tests: [PREDICTIONS, SECURITY],
    bugs: [
      {
        guarantee: '202 comes only when SQS has every record',
        find: 'await sendAnnounced(',
        replace: 'void sendAnnounced(',
        tests: ['test/lib/http/predictions.test.ts', PREDICTIONS],
      },
      {
        guarantee: 'several records are answered with their uris',
        find: 'if (records.length === 1)',
        replace: 'if (records.length <= 2)',
        tests: ['test/lib/http/predictions.test.ts'],
      },
    ],
  },
  {
    file: 'lib/http/accept-many.ts',
    tests: ['test/lib/http/accept-many.test.ts'],
    bugs: [
      {
        guarantee: 'a record that the queue did not take is not reported as accepted',
        find: 'entries[place] = { line, is: withUri(error, is.uri) };',
        replace: 'void place;',
      },
      {
        guarantee: 'of lines with one uri the last is sent last',
        find: 'of [false, true]',
        replace: 'of [true, false]',
      },
      {
        guarantee: 'the last line of a uri waits until the queue has the others',
        find: 'await Promise.all(sent);\n  }\n  return',
        replace: 'if (isLast) await Promise.all(sent);\n  }\n  return',
      },
      {
        guarantee: 'a body has a limit of records',
        find: 'assertRecords(lines.length + 1);',
        replace: '',
      },
      {
        guarantee: 'a table has a limit of records',
        find: "readCsv(request.body(), 'recordsPerBody')",
        replace: 'readCsv(request.body())',
      },
      {
        guarantee: 'the lines of a body share its limits',
        find: 'structure?.assertFits();',
        replace: '',
        tests: ['test/bad-input/costly.test.ts'],
      },
      {
        guarantee: 'blank lines count as lines, and are no records',
        find: 'if (!text) continue;',
        replace: 'if (!text && line-- > 0) continue; else if (!text) continue;',
      },
      {
        guarantee: 'a body of which a record was refused is not answered with 202',
        find: 'refused === 0 ? 202 : 207',
        replace: '202',
      },
      {
        guarantee: 'texts of outside errors stay in the log',
        find: 'publicMessage: error',
        replace: 'message: error',
      },
      {
        guarantee: 'what failed for one reason has one line in the log',
        find: 'failures.set(is.message, is)',
        replace: 'failures.set(String(is.uri), is)',
      },
      {
        guarantee: 'the column of the uris is no input',
        find: 'const isInput = (_: string, i: number) => i !== at;',
        replace: 'const isInput = (_: string, i: number) => i !== -2;',
      },
    ],
  },
  {
    file: 'lib/http/body-keys.ts',
    tests: [KEYS],
    bugs: [
      {
        guarantee: 'a key that asks for something is refused',
        find: 'else assertNeedless(key, known, Object.hasOwn(body, known[0] as string));',
        replace: 'else ignored.push(key);',
      },
      {
        guarantee: 'DELETE of a page is refused where its query narrows it',
        find: 'if (isAll && !/^x-/i.test(name))',
        replace: 'if (false)',
      },
      {
        guarantee: 'a header says what was ignored',
        find: 'if (ignored.length === 0) return undefined;',
        replace: 'if (ignored.length >= 0) return undefined;',
      },
    ],
  },
  {
    file: 'lib/http/states.ts',
    tests: ['test/lib/http/predictions.test.ts'],
    bugs: [
      {
        guarantee: 'POST /cancel is answered with 409 when it is too late',
        find: "throw new ServingError('conflict'",
        replace: "throw new ServingError('bad_request'",
      },
    ],
  },
  {
    file: 'lib/http/cors.ts',
    tests: [SECURITY],
    bugs: [
      {
        guarantee: 'without an origin there are no CORS rules',
        find: 'if (allowedOrigins.length === 0) return undefined;',
        replace: "if (allowedOrigins.length === 0) return corsRules(['*']);",
      },
    ],
  },
  {
    file: 'lib/http/open-inference/endpoint.ts',
    tests: [REFUSALS, INFERENCE],
    bugs: [
      {
        guarantee: '/v2/health/ready opens the model',
        find: "path === '/v2/health/live'",
        replace: "path.startsWith('/v2/health/')",
      },
      {
        guarantee: 'POST alone runs the model',
        find: "} else if (name !== undefined && what !== 'infer')",
        replace: '} else if (name !== undefined)',
      },
    ],
  },
  {
    file: 'lib/http/open-inference/run.ts',
    tests: [REFUSALS, INFERENCE],
    bugs: [
      {
        guarantee: '/v2 takes from the same token bucket as /predict',
        find: 'await limiter?.acquire(caller);',
        replace: '',
      },
      {
        guarantee: "another model's name is answered with 404",
        find: 'if (name === job) return;',
        replace: 'return;',
      },
      {
        guarantee: 'another version than the one that serves is answered with 404',
        find: 'if (version === undefined || version === runner.version) return;',
        replace: 'return;',
      },
      {
        guarantee: 'an unknown output is refused before the run',
        find: 'assertOutputs(request, runner.outputs);',
        replace: '',
        tests: [REFUSALS, INFERENCE],
      },
      {
        guarantee: 'data and shape must agree',
        find: 'if (!isFlat && formatShape(given.shape) !== formatShape(shape)) {',
        replace: 'if (false) {',
      },
      {
        guarantee: 'outputs come in the order they were asked for',
        find: 'return asked.outputs.map(({ name, binary, classes }) =>',
        replace: 'return asked.outputs.toReversed().map(({ name, binary, classes }) =>',
      },
      {
        guarantee: 'a request does not run after its timeout',
        find: 'watch.ms > (request.timeoutMs ?? Number.POSITIVE_INFINITY)',
        replace: 'false',
        tests: [EXTENSIONS],
      },
      {
        guarantee: 'an output that cannot be classified is refused before the run',
        find: 'if (classes !== undefined) assertClassified(name, spec);',
        replace: '',
        tests: [EXTENSIONS],
      },
    ],
  },
  {
    file: 'lib/http/open-inference/classification.ts',
    tests: [EXTENSIONS],
    bugs: [
      {
        guarantee: 'the classes of a row are its own',
        find: 'largest(count, start, width)',
        replace: 'largest(count, 0, width)',
      },
      {
        guarantee: 'a row has the labels of as many values only',
        find: 'labels?.length === width ? labels : undefined',
        replace: 'labels',
      },
      {
        guarantee: 'each row is ordered by itself',
        find: 'const rows = isBatched ? (shape[0] as number) : 1;',
        replace: 'const rows = 1;',
      },
      {
        guarantee: 'at most a million texts are made',
        find: 'if (rows * count > MOST_TEXTS) {',
        replace: 'if (count > MOST_TEXTS) {',
      },
    ],
  },
  {
    file: 'lib/http/open-inference/compression.ts',
    tests: [EXTENSIONS],
    bugs: [
      {
        guarantee: 'the list of codings that a library sends by itself is no wish',
        find: 'const encoding = accepted?.trim().toLowerCase();',
        replace: "const encoding = accepted?.split(',')[0]?.trim().toLowerCase();",
      },
    ],
  },
  {
    file: 'lib/http/open-inference/statistics.ts',
    tests: ['test/lib/http/open-inference/extensions.test.ts'],
    bugs: [
      {
        guarantee: 'sizes of batches are listed up to a limit',
        find: 'this.#sizes.size < MOST_SIZES && ',
        replace: '',
      },
      {
        guarantee: 'a version that no longer serves is forgotten',
        find: 'if (versions.size > MOST_VERSIONS) versions.delete(old);',
        replace: '{}',
      },
    ],
  },
  {
    file: 'lib/http/open-inference/answer.ts',
    tests: [INFERENCE, REFUSALS],
    bugs: [
      {
        guarantee: 'a binary answer that Lambda would not carry is refused before it is written',
        find: 'if (bytes <= LIMITS.httpBodyBytes) return;',
        replace: 'return;',
        tests: ['test/lib/http/predictions.test.ts'],
      },
      {
        guarantee: 'tensors begin at a multiple of 8',
        find: 'Math.ceil(length / BOUNDARY) * BOUNDARY',
        replace: 'length',
      },
    ],
  },
  {
    file: 'functions/status.ts',
    tests: [STATUS],
    bugs: [
      {
        guarantee: '/ready asks Redis',
        find: 'serving: results.serving() }',
        replace: 'serving: Promise.resolve([]) }',
      },
      {
        guarantee: '/ready asks which model serves',
        find: 'model: modelVersion(),',
        replace: "model: Promise.resolve(''),",
      },
      {
        guarantee: 'an unknown path is answered with 404',
        find: "if (path !== '/ready') throw",
        replace: "if (path === '') throw",
      },
      {
        guarantee: 'GET / is the welcome text of the old front end',
        find: 'welcome to analytics zoo web serving frontend',
        replace: 'welcome to cluster serving',
      },
    ],
  },
  {
    file: 'functions/dead-letter.ts',
    tests: [DEAD_LETTER],
    bugs: [
      {
        guarantee: 'a message whose failure could not be saved comes again',
        find: 'for (const unsavedId of unsaved) again.add(unsavedId);',
        replace: '',
      },
      {
        guarantee: 'a message that could not be archived comes again',
        find: 'new Set(await archiveDead(Records, dead, deps))',
        replace: 'new Set((await archiveDead(Records, dead, deps), [] as string[]))',
      },
      {
        guarantee: 'a message without a uri is archived and done',
        find: 'if (uri === undefined) continue;',
        replace: 'if (uri === undefined) { again.add(id); continue; }',
      },
    ],
  },
  {
    file: 'lib/pipeline/dead-letters.ts',
    tests: [DEAD_LETTER],
    bugs: [
      {
        guarantee: 'a dead-lettered message is archived as it was delivered',
        find: 'groupId,\n    body,',
        replace: 'groupId,\n    body: "",',
      },
      {
        guarantee: 'a dead letter keeps the tenant of its record',
        find: 'attempts,\n    groupId,',
        replace: 'attempts,',
      },
    ],
  },
  {
    file: 'lib/pipeline/dead-letters.ts',
    tests: [DEAD_LETTER],
    bugs: [
      {
        guarantee: 'one message that fails does not keep the others from being archived',
        find: 'lost.add(id);\n      logError',
        replace: 'throw error;\n      logError',
      },
    ],
  },
  {
    file: 'functions/batch.ts',
    tests: [SERVE],
    bugs: [
      {
        guarantee: 'all messages come again when the model or Redis is away',
        find: 'return failures(Records.map(({ messageId }) => messageId));',
        replace: 'return failures([]);',
      },
      {
        guarantee: 'exactly the messages that must come again are named',
        find: 'ids.map((id) => ({ itemIdentifier: id }))',
        replace: 'ids.slice(1).map((id) => ({ itemIdentifier: id }))',
      },
    ],
  },
  {
    file: 'functions/predict.ts',
    tests: [INFERENCE, SERVE],
    bugs: [
      {
        guarantee: 'POST /predict takes a token',
        find: 'if (deps.limiter) await deps.limiter.acquire(clock?.caller);',
        replace: '',
        tests: ['test/lib/http/predictions.test.ts'],
      },
      {
        guarantee: 'a request fails as a whole when one instance fails',
        find: 'serveRequest(instances, runner, policy, deps.observers)',
        replace: 'runner.run(instances, policy)',
        tests: [SERVE, PREDICT],
      },
      {
        guarantee: 'a request has a deadline',
        find: 'const policy = requestPolicy(clock);',
        replace: 'const policy = { isOver: () => requestPolicy === undefined };',
        tests: ['test/lib/http/predictions.test.ts', SERVE],
      },
    ],
  },
  {
    file: 'lib/compose/results.ts',
    tests: ['test/upgrade/upgrade.test.ts', 'test/compose/call-stack.test.ts'],
    bugs: [
      {
        guarantee: 'a message may come again for twice its visibility timeout after its result was stored',
        find: 'redeliveryMs: 2 * visibilityTimeoutSeconds(job) * 1000,',
        replace: 'redeliveryMs: 0,',
        tests: ['test/lib/compose/redis.test.ts'],
      },
      {
        guarantee: 'results stay for the time of the configuration',
        find: 'ttlSeconds: job.resultTtlSeconds,',
        replace: 'ttlSeconds: 60,',
        tests: ['test/lib/compose/redis.test.ts'],
      },
    ],
  },
  {
    file: 'lib/compose/redis.ts',
    tests: ['test/upgrade/upgrade.test.ts', 'test/compose/call-stack.test.ts'],
    bugs: [
      {
        guarantee: 'a job without tokenBucketEnabled has no limit',
        find: 'if (!http.tokenBucketEnabled) return undefined;',
        replace: '',
        tests: ['test/lib/compose/redis.test.ts'],
      },
    ],
  },
  {
    file: 'lib/compose/scope.ts',
    tests: ['test/lib/compose/scope.test.ts'],
    bugs: [
      {
        guarantee: 'a part is opened once',
        find: 'this.#opened.set(part, opened);',
        replace: '',
      },
      {
        guarantee: 'what could not be opened is tried again',
        find: 'if (opened instanceof Promise) opened.catch(() => this.#opened.delete(part));',
        replace: 'if (opened instanceof Promise) opened.catch(() => undefined);',
      },
    ],
  },
  {
    file: 'lib/compose/versions.ts',
    tests: ['test/faults/swap/folder.test.ts'],
    bugs: [
      {
        guarantee: 'a version that does not open does not keep its folder',
        find: 'this.#latest = before;',
        replace: ';',
      },
      {
        guarantee: 'an old version goes when it is closed',
        find: 'this.#open.splice(this.#open.indexOf(runner), 1);',
        replace: '',
      },
      {
        guarantee: 'a version that is still used keeps its files',
        find: 'new Set([...this.#open.map(({ version }) => version), ...this.#latest])',
        replace: 'new Set(this.#latest)',
        survives:
          'Equivalent while a third version waits until the first is closed (lib/inference/model-manager.ts): what is open is then always among the latest.',
      },
    ],
  },
  {
    file: 'lib/compose/model.ts',
    tests: ['test/lib/compose/model.test.ts'],
    bugs: [
      {
        guarantee: 'a model that cannot load does not keep the function from starting',
        find: "await host.ready().catch((error: unknown) => logError(error, { phase: 'model' }));",
        replace: 'await host.ready();',
      },
    ],
  },
];
