import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, ServingError } from '../../../lib/contract/errors.ts';

const CODES: readonly (readonly [code: ErrorCode, status: number, mayPass: boolean])[] = [
  ['bad_request', 400, false],
  ['bad_input', 400, false],
  ['unauthorized', 401, false],
  ['not_found', 404, false],
  ['conflict', 409, false],
  ['cancelled', 409, false],
  ['too_large', 413, false],
  ['unsupported_media_type', 415, false],
  ['bad_model', 422, false],
  ['model_failed', 422, false],
  ['rate_limited', 429, true],
  ['max_receives_exceeded', 500, false],
  ['bad_config', 500, false],
  ['internal', 500, true],
  ['model_unavailable', 503, true],
  ['results_unavailable', 503, true],
  ['queue_unavailable', 503, true],
  ['timeout', 504, true],
];

for (const [code, status, mayPass] of CODES) {
  test(`${code} is ${status}, and ${mayPass ? 'may pass' : 'stays'}`, () => {
    const error = new ServingError(code, 'words');
    assert.deepEqual([error.status, error.retryable], [status, mayPass]);
  });
}

test('what may quote S3, SQS, Redis or a file has a public text of its own, also as JSON', () => {
  for (const code of [
    'internal',
    'bad_config',
    'model_unavailable',
    'results_unavailable',
    'queue_unavailable',
  ] as const) {
    const error = new ServingError(code, 'redis://secret@host');
    assert.doesNotMatch(JSON.stringify(error) + error.publicMessage, /secret/);
  }
  assert.equal(new ServingError('bad_input', 'words').publicMessage, 'words');
});
