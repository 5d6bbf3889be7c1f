/** Large results on one machine: their objects at the job's own API, and what removes them. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, Context } from 'aws-lambda';
import { putText } from '../../lib/s3/objects.ts';
import { listPages } from '../../lib/s3/pages.ts';
import { startAws } from '../../local/aws/aws.ts';
import { largeResultsRoute, localLocation, sweepLargeResults } from '../../local/service/large-results.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
const PLACE = { bucket: 'bucket-1', job: 'job' };

async function openBucket(t: TestContext) {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  await aws.createBucket('bucket-1');
  const id = randomUUID();
  const keys = [`results/job/${id}`, `results/job/${id}.json`, `results/other/${id}.json`];
  for (const key of keys) await putText(aws.s3, { bucket: 'bucket-1', key }, `{"key":"${key}"}`);
  return { s3: aws.s3, id, keys };
}

test('the location of an object is answered with it, and no other name is', async (t) => {
  const { s3, id, keys } = await openBucket(t);
  await putText(s3, { bucket: 'bucket-1', key: 'results/job/x' }, 'no result');
  const { handler, path } = largeResultsRoute(s3, PLACE);
  assert.equal(localLocation(keys[1] as string), path.replace('{name}', `${id}.json`));
  const get = async (name: string) => {
    const event = { requestContext: { http: { method: 'GET' } }, headers: {}, pathParameters: { name } };
    const answer = handler(event as unknown as APIGatewayProxyEventV2, {} as Context);
    return (await answer) as APIGatewayProxyStructuredResultV2;
  };
  const { statusCode, headers, body } = await get(`${id}.json`);
  assert.deepEqual([statusCode, headers?.['cache-control'], body], [200, 'no-store', `{"key":"${keys[1]}"}`]);
  const raw = await get(id);
  assert.equal(Buffer.from(raw.body ?? '', 'base64').toString(), `{"key":"${keys[0]}"}`);
  for (const name of [`${randomUUID()}.json`, `../other/${id}.json`, '', 'x'])
    assert.equal((await get(name)).statusCode, 404, name);
});

test('what outlived its pointer by a day is removed, of this job alone', async (t) => {
  const { s3, keys } = await openBucket(t);
  const left = async () => {
    const found: string[] = [];
    for await (const page of listPages(s3, 'bucket-1', '')) found.push(...page.map(({ key }) => key));
    return found.sort();
  };
  // The end waits for the sweep that the start began.
  await sweepLargeResults(s3, { ...PLACE, ttlSeconds: 60 })();
  assert.deepEqual(await left(), keys.toSorted());
  await sweepLargeResults(s3, { ...PLACE, ttlSeconds: -86_460 })();
  assert.deepEqual(await left(), keys.slice(2));
});
