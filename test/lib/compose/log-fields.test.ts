/** What a line of the log says of the function it comes from, with the field names of AWS Powertools. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Context, SQSEvent } from 'aws-lambda';

/** Nothing listens there, so every call fails at once. */
const NOWHERE = '127.0.0.1:9';

test('a line of an invocation has time, level, service, function, request, trace and whether it was the first', async (t) => {
  Object.assign(process.env, {
    AWS_LAMBDA_RUNTIME_API: NOWHERE,
    AWS_LAMBDA_FUNCTION_NAME: 'cluster-serving-dev-dead-letter',
    AWS_ENDPOINT_URL: `http://${NOWHERE}`,
    AWS_REGION: 'local',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
    CLUSTER_SERVING_CONFIG: JSON.stringify({ jobName: 'digits' }),
    CLUSTER_SERVING_BUCKET: 'bucket',
    CLUSTER_SERVING_REDIS_URL: `redis://${NOWHERE}`,
    _X_AMZN_TRACE_ID: 'Root=1-67-89;Parent=1;Sampled=1',
  });
  const handler = await (await import('../../../functions/dead-letter.ts')).handler;
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (text: string) => lines.push(text));
  const event = { Records: [{ messageId: 'm', body: '{}', attributes: { SentTimestamp: '0' } }] };
  for (const awsRequestId of ['first', 'second']) {
    await handler(event as unknown as SQSEvent, { awsRequestId } as Context);
  }
  t.mock.restoreAll();
  const errors = lines
    .filter((line) => line.includes('"level"'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(errors.length, 2, lines.join(''));
  for (const [i, { timestamp, ...line }] of errors.entries()) {
    assert.match(String(timestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const { level, service, function_name, function_request_id, xray_trace_id, cold_start } = line;
    assert.deepEqual(
      { level, service, function_name, function_request_id, xray_trace_id, cold_start },
      {
        level: 'error',
        service: 'digits',
        function_name: 'cluster-serving-dev-dead-letter',
        function_request_id: ['first', 'second'][i],
        xray_trace_id: '1-67-89',
        cold_start: i === 0,
      },
    );
  }
});

test('POWERTOOLS_SERVICE_NAME names the service, as it does with AWS Powertools', async () => {
  const { readEnvironment } = await import('../../../lib/config/environment.ts');
  assert.equal(readEnvironment({ POWERTOOLS_SERVICE_NAME: 'ours' }).service, 'ours');
  assert.equal(readEnvironment({}).service, 'serving_stream');
});
