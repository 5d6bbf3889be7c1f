/** Bugs in lib/contract: limits, names, errors. */
import type { Suite } from '../mutant.ts';

const LIMITS = 'test/lib/contract/limits.test.ts';
const ERRORS = 'test/lib/contract/errors.test.ts';
const PREDICTIONS = 'test/bad-input/predictions.test.ts';

export const CONTRACT: readonly Suite[] = [
  {
    file: 'lib/contract/limits.ts',
    tests: [LIMITS],
    bugs: [
      {
        guarantee: 'limit messageBytes: 1 MiB (SQS)',
        find: 'messageBytes: MiB,',
        replace: 'messageBytes: MiB + 1,',
      },
      {
        guarantee: 'limit payloadBytes: 32 MiB',
        find: 'payloadBytes: 32 * MiB,',
        replace: 'payloadBytes: 33 * MiB,',
      },
      {
        guarantee: 'limit resultBytes: 1 MiB',
        find: '  resultBytes: MiB,',
        replace: '  resultBytes: 32 * MiB,',
      },
      {
        guarantee: 'limit sendEntries: 10 (SQS)',
        find: 'sendEntries: 10,',
        replace: 'sendEntries: 11,',
      },
      {
        guarantee: 'limit httpBodyBytes: 6 MiB (Lambda)',
        find: 'httpBodyBytes: 6 * MiB,',
        replace: 'httpBodyBytes: 7 * MiB,',
      },
      {
        guarantee: 'limit instances: 1,000',
        find: 'instances: 1_000,',
        replace: 'instances: 1_001,',
      },
      {
        guarantee: 'limit inputsPerRecord: 256',
        find: 'inputsPerRecord: 256,',
        replace: 'inputsPerRecord: 257,',
      },
      {
        guarantee: 'limit inputNameLength: 256',
        find: 'inputNameLength: 256,',
        replace: 'inputNameLength: 257,',
      },
      {
        guarantee: 'limit uriBytes: 1,024',
        find: 'uriBytes: URI_BYTES,',
        replace: 'uriBytes: URI_BYTES + 1,',
      },
      {
        guarantee: 'limit tensorElements: 64 Mi',
        find: 'tensorElements: TENSOR_ELEMENTS,',
        replace: 'tensorElements: TENSOR_ELEMENTS + 1,',
      },
      {
        guarantee: 'limit tensorRank: 16',
        find: 'tensorRank: TENSOR_RANK,',
        replace: 'tensorRank: TENSOR_RANK + 1,',
      },
      {
        guarantee: 'limit sparseValues: 4 Mi',
        find: 'sparseValues: 4 * MiB,',
        replace: 'sparseValues: 5 * MiB,',
      },
      {
        guarantee: 'limit imagePixels: 16,777,216',
        find: 'imagePixels: 16_777_216,',
        replace: 'imagePixels: 16_777_217,',
      },
      {
        guarantee: 'limit imageBytes: 32 MiB',
        find: 'imageBytes: IMAGE_BYTES,',
        replace: 'imageBytes: IMAGE_BYTES + 1,',
      },
      {
        guarantee: 'limit pixelsPerRequest: four of the largest images',
        find: 'pixelsPerRequest: 4 * 16_777_216,',
        replace: 'pixelsPerRequest: 40 * 16_777_216,',
      },
      {
        guarantee: 'limit elementsPerRequest: 256 Mi',
        find: 'elementsPerRequest: 256 * MiB,',
        replace: 'elementsPerRequest: 2560 * MiB,',
      },
      {
        guarantee: 'limit arrowFields: 4,096',
        find: 'arrowFields: 4_096,',
        replace: 'arrowFields: 4_097,',
      },
      {
        guarantee: 'limit arrowBatches: 1,024',
        find: 'arrowBatches: 1_024,',
        replace: 'arrowBatches: 1_025,',
      },
    ],
  },
  {
    file: 'lib/contract/tensor.ts',
    tests: [LIMITS],
    bugs: [
      {
        guarantee: 'a shape whose product passes the limit is refused although a dimension is 0',
        find: 'if (count > limit) {',
        replace: 'if (count > limit && !zero) {',
      },
      {
        guarantee: 'a negative or fractional dimension is refused',
        find: 'if (!Number.isSafeInteger(dim) || dim < 0) {',
        replace: 'if (Number.isNaN(dim)) {',
      },
      {
        guarantee: 'bytes that are no whole number of elements are refused',
        find: 'if (bytes.byteLength % size !== 0) {',
        replace: 'if (false) {',
      },
      {
        guarantee: 'misaligned bytes are copied',
        find: 'bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)',
        replace: 'bytes',
        tests: [
          'test/lib/codecs/message.test.ts',
          'test/lib/codecs/open-inference.test.ts',
          'test/lib/pipeline/buffer-pool.test.ts',
        ],
      },
    ],
  },
  {
    file: 'lib/contract/names.ts',
    tests: [PREDICTIONS, 'test/lib/config/config.test.ts', LIMITS],
    bugs: [
      {
        guarantee: 'a uri of more than 1,024 bytes is refused',
        find: 'const bytes = new TextEncoder().encode(uri).length;',
        replace: 'const bytes = uri.length;',
      },
      {
        guarantee: 'a uri without control characters',
        find: '/[\\u0000-\\u001f\\u007f]/.test(uri) || ',
        replace: '',
      },
      {
        guarantee: 'a uri without half a character',
        find: ' || !uri.isWellFormed()',
        replace: '',
      },
      {
        guarantee: 'an empty uri is refused',
        find: "if (typeof uri !== 'string' || uri === '') {",
        replace: "if (typeof uri !== 'string') {",
      },
      {
        guarantee: 'a job name holds no colon and no glob characters',
        find: '/^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$/',
        replace: '/^[A-Za-z0-9][A-Za-z0-9_:*-]{0,59}$/',
      },
      {
        guarantee: 'a job name has at most 60 characters',
        find: '{0,59}$/',
        replace: '{0,60}$/',
      },
      {
        guarantee: 'old clients that list cluster-serving_<job>:* find results only',
        find: '`cluster-serving-state_${job}:${uri}`',
        replace: '`cluster-serving_${job}:state:${uri}`',
        tests: ['test/lib/redis/record-states.test.ts'],
      },
      {
        guarantee: 'the result key is the one that an untouched Python OutputQueue reads',
        find: '`cluster-serving_${job}:${uri}`',
        replace: '`cluster_serving_${job}:${uri}`',
        tests: ['test/lib/redis/results.test.ts'],
      },
    ],
  },
  {
    file: 'lib/contract/errors.ts',
    tests: [ERRORS],
    bugs: [
      {
        guarantee: 'an internal error is shown as "Internal error" only',
        find: ", 'Internal error'",
        replace: '',
      },
      {
        guarantee: 'the message of a Redis error is not shown, it names hosts',
        find: ", 'the results cannot be reached; the log says why'",
        replace: '',
      },
      {
        guarantee: 'the message of an SQS error is not shown',
        find: ", 'the queue cannot take the record; the log says why'",
        replace: '',
      },
      {
        guarantee: 'the message of a model that cannot be loaded is not shown',
        find: ", 'no model is loaded (yet); the log says why'",
        replace: '',
      },
      {
        guarantee: 'errors cross Redis and HTTP with the public message',
        find: 'return { code: this.code, message: this.publicMessage };',
        replace: 'return { code: this.code, message: this.message };',
      },
      {
        guarantee: 'model_unavailable is retryable',
        find: 'model_unavailable: transient(503',
        replace: 'model_unavailable: final(503',
      },
      {
        guarantee: 'timeout is retryable: the record comes again',
        find: 'timeout: transient(504)',
        replace: 'timeout: final(504)',
      },
      {
        guarantee: 'model_failed is final',
        find: 'model_failed: final(422)',
        replace: 'model_failed: transient(422)',
      },
      {
        guarantee: 'too_large is answered with 413',
        find: 'too_large: final(413',
        replace: 'too_large: final(400',
      },
      {
        guarantee: 'rate_limited is answered with 429',
        find: 'rate_limited: transient(429',
        replace: 'rate_limited: transient(503',
      },
      {
        guarantee: 'conflict is answered with 409',
        find: 'conflict: final(409',
        replace: 'conflict: final(400',
      },
      {
        guarantee: 'internal is retryable: a defect of ours costs no record',
        find: 'internal: transient(500,',
        replace: 'internal: final(500,',
      },
    ],
  },
];
