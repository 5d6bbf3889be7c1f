/** Bugs in lib/pipeline: chunks, deadline, batches, isolation of poison records, binding, casts, postprocessing. */
import type { Suite } from '../mutant.ts';

const BATCH = 'test/lib/pipeline/batch.test.ts';
const OUTPUT_AXES = 'test/lib/pipeline/batch-axes.test.ts';
const AXES = 'test/lib/inference/batch-axes.test.ts';
const MEANING = 'test/lib/inference/record-meaning.test.ts';
const RUNNER = 'test/lib/inference/runner.test.ts';
const ISOLATION = 'test/lib/pipeline/poison-isolation.test.ts';
const SERVE = 'test/lib/pipeline/serve.test.ts';
const COUNTED = 'test/lib/pipeline/counted-runs.test.ts';
const PAYLOADS = 'test/lib/s3/payloads.test.ts';
const POOL = 'test/lib/pipeline/buffer-pool.test.ts';
const CAST = 'test/lib/pipeline/cast.test.ts';
const POSTPROCESS = 'test/lib/pipeline/postprocess.test.ts';
const BUDGET = 'test/bad-input/budget.test.ts';
const PREDICT = 'test/bad-input/predict.test.ts';
const QUEUE = 'test/bad-input/queue.test.ts';
const INFERENCE = 'test/lib/http/inference.test.ts';
const NAMES = 'test/bad-input/names.test.ts';

