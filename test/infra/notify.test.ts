/** The stack of a job that tells targets of outcomes, and that of one that does not. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { refuseMissing } from '../../infra/account/secrets.ts';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import { deployerPolicies } from '../../infra/template/deployer-policy.ts';
import { temporaryFolder } from '../support/runner.ts';
import { propertiesOf, resourcesOf, roleStatements } from '../support/template.ts';
import { composeJob } from './compose.ts';

const TARGETS =
  'notify: {shop: {url: https://shop.example/hooks, secret: /shop/hook-secret}, crm: {url: https://crm.example/, secret: crm}}';

async function configOf(t: TestContext, text: string): Promise<string> {
  const path = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(path, text);
  return path;
}

const withTargets = async (t: TestContext, parameters = {}) =>
  composeJob({ config: await configOf(t, TARGETS), parameters });

test('a job without targets has no resource, output or property for them', () => {
  const found = JSON.stringify(composeJob()).match(/.{0,40}(?:notif|outbox|paused).{0,40}/gi);
  assert.equal(found, null);
});

test('a job with targets adds two queues, a function with its role and log, three policies and two alarms', async (t) => {
  const [without, template] = [composeJob(), await withTargets(t)];
  const added = Object.keys(template.Resources).filter((name) => !Object.hasOwn(without.Resources, name));
  assert.deepEqual(added.toSorted(), [
    'NotifierEventSourceMappingSQSNotifyQueue',
    'NotifierLambdaFunction',
    'NotifierLogGroup',
    'NotifierRole',
    'NotifyAgeAlarm',
    'NotifyDeadLetterQueue',
    'NotifyDeadLetterQueuePolicy',
    'NotifyGivenUpAlarm',
    'NotifyQueue',
    'NotifyQueuePolicy',
    'OutboxPolicy',
  ]);
  assert.deepEqual(
    Object.keys(without.Resources).filter((name) => !Object.hasOwn(template.Resources, name)),
    [],
  );
  // Beside the two alarms, nothing that waits costs anything.
  const [before = 0, after = 0] = [idlePrice(without).dollars, idlePrice(template).dollars];
  assert.equal(Math.round((after - before) * 100), 20);
});

test('the notifier is outside the VPC, and may do what it does and nothing else', async (t) => {
  const template = await withTargets(t);
  const notifier = propertiesOf(template, 'NotifierLambdaFunction');
  assert.equal(notifier['VpcConfig'], undefined);
  assert.deepEqual(Object.keys((notifier['Environment'] as { Variables: object }).Variables).toSorted(), [
    'CLUSTER_SERVING_BUCKET',
    'CLUSTER_SERVING_CONFIG',
    'CLUSTER_SERVING_NOTIFY_DEAD_LETTER_URL',
    'CLUSTER_SERVING_NOTIFY_QUEUE_URL',
  ]);
  const statements = roleStatements(template).flatMap(({ role, statement }) =>
    role === 'NotifierRole' ? [statement] : [],
  );
  const actions = statements.flatMap(({ Action }) => [Action].flat()).toSorted();
  assert.deepEqual(
    [...new Set(actions)],
    [
      'kms:Decrypt',
      'logs:CreateLogStream',
      'logs:PutLogEvents',
      's3:DeleteObject',
      's3:GetObject',
      's3:ListBucket',
      's3:PutObject',
      'sqs:DeleteMessage',
      'sqs:GetQueueAttributes',
      'sqs:ReceiveMessage',
      'sqs:SendMessage',
      'ssm:GetParameter',
    ],
  );
  assert.ok(statements.every(({ Resource }) => Resource !== '*'));
  const secrets = JSON.stringify(statements.find(({ Action }) => Action === 'ssm:GetParameter'));
  assert.match(secrets, /parameter\/shop\/hook-secret".*parameter\/crm"/);
});

test('S3 tells the queue of new objects of the outbox alone, once the queue lets it', async (t) => {
  const template = await withTargets(t);
  assert.deepEqual([template.Resources['Bucket']?.DependsOn].flat(), ['NotifyQueuePolicy']);
  const { QueueConfigurations } = propertiesOf(template, 'Bucket')['NotificationConfiguration'] as {
    QueueConfigurations: readonly object[];
  };
  assert.equal(QueueConfigurations.length, 1);
  assert.match(JSON.stringify(QueueConfigurations), /"outbox\/serving_stream\/"/);
  // A reference back would be a circle.
  assert.doesNotMatch(JSON.stringify(propertiesOf(template, 'NotifyQueuePolicy')), /Bucket/);
  const queue = propertiesOf(template, 'NotifyQueue');
  const seconds = Number(propertiesOf(template, 'NotifierLambdaFunction')['Timeout']);
  assert.ok(Number(queue['VisibilityTimeout']) >= 6 * seconds);
});

test('monitoring=full watches the notifier, and the deployer may tell the bucket of its queue', async (t) => {
  const template = await withTargets(t, { monitoring: 'full' });
  const alarms = resourcesOf(template, 'AWS::CloudWatch::Alarm').map(([name]) => name);
  assert.ok(
    alarms.some((name) => name.startsWith('Notifier')),
    alarms.join(),
  );
  const policies = deployerPolicies({
    kind: 'deployer',
    template,
    service: 'cluster-serving',
    stage: 'dev',
    queueName: 'cluster-serving-dev-queue',
    redisStack: undefined,
    account: undefined,
    region: undefined,
    partition: 'aws',
    deploymentRole: null,
  });
  assert.match(JSON.stringify(policies), /s3:PutBucketNotification/);
});

const REFUSED: readonly (readonly [config: string, message: RegExp])[] = [
  ['{shop: {url: http://localhost:3000/hooks, secret: a}}', /an address of this machine/],
  ['{shop: {url: https://shop.example/}}', /reads the secret from Systems Manager/],
  ['{shop: {url: https://169.254.169.254/, secret: a}}', /the address is not public/],
  ['{shop: {url: "https://[::ffff:10.0.0.1]/", secret: a}}', /the address is not public/],
  ['{shop: {url: https://shop.example:8443/, secret: a}}', /only port 443/],
  ['{shop: {url: http://shop.example/, secret: a}}', /only https/],
  ['{shop: {url: https://user:pw@shop.example/, secret: a}}', /password/],
  ['{shop: {url: https://shop.example/, secrte: a}}', /did you mean secret/],
  ['{shop: {secret: a}}', /expected one of url/],
  ['{shop: {url: https://shop.example/, secret: whsec_AAAA+/==}}', /never in this file/],
  ['{"1shop": {url: https://shop.example/, secret: a}}', /begins with a letter/],
  ['{shop: {url: https://a.example/, secret: a, include: all}}', /expected result/],
  [
    `{${Array.from({ length: 11 }, (_, i) => `t${i}: {url: https://a.example/, secret: a}`).join()}}`,
    /11 targets are over the limit of 10/,
  ],
];
for (const [targets, message] of REFUSED) {
  test(`a deployment with notify: ${targets.slice(0, 60)} is refused by name`, async (t) => {
    const config = await configOf(t, `notify: ${targets}`);
    assert.throws(() => composeJob({ config }), { code: 'bad_config', message });
  });
}

test('a deployment without the secret of a target is refused, and one that may not ask goes on with a note', async () => {
  const answers: Readonly<Record<string, () => unknown>> = {
    '/there': () => ({ Parameter: { Type: 'SecureString' } }),
    '/plain': () => ({ Parameter: { Type: 'String' } }),
    '/missing': () => {
      throw Object.assign(new Error('no'), { name: 'ParameterNotFound' });
    },
    '/denied': () => {
      throw Object.assign(new Error('not authorized'), { name: 'AccessDeniedException' });
    },
  };
  const ask = async (name: string) => answers[name]?.();
  assert.equal(await refuseMissing(ask, ['/there']), undefined);
  await assert.rejects(refuseMissing(ask, ['/there', '/plain']), /\/plain is a String and no SecureString/);
  await assert.rejects(refuseMissing(ask, ['/missing']), {
    code: 'bad_config',
    message: /no parameter \/missing/,
  });
  assert.match((await refuseMissing(ask, ['/denied'])) ?? '', /could not be looked for: not authorized/);
});
