/** A bucket that refuses captures costs captures, and no answer; `status`, `capture list` and GET /ready say how many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CaptureWriter } from '../../lib/s3/captures.ts';
import { lineModel, modelFolder } from '../support/faults/model.ts';
import { quietLog } from '../support/faults/quiet.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { warmCli, warmCliJson } from './warm.ts';

const REQUESTS = 5;
const BODY = '{"instances":[{"x":[1],"k":[0]}]}';

test('captures that S3 refuses cost no answer, and are counted where a person looks', async (t) => {
  const log = quietLog(t);
  const put = t.mock.method(CaptureWriter.prototype, 'put', async () => {
    throw new Error('AccessDenied');
  });
  const modelDirectory = await modelFolder(await temporaryFolder(t), lineModel());
  const stack = await testStack(t, { config: 'capture: {share: 1}', modelDirectory });
  const options = { env: stack.aws.environment };
  const where = ['--url', stack.url, '--bucket', stack.bucket];
  const predict = async () => {
    const answer = await fetch(`${stack.url}/predict`, { method: 'POST', body: BODY });
    assert.equal(answer.status, 200, await answer.text());
  };
  const ready = async () => (await fetch(`${stack.url}/ready`)).json() as Promise<{ lostCaptures?: number }>;
  assert.equal((await ready()).lostCaptures, undefined);
  for (let i = 0; i < REQUESTS; i++) await predict();
  await until(async () => (await ready()).lostCaptures === REQUESTS);
  const text = `${REQUESTS} requests and records were to be captured and could not be stored`;
  const status = await warmCli(['status', '--url', stack.url], options);
  assert.equal(status.code, 0);
  assert.ok(status.stdout.includes(text), status.stdout);
  const list = ['capture', 'list', ...where, '--job', 'serving_stream'];
  assert.ok((await warmCli(list, options)).stdout.includes(text));
  assert.ok(log.lines.some((line) => line.includes('were not captured: AccessDenied')));

  put.mock.restore();
  await predict();
  const listed = async () =>
    (await warmCliJson(list, options)).json as {
      readonly lost: number;
      readonly captures: readonly unknown[];
    };
  await until(async () => (await listed()).captures.length === 1);
  assert.equal((await listed()).lost, REQUESTS);
});
