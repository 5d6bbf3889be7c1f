import assert from 'node:assert/strict';
import { test } from 'node:test';
import { badModel, type ErrorCode, ServingError, withPathAs } from '../../../lib/contract/errors.ts';

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

test('a temporary path is shown as what it holds, and an error without it stays the same object', () => {
  const cause = badModel('Load model from /tmp/x-1/model.onnx failed; /tmp/x-1 is wrong');
  const shown = withPathAs(cause, '/tmp/x-1', 'version abc');
  assert.ok(shown instanceof ServingError && shown.cause === cause);
  assert.deepEqual(
    [shown.code, shown.message],
    ['bad_model', 'Load model from version abc/model.onnx failed; version abc is wrong'],
  );
  const other = new Error('called off');
  assert.equal(withPathAs(other, '/tmp/x-1', 'version abc'), other);
});
