/** The stack of a job that tells targets of outcomes, and that of one that does not. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Ask } from '../../infra/account/answer.ts';
import { accountClients } from '../../infra/account/clients.ts';
import { refuseMissing } from '../../infra/account/secrets.ts';
import { assertRegion, assertTargets } from '../../infra/account/targets.ts';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import { deployerPolicies } from '../../infra/template/deployer-policy.ts';
import type { Targets } from '../../lib/contract/notice.ts';
import { useAws } from '../support/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SIGNED_ENVIRONMENT, SIGNED_REGION, startSignedApi } from '../support/signed-api.ts';
import { ROOT } from '../support/start.ts';
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

test('a job with targets adds two queues, a function with its role and log, three policies, a rule and two alarms', async (t) => {
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
    'OutboxRule',
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

test('the notifier may reach the buses, topics and queues that are named, and asks for no secret where none is', async (t) => {
  const config = await configOf(
    t,
    `notify:
  bus: {eventBridge: orders}
  other-bus: {eventBridge: 'arn:aws:events:us-east-1:123456789012:event-bus/other'}
  topic: {sns: 'arn:aws:sns:us-east-1:123456789012:done.fifo', include: result}
  queue: {sqs: 'https://sqs.us-east-1.amazonaws.com/123456789012/done'}
  flow: {stepFunctions: 'arn:aws:states:us-east-1:123456789012:stateMachine:orders'}`,
  );
  const template = composeJob({ config });
  const statements = roleStatements(template).flatMap(({ role, statement }) =>
    role === 'NotifierRole' ? [statement] : [],
  );
  const ours = statements.filter(({ Sid = '' }) => /PutEvents|Topics|Queues|Secret|Tasks/.test(Sid));
  const arn = (rest: string) => {
    const [service = '', ...name] = rest.split(':');
    const place = `\${AWS::Region}:\${AWS::AccountId}`;
    return { 'Fn::Sub': `arn:\${AWS::Partition}:${service}:${place}:${name.join(':')}` };
  };
  const encrypted = (Sid: string, service: string, context: string, resource: object) => ({
    Sid,
    Effect: 'Allow',
    Action: ['kms:Decrypt', 'kms:GenerateDataKey'],
    Resource: arn('kms:key/*'),
    Condition: {
      StringEquals: {
        'kms:ViaService': { 'Fn::Sub': `${service}.\${AWS::Region}.\${AWS::URLSuffix}` },
        [`kms:EncryptionContext:${context}`]: [resource],
      },
    },
  });
  const [topic, queue] = [arn('sns:done.fifo'), arn('sqs:done')];
  const machine = arn('states:stateMachine:orders');
  assert.deepEqual(ours, [
    {
      Sid: 'PutEvents',
      Effect: 'Allow',
      Action: 'events:PutEvents',
      Resource: [arn('events:event-bus/orders'), arn('events:event-bus/other')],
    },
    { Sid: 'PublishToTopics', Effect: 'Allow', Action: 'sns:Publish', Resource: [topic] },
    encrypted('EncryptForTopics', 'sns', 'aws:sns:topicArn', topic),
    { Sid: 'SendToQueues', Effect: 'Allow', Action: 'sqs:SendMessage', Resource: [queue] },
    encrypted('EncryptForQueues', 'sqs', 'aws:sqs:arn', queue),
    {
      Sid: 'EndTasks',
      Effect: 'Allow',
      Action: ['states:SendTaskSuccess', 'states:SendTaskFailure'],
      Resource: [machine],
    },
    encrypted('EncryptForTasks', 'states', 'aws:states:stateMachineArn', machine),
  ]);
});

const PLACED: Targets = {
  bus: { eventBridge: 'orders' },
  topic: { sns: 'arn:aws:sns:us-east-1:123456789012:done' },
  queue: { sqs: 'https://sqs.us-east-1.amazonaws.com/123456789012/done' },
  flow: { stepFunctions: 'arn:aws:states:us-east-1:123456789012:stateMachine:orders' },
};

test('targets of another account or region, and those that are not there, are refused before a deployment changes anything', async () => {
  const asked: string[] = [];
  const ask =
    (account: string, absent?: string): Ask =>
    async (_service, action) => {
      asked.push(action);
      if (action === absent) throw Object.assign(new Error('no such thing'), { name: 'NotFoundException' });
      return { Account: account };
    };
  assert.equal(await assertTargets(ask('123456789012'), PLACED, 'us-east-1'), undefined);
  assert.deepEqual(asked, [
    'GetCallerIdentity',
    'DescribeEventBus',
    'GetTopicAttributes',
    'GetQueueUrl',
    'DescribeStateMachine',
  ]);
  await assert.rejects(assertTargets(ask('999999999999'), PLACED, 'us-east-1'), {
    code: 'bad_config',
    message: /notify.topic: it is of the account 123456789012, and the stack of 999999999999.*\nnotify.queue/,
  });
  await assert.rejects(assertTargets(ask('123456789012'), PLACED, 'eu-west-1'), {
    message: /notify.topic: it is in us-east-1, and the stack in eu-west-1/,
  });
  await assert.rejects(assertTargets(ask('123456789012', 'DescribeEventBus'), PLACED, 'us-east-1'), {
    message: /notify.bus: there is no event bus orders; create it first/,
  });
  const denied: Ask = async () => {
    throw Object.assign(new Error('not authorized'), { name: 'AccessDeniedException' });
  };
  assert.match((await assertTargets(denied, PLACED, 'us-east-1')) ?? '', /could not be looked for: not auth/);
  // A package is made without an account.
  assertRegion({ notifyTargets: PLACED }, 'us-east-1');
  assert.throws(() => assertRegion({ notifyTargets: PLACED }, 'us-west-2'), {
    code: 'bad_config',
    message: /in us-west-2/,
  });
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

test('a rule lets the notifier look at the outbox every 15 minutes, and a lifecycle rule removes what was not sent within 15 days', async (t) => {
  const template = await withTargets(t);
  const rule = propertiesOf(template, 'OutboxRule');
  assert.equal(rule['ScheduleExpression'], 'rate(15 minutes)');
  assert.deepEqual(rule['Targets'], [
    { Id: 'notifier', Arn: { 'Fn::GetAtt': ['NotifyQueue', 'Arn'] }, Input: '{"look":"outbox"}' },
  ]);
  assert.match(
    JSON.stringify(propertiesOf(template, 'NotifyQueuePolicy')),
    /"Service":"events.amazonaws.com".*"ArnEquals":\{"aws:SourceArn":\{"Fn::GetAtt":\["OutboxRule","Arn"\]/,
  );
  const rulesOf = (of: typeof template) => {
    const { Rules }: { Rules?: readonly object[] } = Object(
      propertiesOf(of, 'Bucket')['LifecycleConfiguration'],
    );
    return Rules ?? [];
  };
  const [own, plain] = [rulesOf(template), rulesOf(composeJob())];
  assert.deepEqual(own.slice(0, -1), plain);
  assert.deepEqual(own.at(-1), {
    Id: 'outbox',
    Status: 'Enabled',
    Prefix: 'outbox/',
    ExpirationInDays: 15,
  });
});

test('monitoring=full watches the notifier, and the deployer may tell the bucket of its queue', async (t) => {
  const template = await withTargets(t, { monitoring: 'full' });
  const alarms = resourcesOf(template, 'AWS::CloudWatch::Alarm').map(([name]) => name);
  // They have entries in docs/how-to/runbook.md (monitoring-tests.ts).
  assert.deepEqual(alarms.filter((name) => name.startsWith('Notif')).toSorted(), [
    'NotifierDurationAlarm',
    'NotifierErrorsAlarm',
    'NotifierThrottlesAlarm',
    'NotifyAgeAlarm',
    'NotifyGivenUpAlarm',
  ]);
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

test('Step Functions is asked for a state machine by a signed call, and one that is not there is refused by name', async (t) => {
  const seen: string[] = [];
  const api = await startSignedApi(t, {
    service: 'states',
    behind: ({ headers, body }) => {
      seen.push(`${String(headers['x-amz-target'])} ${body.toString()}`);
      if (seen.length > 1)
        return Response.json({ __type: 'StateMachineDoesNotExist', message: 'no' }, { status: 400 });
      return Response.json({ name: 'orders' });
    },
  });
  useAws({ ...SIGNED_ENVIRONMENT, AWS_ENDPOINT_URL_SFN: api.url });
  const { ask: askAws, close } = accountClients(SIGNED_REGION, ROOT);
  t.after(async () => close());
  const ask: Ask = (service, action, input) =>
    service === 'sts' ? Promise.resolve({ Account: '123456789012' }) : askAws(service, action, input);
  const notify: Targets = {
    flow: { stepFunctions: `arn:aws:states:${SIGNED_REGION}:123456789012:stateMachine:orders` },
  };
  assert.equal(await assertTargets(ask, notify, SIGNED_REGION), undefined);
  assert.deepEqual(seen, [
    `AWSStepFunctions.DescribeStateMachine {"stateMachineArn":"${notify['flow']?.stepFunctions}"}`,
  ]);
  await assert.rejects(assertTargets(ask, notify, SIGNED_REGION), {
    message: /notify.flow: there is no state machine orders; create it first/,
  });
  assert.deepEqual(api.refused, []);
});

const REFUSED: readonly (readonly [config: string, message: RegExp])[] = [
  ['{flow: {stepFunctions: orders}}', /the ARN of a state machine/],
  ['{flow: {stepFunctions: "arn:aws:states:us-east-1:123456789012:activity:orders"}}', /a state machine/],
  ['{flow: {stepFunctions: "arn:aws:states:us-east-1:123456789012:stateMachine:o:1"}}', /a state machine/],
  [
    '{flow: {stepFunctions: "arn:aws:states:us-east-1:123456789012:stateMachine:o", include: result}}',
    /without `include`/,
  ],
  ['{shop: {url: http://localhost:3000/hooks, secret: a}}', /an address of this machine/],
  ['{shop: {url: https://shop.example/}}', /reads the secret from Systems Manager/],
  ['{shop: {url: https://169.254.169.254/, secret: a}}', /the address is not public/],
  ['{shop: {url: "https://[::ffff:10.0.0.1]/", secret: a}}', /the address is not public/],
  ['{shop: {url: https://shop.example:8443/, secret: a}}', /only port 443/],
  ['{shop: {url: http://shop.example/, secret: a}}', /only https/],
  ['{shop: {url: https://user:pw@shop.example/, secret: a}}', /password/],
  ['{shop: {url: https://shop.example/, secrte: a}}', /did you mean secret/],
  ['{shop: {secret: a}}', /expected one of url/],
  ['{shop: {eventBridge: default, sqs: "arn:aws:sqs:us-east-1:123456789012:q"}}', /expected one of url/],
  ['{shop: {eventBridge: default, secret: a}}', /secret belongs to a url/],
  ['{shop: {eventBridge: "arn:aws:sns:us-east-1:123456789012:q"}}', /the ARN of an event bus/],
  ['{shop: {sns: orders}}', /the ARN of a topic/],
  ['{shop: {sns: "arn:aws:sns:us-east-1:12345:q"}}', /the ARN of a topic/],
  ['{shop: {sns: "arn:aws-cn:sns:us-east-1:123456789012:q"}}', /the ARN of a topic/],
  ['{shop: {sqs: "https://sqs.example/123456789012/q"}}', /the URL or the ARN of a queue/],
  ['{shop: {sqs: "http://169.254.169.254/123456789012/q"}}', /the URL or the ARN of a queue/],
  [
    '{shop: {sqs: "arn:aws:sqs:us-east-1:123456789012:cluster-serving-dev-queue-notify"}}',
    /is a queue of the job itself/,
  ],
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
