/** The stack of a job whose deployment takes jobs over files, and that of one that does not. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import { temporaryFolder } from '../support/runner.ts';
import { propertiesOf, roleStatements } from '../support/template.ts';
import { composeJob } from './compose.ts';

const NOTIFY = 'notify: {shop: {url: https://shop.example/hooks, secret: /shop/hook-secret}}';

async function stackOf(t: TestContext, text: string) {
  const config = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(config, text);
  return composeJob({ config });
}

const statementsOf = (template: ReturnType<typeof composeJob>) =>
  roleStatements(template).flatMap(({ role, statement }) => (role === 'JobsRole' ? [statement] : []));

test('a deployment that takes no jobs over files has nothing of them', async (t) => {
  const without = JSON.stringify(composeJob());
  assert.doesNotMatch(without, /JobsQueue|JobsRole|jobs\//);
  // One with another setting is the same, but for that.
  assert.equal(JSON.stringify(await stackOf(t, 'jobs: {buckets: [lake]}')), without);
});

test('a deployment that takes them adds two queues, a function outside the VPC with its role and log, an alarm, and the routes of batches', async (t) => {
  const [without, template] = [composeJob(), await stackOf(t, 'jobName: day\njobs: {maximumConcurrency: 4}')];
  const added = Object.keys(template.Resources).filter((name) => !Object.hasOwn(without.Resources, name));
  const routes = /^HttpApiRoute(Post|Get|Delete)V1(Files|Batches)/;
  assert.equal(added.filter((name) => routes.test(name)).length, 9);
  assert.deepEqual(added.filter((name) => !routes.test(name)).toSorted(), [
    'JobsDeadLetterQueue',
    'JobsDeadLetterQueuePolicy',
    'JobsEventSourceMappingSQSJobsQueue',
    'JobsGivenUpAlarm',
    'JobsLambdaFunction',
    'JobsLogGroup',
    'JobsQueue',
    'JobsQueuePolicy',
    'JobsRole',
    'SubmitBatchesPolicy',
  ]);
  const jobs = propertiesOf(template, 'JobsLambdaFunction');
  assert.equal(jobs['VpcConfig'], undefined);
  const { Variables } = jobs['Environment'] as { Variables: object };
  assert.deepEqual(Object.keys(Variables).toSorted(), [
    'CLUSTER_SERVING_BUCKET',
    'CLUSTER_SERVING_CONFIG',
    'CLUSTER_SERVING_JOBS_QUEUE_URL',
  ]);
  const source = propertiesOf(template, 'JobsEventSourceMappingSQSJobsQueue');
  assert.equal(source['BatchSize'], 1);
  assert.deepEqual(source['ScalingConfig'], { MaximumConcurrency: 4 });
  const bucket = JSON.stringify(propertiesOf(template, 'Bucket'));
  assert.match(bucket, /"Id":"jobs","Status":"Enabled","Prefix":"jobs\/day\/run\/","ExpirationInDays":30/);
  assert.match(bucket, /"Queue":\{"Fn::GetAtt":\["JobsQueue","Arn"\]\}.*"Value":"jobs\/day\/in\/"/);
  const [before = 0, after = 0] = [idlePrice(without).dollars, idlePrice(template).dollars];
  assert.equal(Math.round((after - before) * 100), 10);
});

test('its function may reach its own objects and the buckets that are named, and deletes nothing but its parts', async (t) => {
  const own = statementsOf(await stackOf(t, 'jobs: {maximumConcurrency: 2}'));
  assert.ok(own.every(({ Resource }) => Resource !== '*'));
  const deleting = own.filter(({ Action }) => [Action].flat().includes('s3:DeleteObject'));
  assert.deepEqual(
    deleting.map(({ Resource }) => Resource),
    [{ 'Fn::Sub': '${Bucket.Arn}/jobs/serving_stream/run/*' }],
  );
  assert.doesNotMatch(JSON.stringify(own), /s3:::/);
  const others = statementsOf(await stackOf(t, 'jobs: {maximumConcurrency: 2, buckets: [lake, out]}'));
  const files = others.find(({ Sid }) => Sid === 'ReadAndWriteFiles');
  assert.deepEqual(files?.Resource, [
    { 'Fn::Sub': 'arn:${AWS::Partition}:s3:::lake/*' },
    { 'Fn::Sub': 'arn:${AWS::Partition}:s3:::out/*' },
  ]);
});

test('with targets, too, the bucket tells each queue of its own objects', async (t) => {
  const template = await stackOf(t, `${NOTIFY}\njobs: {maximumConcurrency: 2}`);
  const { NotificationConfiguration } = propertiesOf(template, 'Bucket') as {
    NotificationConfiguration: { QueueConfigurations: { Queue: unknown }[] };
  };
  assert.deepEqual(
    NotificationConfiguration.QueueConfigurations.map(({ Queue }) => Queue),
    [{ 'Fn::GetAtt': ['NotifyQueue', 'Arn'] }, { 'Fn::GetAtt': ['JobsQueue', 'Arn'] }],
  );
  const { DependsOn } = template.Resources['Bucket'] as { DependsOn?: unknown };
  assert.deepEqual(DependsOn, ['NotifyQueuePolicy', 'JobsQueuePolicy']);
});