export const PIPELINE: readonly Suite[] = [
  {
    file: 'lib/pipeline/serve.ts',
    tests: [SERVE],
    bugs: [
      {
        guarantee: 'a redelivered record runs in an isolated process, from its second delivery on',
        find: 'some(({ attempts }) => attempts > 1)',
        replace: 'some(({ attempts }) => attempts > 2)',
        tests: [SERVE],
      },
      {
        guarantee: 'a new record does not pay for an isolated process',
        find: 'some(({ attempts }) => attempts > 1)',
        replace: 'some(({ attempts }) => attempts > 0)',
        tests: [SERVE],
      },
      {
        guarantee: 'a request with one failed instance fails as a whole',
        find: 'if (!outcome.ok) throw inInstance(outcome.error, index, outcomes.length);',
        replace: '',
      },
      {
        guarantee: 'a failure that may pass sends its message back and stores no outcome',
        find: 'if (!outcome.ok && outcome.error.retryable)\n      returned.push({ id, error: outcome.error, trace: enqueue.trace });\n    else ',
        replace: '',
      },
      {
        guarantee: 'messages that could not be saved come again',
        find: 'return [...[...again, ...unarchived].map(({ id }) => id), ...unsaved];',
        replace: 'return [...again, ...unarchived].map(({ id }) => id);',
        tests: [SERVE],
      },
      {
        guarantee: 'messages that were returned come again',
        find: 'return [...[...again, ...unarchived].map(({ id }) => id), ...unsaved];',
        replace: 'return [...unarchived.map(({ id }) => id), ...unsaved];',
      },
      {
        guarantee: 'nothing is saved of a chunk that there was no time for',
        find: 'const ids = isLate({ finished, returned }) ? [] : saveObserved',
        replace: 'const ids = saveObserved',
      },
      {
        guarantee: 'outputs that are the memory of the inputs are copied before that memory is used again',
        find: 'if (!outcome.ok || !outcome.outputs.some(({ data }) => buffers.owns(data))) return outcome;',
        replace: 'return outcome;',
        tests: [POOL, SERVE],
      },
    ],
  },
  {
    file: 'lib/observe/failures.ts',
    tests: [SERVE],
    bugs: [
      {
        guarantee: 'failures of 500 and above reach the log of the operator',
        find: 'outcome.error.status >= 500',
        replace: 'outcome.error.status > 500',
      },
    ],
  },
  {
    file: 'lib/observe/together.ts',
    tests: ['test/observe/together.test.ts'],
    bugs: [
      {
        guarantee: 'an observer that throws fails nothing',
        find: '} catch (error) {\n          drop(one, error);',
        replace: '} catch (error) {\n          throw error;',
      },
      {
        guarantee: 'an answer waits for its observers no longer than it may',
        find: 'await Promise.race([work, late]);',
        replace: 'await work;',
      },
    ],
  },
  {
    file: 'lib/pipeline/chunks.ts',
    tests: [PAYLOADS, SERVE],
    bugs: [
      {
        guarantee: 'redelivered messages run in chunks of their own',
        find: 'return attempts <= 1;',
        replace: 'return attempts <= 2;',
      },
      {
        guarantee: 'redelivered messages run after the new ones',
        find: '[messages.filter(isFresh), messages.filter((message) => !isFresh(message))]',
        replace: '[messages.filter((message) => !isFresh(message)), messages.filter(isFresh)]',
      },
      {
        guarantee: 'no chunk begins when there is no time for it',
        find: 'if (isOver()) {',
        replace: 'if (false) {',
      },
      {
        guarantee: 'messages there was no time for come again',
        find: 'if (late.length > 0) yield late;',
        replace: '',
      },
      {
        guarantee: 'what a chunk had no room for is in the next one',
        find: 'left = left.slice(bodies.length);',
        replace: 'left = [];',
      },
    ],
  },
  {
    file: 'lib/pipeline/deadline.ts',
    tests: [ISOLATION],
    bugs: [
      {
        guarantee: 'a tenth of the time is kept for saving the results',
        find: 'RESERVE_SHARE = 0.1',
        replace: 'RESERVE_SHARE = 0.01',
      },
      {
        guarantee: 'at most three seconds are kept for saving the results',
        find: 'MOST_RESERVE_MS = 3_000',
        replace: 'MOST_RESERVE_MS = 30_000',
      },
      {
        guarantee: 'the longest step so far counts as the length of the next',
        find: 'longestMs = Math.max(longestMs, lastMs - leftMs);',
        replace: 'longestMs = lastMs - leftMs;',
      },
      {
        guarantee: 'a step does not begin when the longest so far would not end in time',
        find: 'return leftMs <= longestMs;',
        replace: 'return leftMs <= 0;',
      },
      {
        guarantee: 'remainingMs is without what saving needs',
        find: 'Math.max(0, clock.getRemainingTimeInMillis() - reserveMs)',
        replace: 'Math.max(0, clock.getRemainingTimeInMillis())',
      },
      {
        guarantee: 'a request has a deadline too',
        find: 'const isLate = () => (check ??= deadlineCheck(() => clock.getRemainingTimeInMillis()))();',
        replace: 'const isLate = () => check === null;',
        tests: [SERVE, INFERENCE, 'test/lib/http/response.test.ts', BUDGET],
      },
    ],
  },
  {
    file: 'lib/pipeline/outcomes.ts',
    tests: [SERVE],
    bugs: [
      {
        guarantee: 'a runner that gives another number of outcomes answers none',
        find: 'if (outcomes.length === records.length) return;',
        replace: 'return;',
      },
    ],
  },
  {
    file: 'lib/pipeline/counted-runs.ts',
    tests: [COUNTED],
    bugs: [
      {
        guarantee: 'a record that ran too often does not run again',
        find: 'Number(counts.get(record)) < runs.most);',
        replace: 'Number(counts.get(record)) <= runs.most);',
      },
      {
        guarantee: 'a record is counted once in a delivery',
        find: 'const uncounted = some.filter((record) => !begun.has(record));',
        replace: 'const uncounted = some;',
      },
      {
        guarantee: 'the last run that gets no outcome ends its record',
        find: 'isOpen(record) ? count + 1 : count',
        replace: 'count',
      },
      {
        guarantee: 'a run without an outcome stays counted',
        find: '[...begun].filter((record) => !isOpen(record))',
        replace: '[...begun]',
      },
      {
        guarantee: 'deliveries in an outage do not make records run alone',
        find: ': before + 2;',
        replace: ': Math.max(...allowed.map(({ attempts: tried }) => tried));',
      },
      {
        guarantee: 'a record with one run does not share it',
        find: 'runs.most === 1 ? 3',
        replace: 'runs.most === 0 ? 3',
      },
      {
        guarantee: 'waiting in vain for a process is no run',
        find: '|| !WAITED.has(outcome.error.code)',
        replace: '|| true',
      },
    ],
  },
  {
    file: 'lib/pipeline/decode.ts',
    tests: [SERVE, QUEUE],
    bugs: [
      {
        guarantee: 'a record that can never work is finished with a failure and not delivered again',
        find: 'if (error.retryable) returned',
        replace: 'if (true) returned',
        tests: [QUEUE],
      },
      {
        guarantee: 'a record whose payload cannot be read now goes back to the queue',
        find: 'if (error.retryable) returned.push({ id, error, trace: enqueue.trace });\n        else ',
        replace: '',
        tests: [SERVE],
      },
      {
        guarantee: 'a message without a uri goes back, because no failure can be stored',
        find: 'if (error.uri === undefined) throw error;',
        replace: '',
        tests: [SERVE, QUEUE],
        survives:
          'Equivalent today: every error that stands in place of a body has a uri, or is retryable and goes back anyway.',
      },
      {
        guarantee: 'a chunk with one finished record is not late',
        find: 'finished.length === 0 && returned.length > 0 && returned.every',
        replace: 'returned.length > 0 && returned.every',
      },
    ],
  },
  {
    file: 'lib/pipeline/poison-isolation.ts',
    tests: [ISOLATION],
    bugs: [
      {
        guarantee: 'records run together at their second delivery and alone from the third on',
        find: 'records.length > 1 && attempts <= 2 &&',
        replace: 'records.length > 1 && attempts <= 3 &&',
      },
      {
        guarantee: 'records that are redelivered for the first time run together',
        find: 'records.length > 1 && attempts <= 2 &&',
        replace: 'records.length > 1 && attempts <= 1 &&',
      },
      {
        guarantee: 'running together takes a third of the time, so that each record can still run alone',
        find: 'run(records, remainingMs() * TOGETHER_SHARE)',
        replace: 'run(records, remainingMs())',
      },
      {
        guarantee: 'a model that cannot be opened decides nothing about the records that ran together',
        find: 'if (!isRecordFault(error)) throw error;\n      isReady = false;',
        replace: 'isReady = false;',
      },
      {
        guarantee: 'every other time the first record has all the time there is',
        find: 'const wholeTime = attempts > 2 && attempts % 2 === 1;',
        replace: 'const wholeTime = false;',
      },
      {
        guarantee: 'at the times between, every record gets a turn',
        find: 'const wholeTime = attempts > 2 && attempts % 2 === 1;',
        replace: 'const wholeTime = attempts > 2;',
      },
      {
        guarantee: "the process is started outside of any record's time limit",
        find: 'const gone = isReady ? undefined : await absence(run, remainingMs());',
        replace: 'const gone: Outcome | undefined = isReady ? undefined : undefined;',
      },
      {
        guarantee: 'only the first record has the whole time',
        find: 'i === 0 && wholeTime ? 1 : 1 / 2',
        replace: 'wholeTime ? 1 : 1 / 2',
      },
      {
        guarantee: 'the next record always has half of what is left',
        find: 'wholeTime ? 1 : 1 / 2',
        replace: 'wholeTime ? 1 : 1',
      },
      {
        guarantee: "a record is given up only after it had the function's time",
        find: "error.code === 'timeout' && limitMs >= fullMs * FULL_SHARE",
        replace: "error.code === 'timeout'",
      },
      {
        guarantee: 'an endless record is found',
        find: "error.code === 'timeout' && limitMs >= fullMs * FULL_SHARE",
        replace: "error.code === 'timeout' && limitMs >= fullMs",
      },
      {
        guarantee: 'a process that dies before it is ready decides nothing about a record',
        find: 'return { ok: false, error: modelUnavailable(error.message, { cause: error }) };',
        replace: 'return { ok: false, error };',
      },
      {
        guarantee: 'a process that ended is started again for the next record',
        find: 'isReady = !alone.endedProcess;',
        replace: 'isReady = true;',
      },
      {
        guarantee: 'no run is started when hardly any time is left',
        find: 'if (remainingMs() * share < LEAST_MS) {',
        replace: 'if (remainingMs() * share < 0) {',
      },
    ],
  },
  {
    file: 'lib/pipeline/batch.ts',
    tests: [BATCH, RUNNER],
    bugs: [
      {
        guarantee: 'a run keeps to its byte limit',
        find: ' && group.bytes + bytes <= settings.maxBytes',
        replace: '',
      },
      {
        guarantee: 'a run may be exactly as large as its byte limit',
        find: 'group.bytes + bytes <= settings.maxBytes',
        replace: 'group.bytes + bytes < settings.maxBytes',
      },
      {
        guarantee: 'the bytes of all records of a run count',
        find: 'group.bytes += bytes;',
        replace: '',
      },
      {
        guarantee: 'a run keeps to its row limit',
        find: 'group.rows + slot.rows <= most',
        replace: 'group.rows + slot.rows <= most + 1',
      },
      {
        guarantee: 'the rows of all records of a run count',
        find: 'group.rows += slot.rows;',
        replace: 'group.rows += 0;',
      },
      {
        guarantee: 'a run of a model with a fixed batch has at most its rows',
        find: 'return fixedRows ?? Math.min(maxRows, runSize?.rows ?? maxRows);',
        replace: 'return Math.min(maxRows, runSize?.rows ?? maxRows);',
      },
      {
        guarantee: 'records of different shapes do not share a run',
        find: "withoutAxis(tensor.shape, axis).join('x')",
        replace: 'String(tensor.shape.length)',
      },
      {
        guarantee: 'a model whose outputs do not follow its rows runs one record at a time',
        find: 'if (!settings.separable || slot.runsAlone) {',
        replace: 'if (slot.runsAlone) {',
        tests: [BATCH, OUTPUT_AXES, 'test/local/gateway/shared-runs.test.ts'],
      },
      {
        guarantee: 'an array for a shared scalar runs alone',
        find: 'if (!settings.separable || slot.runsAlone) {',
        replace: 'if (!settings.separable) {',
        tests: [AXES],
      },
      {
        guarantee: 'records share a run only when their shared inputs are equal',
        find: 'const at = alike.findIndex(({ first }) => isSharedEqual(first, slot, inputAxes));',
        replace: 'const at = alike.length - 1;',
      },
      {
        guarantee: 'shared inputs of the same bytes and another shape do not share a run',
        find: "`=${tensor.shape.join('x')}`",
        replace: "'='",
        tests: [BATCH],
      },
      {
        guarantee: 'each outcome is that of its own record, also where shapes take turns',
        find: 'outcomes[index] = results[i];',
        replace: 'outcomes[(group[0] ?? index) + i] = results[i];',
      },
      {
        guarantee: 'shared texts are compared',
        find: 'a.data.every((text, i) => text === b.data[i])',
        replace: 'a.data.length === b.data.length',
      },
      {
        guarantee: 'a failed run is halved until the poison record is alone',
        find: 'if (records.length === 1 || passing)',
        replace: 'if (records.length <= 2 || passing)',
      },
      {
        guarantee: 'a run that failed for a passing reason is not halved',
        find: 'const passing = error instanceof ServingError && error.retryable;',
        replace: 'const passing = false;',
      },
      {
        guarantee: 'outputs that do not count the rows are not split among several records',
        find: "if (axis === 'none' ? records === 1 : shape[axis] === total) return;",
        replace: 'if (records >= 1) return;',
      },
      {
        guarantee: 'each record gets its own rows',
        find: 'row += record.rows;',
        replace: 'row += 1;',
      },
      {
        guarantee: 'the bytes of texts count',
        find: 'tensor.data.length * 16',
        replace: '0',
      },
      {
        guarantee: 'an error of a run that is none of ours becomes model_failed',
        find: "return new ServingError('model_failed', `the model failed on this record",
        replace: "return new ServingError('internal', `the model failed on this record",
      },
    ],
  },
  {
    file: 'lib/pipeline/stack.ts',
    tests: [BATCH, AXES],
    bugs: [
      {
        guarantee: 'rows that only fill up a fixed batch are zeros',
        find: 'if (offset < end) data.fill(',
        replace: 'if (offset < 0) data.fill(',
      },
      {
        guarantee: 'texts that only fill up a fixed batch are empty',
        find: 'while (data.length < at * total * inner)',
        replace: 'while (data.length < at * inner)',
      },
      {
        guarantee: 'a record that brought its batch dimension keeps it',
        find: 'keepsBatchDim ? shape.with(axis, rows) : withoutAxis(shape, axis)',
        replace: 'withoutAxis(shape, axis)',
      },
      {
        guarantee: 'each record gets its own rows, on any axis',
        find: '(at * total + start) * inner',
        replace: '(at * rows + start) * inner',
      },
    ],
  },
  {
    file: 'lib/pipeline/batch-axes.ts',
    tests: [MEANING, AXES, RUNNER],
    bugs: [
      {
        guarantee: 'an output of which nothing is known has no batch axis',
        find: "declared[i] ?? 'none'",
        replace: 'declared[i] ?? 0',
      },
      {
        guarantee: 'an output with the name of the batch first follows the rows',
        find: 'if (sizes.has(first)) return 0;',
        replace: 'if (first === 1) return 0;',
      },
      {
        guarantee: "the job's word about an output counts before what was verified",
        find: 'ownAxis(outputAxes, spec) ?? stored ??',
        replace: 'stored ?? ownAxis(outputAxes, spec) ??',
        tests: [OUTPUT_AXES],
      },
      {
        guarantee: 'what was verified about an output counts before its declared shape',
        find: '?? stored ?? declared[i] ??',
        replace: '?? declared[i] ?? stored ??',
        tests: [OUTPUT_AXES],
      },
      {
        guarantee: 'a proof of a model that takes one row says nothing about its outputs',
        find: "const isOneRow = inputs.every((input) => batchAxisOf(input) === 'none' || batchSize(input) === 1);",
        replace: 'const isOneRow = false;',
        tests: [OUTPUT_AXES],
      },
      {
        guarantee: 'an output with the name of the batch on two axes does not say which one follows the rows',
        find: 'named !== -1 && named === shape.findLastIndex(isBatch)',
        replace: 'named !== -1',
        tests: [OUTPUT_AXES],
      },
      {
        guarantee: 'the outputs of a model whose inputs are all shared follow no rows',
        find: "if (inputs.every((input) => batchAxisOf(input) === 'none')) return outputs.map(() => 'none');",
        replace: '',
        tests: [OUTPUT_AXES],
      },
      {
        guarantee: 'axes of names that the model does not have are refused',
        find: 'if (!spec) {',
        replace: 'if (!spec) continue;\n    if (false) {',
      },
      {
        guarantee: 'an array for an input that may be a scalar runs alone',
        find: "(isScalar === undefined || batchAxis === 'none')",
        replace: "batchAxis === 'none'",
        tests: ['test/lib/inference/scalars.test.ts'],
      },
      {
        guarantee: 'a scalar of the file has no axis of rows',
        find: 'return scalars.includes(spec.name)',
        replace: 'return false',
        tests: ['test/lib/inference/scalars.test.ts'],
      },
      {
        guarantee: 'an axis beyond the shape is refused',
        find: "if (axis === 'none' || isOpen || axis < rank) continue;",
        replace: 'if (rank >= 0) continue;',
      },
    ],
  },
  {
    file: 'lib/pipeline/infer.ts',
    tests: [BATCH, BUDGET],
    bugs: [
      {
        guarantee: 'no more input bytes are bound at a time than one run takes',
        find: 'if (bytes >= settings.maxBytes) await runSlots();',
        replace: '',
        tests: [BATCH],
      },
      {
        guarantee: 'the bytes that are bound are counted anew after a run',
        find: 'slots = [];\n    bytes = 0;',
        replace: 'slots = [];',
        tests: [BATCH],
      },
      {
        guarantee: 'a record is not decoded when there is no time',
        find: 'const bound = isOver() ? noTime() : bindOrError',
        replace: 'const bound = bindOrError',
      },
      {
        guarantee: 'a run does not begin when there is no time',
        find: '(isOver() ? Promise.reject(noTime()) : run(feeds, isOver))',
        replace: 'run(feeds, isOver)',
      },
      {
        guarantee: 'a request is refused as a whole when its images are over the budget',
        find: "assertDecodedSize(readable, specs, settings.image, 'request');",
        replace: '',
      },
      {
        guarantee: 'a queued record is refused when its images are over the budget',
        find: "if (!counted) assertDecodedSize([record], specs, settings.image, 'record');",
        replace: '',
      },
      {
        guarantee: 'nothing is decoded behind the first failure of a request',
        find: 'if (failFast && slot instanceof ServingError) throw',
        replace: 'if (false) throw',
      },
      {
        guarantee: 'the Open Inference Protocol takes shapes with the batch dimension, whatever the job says',
        find: 'inputAlreadyBatched: exactSignature, byName: true',
        replace: 'byName: true',
        tests: [INFERENCE],
      },
      {
        guarantee: 'the Open Inference Protocol binds by name only',
        find: 'inputAlreadyBatched: exactSignature, byName: true',
        replace: 'inputAlreadyBatched: exactSignature',
        tests: ['test/lib/http/inference-refusals.test.ts'],
      },
    ],
  },
  {
    file: 'lib/pipeline/match-inputs.ts',
    tests: [RUNNER, PREDICT, NAMES],
    bugs: [
      {
        guarantee: 'inputs bind by name when every name matches',
        find: 'if (missing.length === 0 && inputs.size === given.length) {',
        replace: 'if (missing.length === -1) {',
      },
      {
        guarantee: 'an unknown input is refused',
        find: 'if (missing.length === 0 && inputs.size === given.length) {',
        replace: 'if (missing.length === 0) {',
      },
      {
        guarantee: 'names that match in part are refused as a typo',
        find: '!byName && missing.length === given.length && inputs.size',
        replace: '!byName && inputs.size',
      },
      {
        guarantee: 'a name that is nearly that of an input is refused',
        find: 'bindsByPosition(inputs) && !hasNearName(inputs, specs)) {',
        replace: 'bindsByPosition(inputs)) {',
      },
      {
        guarantee: 'several inputs bind by position only where the record says so',
        find: '(binding === undefined && size === 1)',
        replace: 'binding === undefined',
      },
    ],
  },
  {
    file: 'lib/pipeline/bind.ts',
    tests: [RUNNER, PREDICT],
    bugs: [
      {
        guarantee: 'texts with NUL or half a character are refused',
        find: 'assertTexts(tensor.data as readonly string[]);',
        replace: '',
      },
      {
        guarantee: 'texts with half a character are refused',
        find: ' || !text.isWellFormed()',
        replace: '',
      },
      {
        guarantee: 'all inputs of a record have the same rows',
        find: 'if (own === rows || batchSize(spec) === undefined) continue;',
        replace: 'if (own >= 0) continue;',
      },
      {
        guarantee: 'a sparse shape that does not fit is refused before its zeros are allocated',
        find: 'checkShape({ dtype: spec.dtype, shape: sparse.shape, data: [] }, spec, settings.inputAlreadyBatched);',
        replace: '',
      },
      {
        guarantee: 'a sparse tensor of too many dimensions is refused before anything is compared',
        find: 'assertRank(sparse.shape);\n  checkShape',
        replace: 'checkShape',
      },
      {
        guarantee: 'an encoded image over its limit is refused before it is decoded from base64',
        find: 'if (text.length > (LIMITS.imageBytes * 4) / 3 + 1024) {',
        replace: 'if (text.length > LIMITS.imageBytes * 1000) {',
        tests: [BATCH],
      },
      {
        guarantee: 'the old wire joins texts with a bar',
        find: "text.split('|')",
        replace: "text.split(',')",
      },
      {
        guarantee: 'a square sparse tensor over HTTP has one row per point',
        find: 'return densifyFor(sparse, spec, settings, true);',
        replace: 'return densifyFor(sparse, spec, settings, false);',
      },
      {
        guarantee: 'a square sparse tensor of the SDK has one row per dimension',
        find: 'return densifyFor(value, spec, settings, false);',
        replace: 'return densifyFor(value, spec, settings, true);',
        tests: [BATCH],
      },
    ],
  },
  {
    file: 'lib/pipeline/shape-check.ts',
    tests: [RUNNER, PREDICT],
    bugs: [
      {
        guarantee: 'an empty tensor is refused',
        find: 'if (shape.includes(0)) {',
        replace: 'if (shape.includes(-1)) {',
      },
      {
        guarantee: 'a fixed dimension must match',
        find: "typeof dim === 'string' || dim === shape[i]",
        replace: "typeof dim === 'string' || dim >= (shape[i] as number)",
      },
      {
        guarantee: 'the rank must match',
        find: 'shape.length === expected.length &&',
        replace: 'shape.length >= expected.length &&',
      },
      {
        guarantee: 'an already batched record must have the batch dimension',
        find: 'isDeclared && !matches(shape, spec.shape)',
        replace: 'false',
      },
      {
        guarantee: 'a single number is taken only where the row has one element',
        find: "row.every((dim) => dim === 1 || typeof dim === 'string')",
        replace: 'row.every(() => true)',
      },
    ],
  },
  {
    file: 'lib/pipeline/cast.ts',
    tests: [CAST, RUNNER],
    bugs: [
      {
        guarantee: 'a fraction is refused by an integer input',
        find: "if (typeof value !== 'number' || Number.isInteger(value))",
        replace: "if (typeof value !== 'number' || value !== Infinity)",
      },
      {
        guarantee: 'a number below the range of an integer is refused',
        find: 'const number = Number(whole(value));\n      if (number < min || number > max)',
        replace: 'const number = Number(whole(value));\n      if (number > max)',
      },
      {
        guarantee: 'a number above the range of an integer is refused',
        find: 'const number = Number(whole(value));\n      if (number < min || number > max)',
        replace: 'const number = Number(whole(value));\n      if (number < min)',
      },
      {
        guarantee: 'an integer with a sign ends at 2^(bits - 1) - 1',
        find: 'max: 2 ** (bits - 1) - 1 }',
        replace: 'max: 2 ** (bits - 1) }',
      },
      {
        guarantee: 'an integer with a sign begins at -2^(bits - 1)',
        find: 'min: -(2 ** (bits - 1)), max',
        replace: 'min: -(2 ** (bits - 1)) - 1, max',
      },
      {
        guarantee: 'an integer without a sign ends at 2^bits - 1',
        find: 'max: 2 ** bits - 1 }',
        replace: 'max: 2 ** bits }',
      },
      {
        guarantee: 'int32 has 32 bits',
        find: 'int32: signed(32)',
        replace: 'int32: signed(33)',
      },
      {
        guarantee: 'uint16 has 16 bits',
        find: 'uint16: unsigned(16)',
        replace: 'uint16: unsigned(17)',
      },
      {
        guarantee: 'uint32 has 32 bits',
        find: 'uint32: unsigned(32)',
        replace: 'uint32: unsigned(33)',
      },
      {
        guarantee: 'a bool is 0 or 1',
        find: 'bool: unsigned(1)',
        replace: 'bool: unsigned(2)',
      },
      {
        guarantee: 'a float16 over 65,504 is refused and does not become infinite',
        find: 'FLOAT16_MAX = 65_504',
        replace: 'FLOAT16_MAX = 655_040',
      },
      {
        guarantee: 'a number over the range of float32 is refused',
        find: 'Math.abs(number) > max && Number.isFinite(number)',
        replace: 'number > max * 10 && Number.isFinite(number)',
      },
      {
        guarantee: 'int64 ends at 2^63 - 1',
        find: '2n ** 63n - 1n',
        replace: '2n ** 63n',
      },
      {
        guarantee: 'uint64 ends at 2^64 - 1',
        find: '2n ** 64n - 1n',
        replace: '2n ** 64n',
      },
      {
        guarantee: 'uint64 begins at 0',
        find: 'uint64: { min: 0n,',
        replace: 'uint64: { min: -1n,',
      },
      {
        guarantee: 'texts do not become numbers, nor numbers texts',
        find: "if (tensor.dtype === 'string' || dtype === 'string') {",
        replace: "if (tensor.dtype === 'string') {",
      },
      {
        guarantee: 'an int32 beyond 2^24 is not rounded without a check',
        find: 'return range.max <= EXACT_IN_FLOAT32;',
        replace: 'return true;',
        survives:
          'Equivalent: the checked store rounds such a number to float32, too; only the speed differs.',
      },
      {
        guarantee: 'an unsigned dtype does not take a negative number without a check',
        find: 'range.min >= target.min && range.max <= target.max',
        replace: 'range.max <= target.max',
      },
      {
        guarantee: 'float16 is read as its bits',
        find: 'store(half ? float16Value(value as number) : value, data, i);',
        replace: 'store(value, data, i);',
        tests: [CAST, 'test/lib/pipeline/float16.test.ts'],
      },
    ],
  },
  {
    file: 'lib/pipeline/nested.ts',
    tests: [RUNNER, PREDICT],
    bugs: [
      {
        guarantee: 'a whole number beyond 2^53 is refused for int64',
        find: '!Number.isSafeInteger(number) &&',
        replace: 'number < 0 && !Number.isSafeInteger(number) &&',
      },
      {
        guarantee: 'JSON arrays of different lengths are refused',
        find: 'if (value.length === shape[axis]) return value;',
        replace: 'return value;',
      },
      {
        guarantee: '1e309 does not become an infinity',
        find: 'if (!Number.isFinite(out[at]) && ',
        replace: 'if (Number.isNaN(out[at]) && ',
      },
      {
        guarantee: 'arrays are at most 16 deep',
        find: 'if (shape.length === TENSOR_RANK) {',
        replace: 'if (shape.length === TENSOR_RANK * 1000) {',
      },
      {
        guarantee: 'an empty array is refused',
        find: 'if (count === 0) throw badInput',
        replace: 'if (count === -1) throw badInput',
      },
      {
        guarantee: 'a dense tensor has a limit of elements',
        find: 'elementCount(shape, TENSOR_ELEMENTS)',
        replace: 'elementCount(shape)',
        survives:
          'Not reachable: 64 Mi elements of JSON are more than 128 MiB, and a body has 6, a payload 32.',
      },
    ],
  },
  {
    file: 'lib/pipeline/sparse.ts',
    tests: [RUNNER, PREDICT],
    bugs: [
      {
        guarantee: 'a sparse index out of range is refused',
        find: 'index >= dim) {',
        replace: 'index > dim) {',
      },
      {
        guarantee: 'a negative sparse index is refused',
        find: '|| index < 0 ||',
        replace: '||',
      },
      {
        guarantee: 'a point that is named twice is refused',
        find: 'assertDistinct(offsets);',
        replace: '',
      },
      {
        guarantee: 'a sparse tensor that would be too large is refused before it is expanded',
        find: 'elementCount(shape, LIMITS.tensorElements)',
        replace: 'elementCount(shape, 2 ** 53)',
      },
      {
        guarantee: 'a sparse tensor has at most 4 Mi values',
        find: 'if (points > LIMITS.sparseValues)',
        replace: 'if (points > LIMITS.tensorElements)',
        tests: [BATCH],
      },
      {
        guarantee: 'the indices must agree with shape and values',
        find: 'indices.length !== points * dims || ',
        replace: '',
        survives:
          'Equivalent: every reader checks that indices and indicesShape agree, and indicesShape is compared with the values here.',
      },
      {
        guarantee: 'a sparse tensor has at most 16 dimensions',
        find: 'if (shape.length <= LIMITS.tensorRank) return;',
        replace: 'if (shape.length <= 1000 * LIMITS.tensorRank) return;',
      },
    ],
  },
  {
    file: 'lib/pipeline/decoded-size.ts',
    tests: [BUDGET],
    bugs: [
      {
        guarantee: 'a request has a budget of decoded pixels',
        find: "refuseOver(sum.pixels, 'pixelsPerRequest'",
        replace: "refuseOver(0, 'pixelsPerRequest'",
      },
      {
        guarantee: 'a request has a budget of elements',
        find: '    sum.elements,\n',
        replace: '    0,\n',
      },
      {
        guarantee: 'five values are looked at',
        find: 'ALWAYS_FIT = 4',
        replace: 'ALWAYS_FIT = 5',
      },
      {
        guarantee: 'sparse tensors count',
        find: "if (value.kind === 'sparse') return value.shape;",
        replace: '',
      },
      {
        guarantee: 'images of {"b64"} count',
        find: "? value.value['b64']",
        replace: '? undefined',
      },
      {
        guarantee: 'images count after resizing, too',
        find: 'return { pixels, elements: channels * target };',
        replace: 'return { pixels, elements: channels * pixels };',
      },
      {
        guarantee: 'exactly the budget is taken',
        find: 'if (count <= LIMITS[limit]) return;',
        replace: 'if (count < LIMITS[limit]) return;',
      },
    ],
  },
  {
    file: 'lib/pipeline/postprocess.ts',
    tests: [POSTPROCESS],
    bugs: [
      {
        guarantee: 'topN gives the largest in descending order',
        find: 'if (x > y) return -1;',
        replace: 'if (x > y) return 1;',
      },
      {
        guarantee: 'ties come by their index',
        find: '|| a - b;',
        replace: '|| b - a;',
      },
      {
        guarantee: 'NaN is never the largest',
        find: 'Number(Number.isNaN(x)) - Number(Number.isNaN(y)) ||',
        replace: '',
      },
      {
        guarantee: 'topN of text is refused',
        find: "if (output.dtype === 'string') throw new ServingError('model_failed', 'topN",
        replace: "if (output.dtype === 'bool') throw new ServingError('model_failed', 'topN",
      },
      {
        guarantee: 'float16 is ordered by its numbers and not by its bits',
        find: "dtype === 'float16' ? Float32Array.from(data as Uint16Array, float16Value) : (data as TypedArray)",
        replace: '(data as TypedArray)',
      },
      {
        guarantee: 'a filter of zero is refused',
        find: 'if (!match || n < 1 ||',
        replace: 'if (!match || n < 0 ||',
      },
      {
        guarantee: 'an unknown filter is refused at start',
        find: '/^(topN|pickTopN)\\((\\d{1,9})(,labels)?\\)$/',
        replace: '/^(topN|pickTopN)\\((\\d{1,9})(,labels)?\\)/',
      },
      {
        guarantee: 'pickTopN gives at most the rows that there are',
        find: 'const rows = Math.min(n, first);',
        replace: 'const rows = n;',
      },
      {
        guarantee: 'pickTopN of a scalar is refused',
        find: 'if (output.shape.length === 0)',
        replace: 'if (output.shape.length === -1)',
      },
      {
        guarantee: 'NaN and infinities become null, because JSON has neither',
        find: "if (!Number.isFinite(value)) return 'null';",
        replace: '',
      },
      {
        guarantee: 'an exponent begins at 1e7, as Java prints floats',
        find: 'magnitude >= 1e-3 && magnitude < 1e7',
        replace: 'magnitude >= 1e-3 && magnitude <= 1e7',
      },
      {
        guarantee: 'the digits of a float32 read back to the same float32',
        find: 'if (Math.fround(candidate) === value) return candidate;\n  }\n}',
        replace: 'return candidate;\n  }\n}',
      },
      {
        guarantee: 'a bool is written as true or false',
        find: "(value ? 'true' : 'false')",
        replace: 'String(value)',
        tests: [POSTPROCESS, 'test/lib/http/inference.test.ts'],
      },
      {
        guarantee: 'a negative zero keeps its sign',
        find: "Object.is(value, -0) ? '-0.0' : '0.0'",
        replace: "'0.0'",
      },
    ],
  },
  {
    file: 'lib/pipeline/buffer-pool.ts',
    tests: [POOL],
    bugs: [
      {
        guarantee: 'what was taken is not lent a second time before the end',
        find: 'this.#used += Math.ceil(bytes / ALIGN_BYTES) * ALIGN_BYTES;',
        replace: 'this.#used += 0;',
      },
      {
        guarantee: 'no more than 16 MiB of a scratch are kept',
        find: 'Math.min(this.#used, KEPT_BYTES)',
        replace: 'this.#used',
      },
      {
        guarantee: 'tensors begin at a multiple of their element size',
        find: 'ALIGN_BYTES = 64',
        replace: 'ALIGN_BYTES = 1',
      },
      {
        guarantee: 'a borrower gives the memory back also when it fails',
        find: 'scratch.clear();\n    if',
        replace: 'if',
      },
    ],
  },
  {
    file: 'lib/pipeline/submit.ts',
    tests: ['test/lib/redis/record-states.test.ts'],
    skip: '^the embedded Redis',
    bugs: [
      {
        guarantee: 'what SQS takes in no message is escaped before it is counted',
        find: 'const message = forSqs(record.message);',
        replace: 'const { message } = record;',
        tests: ['test/lib/pipeline/submit.test.ts'],
      },
      {
        guarantee: 'what SQS takes in no message is escaped in a pointer',
        find: 'sender.send(forSqs(pointer)',
        replace: 'sender.send((pointer)',
        tests: ['test/lib/pipeline/submit.test.ts'],
      },
      {
        guarantee: 'a record of exactly 1 MiB goes through SQS',
        find: 'if (bytes + attributesBytes(attributes) <= LIMITS.messageBytes)',
        replace: 'if (bytes + attributesBytes(attributes) < LIMITS.messageBytes)',
        tests: ['test/lib/pipeline/submit.test.ts'],
      },
      {
        guarantee: 'a record over 1 MiB goes through S3',
        find: 'if (bytes + attributesBytes(attributes) <= LIMITS.messageBytes)',
        replace: 'if (bytes <= LIMITS.messageBytes)',
        tests: ['test/lib/pipeline/submit.test.ts'],
      },
      {
        guarantee: 'SQS counts bytes and not characters',
        find: 'Buffer.byteLength(message)',
        replace: 'message.length',
        tests: ['test/lib/pipeline/submit.test.ts'],
      },
      {
        guarantee: 'a large record without a bucket is refused as too_large',
        find: "      'too_large',",
        replace: "      'internal',",
        tests: ['test/lib/pipeline/submit.test.ts'],
      },
      {
        guarantee: 'if one record cannot be announced, the others are withdrawn',
        find: '(await announcement).withdraw()',
        replace: 'announcement',
      },
      {
        guarantee: 'a record that could not be sent is withdrawn',
        find: 'await (announced[i] as Announcement).withdraw();\n        throw error;',
        replace: 'throw error;',
      },
    ],
  },
  {
    file: 'lib/contract/under-way.ts',
    tests: ['test/lib/pipeline/submit.test.ts'],
    bugs: [
      {
        guarantee: 'nothing is still under way when sending fails',
        find: 'await Promise.allSettled(promises);',
        replace: '',
      },
    ],
  },
];
