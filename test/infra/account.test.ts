/** `doctor --account`: what an account answers, and what is made of it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { type AccountRequest, askAccount } from '../../infra/account/account.ts';
import { cliJson } from '../cli/cli.ts';
import { temporaryFolder } from '../support/runner.ts';

const REQUEST: AccountRequest = {
  region: 'us-east-1',
  queues: ['cluster-serving-dev-queue', 'cluster-serving-dev-queue-dlq'],
  planned: {
    stackName: 'cluster-serving-dev',
    jobName: 'serving_stream',
    missingModel: undefined,
    network: {
      redis: 'node',
      vpcId: { Ref: 'Vpc' },
      subnetIds: [{ Ref: 'SubnetA' }, { Ref: 'SubnetB' }],
      zones: ['us-east-1a', 'us-east-1b'],
    },
  },
  template: {
    Resources: {
      Own: { Type: 'AWS::S3::Bucket', Properties: { BucketName: 'mine' } },
      Made: { Type: 'AWS::S3::Bucket' },
      Log: {
        Type: 'AWS::Logs::LogGroup',
        Properties: { LogGroupName: '/aws/lambda/cluster-serving-dev-batch' },
      },
    },
  },
  zones: [],
  sharedRedis: undefined,
  ownNetwork: true,
  memoryMB: 1769,
  environments: 12,
  secrets: [],
  targets: {},
};

const failed = (name: string, message = name, status = 400) =>
  Object.assign(new Error(message), { name, $metadata: { httpStatusCode: status } });

/** Answers of an account in which nothing is in the way, by action. */
const FREE: Readonly<Record<string, unknown>> = {
  GetCallerIdentity: { Account: '123456789012', Arn: 'arn:aws:iam::123456789012:user/me' },
  GetAccountSettings: { AccountLimit: { ConcurrentExecutions: 1000, UnreservedConcurrentExecutions: 900 } },
  DescribeAvailabilityZones: {
    AvailabilityZones: ['us-east-1b', 'us-east-1a', 'us-east-1e'].map((ZoneName) => ({
      ZoneName,
      State: 'available',
    })),
  },
  DescribeVpcs: { Vpcs: ['', '', '', ''] },
  GetTemplate: { TemplateBody: '{"Resources":{}}' },
  DescribeStacks: failed('ValidationError', 'Stack with id cluster-serving-dev does not exist'),
  GetQueueUrl: failed('QueueDoesNotExist'),
  HeadBucket: failed('NotFound', 'NotFound', 404),
  DescribeLogGroups: { logGroups: [{ logGroupName: '/aws/lambda/cluster-serving-dev-batch-py' }] },
};

async function answersOf(
  changes: Readonly<Record<string, unknown>> = {},
  request: Partial<AccountRequest> = {},
) {
  const asked: string[] = [];
  const answers = await askAccount(
    async (service, action) => {
      asked.push(`${service}:${action}`);
      const answer = { ...FREE, ...changes }[action];
      if (answer instanceof Error) throw answer;
      return answer;
    },
    { ...REQUEST, ...request },
  );
  return {
    asked,
    answers,
    of: (question: string) => answers.find((answer) => answer.question === question),
    kinds: Object.fromEntries(answers.map(({ question, kind }) => [question, kind])),
  };
}

test('an account in which nothing is in the way answers every question with ok', async () => {
  const { kinds, of, asked } = await answersOf();
  const questions = ['identity', 'concurrency', 'zones', 'vpcs', 'stack', 'queues', 'buckets', 'log-groups'];
  assert.deepEqual(kinds, Object.fromEntries(questions.map((question) => [question, 'ok'])));
  assert.match(of('identity')?.found ?? '', /account 123456789012, region us-east-1, as arn:aws:iam::/);
  assert.match(
    of('zones')?.found ?? '',
    /^us-east-1a, us-east-1b, us-east-1e; subnets in us-east-1a and us-east-1b$/,
  );
  for (const call of asked) assert.match(call, /:(Get|Describe|Head)[A-Z]/);
});

test('a new account: ten environments, and perhaps 3,008 MB', async () => {
  const limit = (ConcurrentExecutions: number) => ({
    GetAccountSettings: {
      AccountLimit: { ConcurrentExecutions, UnreservedConcurrentExecutions: ConcurrentExecutions },
    },
  });
  const { of } = await answersOf(limit(10));
  assert.equal(of('concurrency')?.kind, 'warning');
  assert.match(
    of('concurrency')?.found ?? '',
    /10 concurrent executions, .* may take 12, so POST \/predict may get none/,
  );
  assert.match(of('concurrency')?.fix ?? '', /queue\.maximumConcurrency: 2 .*Service Quotas/);
  const memory = await answersOf(limit(10), { environments: 4, memoryMB: 4096 });
  assert.match(memory.of('concurrency')?.fix ?? '', /function\.memoryMB: 3008/);
  assert.equal((await answersOf(limit(10), { environments: 4 })).kinds['concurrency'], 'ok');
});

test('zones that the account does not have are an error that says which it has', async () => {
  const { of } = await answersOf({}, { zones: ['us-east-1c', 'us-east-1a'] });
  assert.deepEqual([of('zones')?.kind, of('zones')?.fix], ['error', '--param zones=us-east-1a,us-east-1b']);
  assert.match(of('zones')?.found ?? '', /not us-east-1c$/);
});

test('an account that has five VPCs is warned, unless the stack makes none', async () => {
  const five = { DescribeVpcs: { Vpcs: Array.from({ length: 5 }, () => '<vpcId>') } };
  const { of } = await answersOf(five);
  assert.equal(of('vpcs')?.kind, 'warning');
  assert.match(of('vpcs')?.found ?? '', /^us-east-1 has 5, and the stack makes one more; the quota is 5 /);
  assert.match(of('vpcs')?.fix ?? '', /Service Quotas.*--param vpcId/);
  assert.equal((await answersOf(five, { ownNetwork: false })).of('vpcs'), undefined);
  const there = { DescribeStacks: { Stacks: [{ StackStatus: 'UPDATE_COMPLETE' }] } };
  assert.equal((await answersOf({ ...five, ...there })).of('vpcs'), undefined);
});

test('a network that CloudFormation cannot change is an error', async () => {
  const QueueUrl = 'https://sqs.us-east-1.amazonaws.com/123456789012/cluster-serving-dev-queue';
  const Outputs = [{ OutputKey: 'QueueUrl', OutputValue: QueueUrl }];
  const subnet = (zone: string) => ({ Properties: { AvailabilityZone: zone } });
  const Resources = { SubnetA: subnet('us-east-1a'), SubnetB: subnet('us-east-1d') };
  const { of } = await answersOf({
    DescribeStacks: { Stacks: [{ StackStatus: 'UPDATE_COMPLETE', Outputs }] },
    GetTemplate: { TemplateBody: JSON.stringify({ Resources }) },
  });
  assert.equal(of('stack')?.kind, 'error');
  assert.match(of('stack')?.found ?? '', /us-east-1a and us-east-1d.*--param zones=us-east-1a,us-east-1d/);
});

test('a stack that must be removed first, and one without its model, are errors', async () => {
  const stack = (StackStatus: string, Outputs: readonly object[] = []) => ({
    DescribeStacks: { Stacks: [{ StackStatus, Outputs }] },
  });
  const rolledBack = await answersOf(stack('ROLLBACK_COMPLETE'));
  assert.equal(rolledBack.of('stack')?.kind, 'error');
  assert.match(rolledBack.of('stack')?.fix ?? '', /^npx serverless remove/);
  assert.equal((await answersOf(stack('UPDATE_IN_PROGRESS'))).kinds['stack'], 'error');
  const url = 'https://sqs.us-east-1.amazonaws.com/123456789012/cluster-serving-dev-queue';
  const there = await answersOf(stack('UPDATE_COMPLETE', [{ OutputKey: 'QueueUrl', OutputValue: url }]));
  assert.equal(there.kinds['stack'], 'ok');
  assert.deepEqual(
    [there.kinds['update'], there.of('update')?.found],
    ['ok', 'in place 0; new 3 (Own, Made, Log)'],
  );
  assert.equal((await answersOf()).of('update'), undefined);
  // Its names differ from all others.
  assert.equal(there.of('queues'), undefined);
  const without = { ...REQUEST.planned, missingModel: '/job/model' };
  assert.match((await answersOf({}, { planned: without })).of('stack')?.found ?? '', /there is no model/);
});

test('names that are taken without a stack are errors, a bucket of another account too', async () => {
  const { of } = await answersOf({
    GetQueueUrl: { QueueUrl: 'https://…' },
    HeadBucket: failed('Forbidden', 'Forbidden', 403),
    DescribeLogGroups: { logGroups: [{ logGroupName: '/aws/lambda/cluster-serving-dev-batch' }] },
  });
  assert.match(
    of('queues')?.found ?? '',
    /queue cluster-serving-dev-queue, cluster-serving-dev-queue-dlq already/,
  );
  assert.match(of('buckets')?.found ?? '', /bucket mine already/);
  assert.match(of('log-groups')?.found ?? '', /log group \/aws\/lambda\/cluster-serving-dev-batch already/);
  for (const question of ['queues', 'buckets', 'log-groups']) assert.equal(of(question)?.kind, 'error');
});

test('a question that may not be asked, or fails, is a note; the others are asked', async () => {
  const { kinds, of } = await answersOf({
    GetAccountSettings: failed('AccessDeniedException', 'User is not authorized'),
    DescribeAvailabilityZones: failed('UnauthorizedOperation'),
    DescribeStacks: failed('AccessDenied'),
    GetQueueUrl: failed('TimeoutError', 'no answer'),
  });
  assert.deepEqual(kinds, {
    identity: 'ok',
    concurrency: 'note',
    zones: 'note',
    vpcs: 'ok',
    stack: 'note',
    queues: 'note',
    buckets: 'ok',
    'log-groups': 'ok',
  });
  assert.match(of('zones')?.found ?? '', /no permission for ec2:DescribeAvailabilityZones/);
  assert.match(of('queues')?.found ?? '', /TimeoutError: no answer/);
});

test('without credentials one error says so, and nothing else is asked', async () => {
  const { kinds, asked } = await answersOf({ GetCallerIdentity: failed('CredentialsProviderError') });
  assert.deepEqual([kinds, asked], [{ identity: 'error' }, ['sts:GetCallerIdentity']]);
});

/** STS and EC2 over HTTP; everything else is denied. */
async function startEndpoint(t: TestContext) {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const fields = new URLSearchParams(await text(request));
      const query = new URL(request.url ?? '/', 'http://localhost').searchParams;
      const action = fields.get('Action') ?? query.get('Action') ?? `${request.method} ${request.url}`;
      seen.push(action);
      const signed = request.headers.authorization ?? query.get('X-Amz-Credential') ?? '';
      assert.match(signed, /MADEUP/);
      if (action === 'GetCallerIdentity')
        return response.end(
          '<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/me</Arn><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>',
        );
      if (action === 'DescribeAvailabilityZones')
        return response.end(
          '<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneName>us-east-1a</zoneName><zoneState>available</zoneState></item><item><zoneName>us-east-1d</zoneName><zoneState>available</zoneState></item></availabilityZoneInfo></DescribeAvailabilityZonesResponse>',
        );
      if (action === 'DescribeVpcs')
        return response.end(
          `<DescribeVpcsResponse><vpcSet>${'<item><vpcId>vpc-1</vpcId><cidrBlockAssociationSet><item><associationId>a</associationId></item></cidrBlockAssociationSet></item>'.repeat(6)}</vpcSet></DescribeVpcsResponse>`,
        );
      response.writeHead(403, { 'x-amzn-errortype': 'AccessDeniedException' });
      return response.end(
        '<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized</Message></Error></ErrorResponse>',
      );
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

test('the command asks with the clients of the AWS SDK, and prints the answers as JSON', async (t) => {
  const { url, seen } = await startEndpoint(t);
  const { json, stderr } = await cliJson(['doctor', '--account', '--region', 'us-east-1'], {
    cwd: await temporaryFolder(t),
    env: {
      AWS_ENDPOINT_URL: url,
      AWS_ACCESS_KEY_ID: 'MADEUP',
      AWS_SECRET_ACCESS_KEY: 'secret',
      AWS_EC2_METADATA_DISABLED: 'true',
    },
  });
  assert.equal(stderr, '');
  const { account } = json as { account: readonly { question: string; kind: string; found: string }[] };
  const found = Object.fromEntries(account.map(({ question, kind }) => [question, kind]));
  assert.deepEqual(found, {
    identity: 'ok',
    concurrency: 'note',
    zones: 'ok',
    vpcs: 'warning',
    stack: 'note',
    queues: 'note',
  });
  assert.match(account.find(({ question }) => question === 'vpcs')?.found ?? '', /us-east-1 has 6,/);
  assert.ok(seen.includes('DescribeAvailabilityZones'));
});

test('a bus, topic or queue that is notified must be of the account and region, and there', async () => {
  const targets = {
    stock: { sqs: 'arn:aws:sqs:us-east-1:123456789012:stock' },
    bus: { eventBridge: 'default' },
  };
  const absent = await answersOf({}, { targets });
  assert.equal(absent.of('targets')?.kind, 'error');
  assert.match(absent.of('targets')?.found ?? '', /notify.stock: there is no queue stock; create it first/);
  const there = await answersOf({ GetQueueUrl: { QueueUrl: 'https://' } }, { targets });
  assert.equal(there.of('targets')?.kind, 'ok');
  const elsewhere = await answersOf({}, { targets, region: 'eu-west-1' });
  assert.match(elsewhere.of('targets')?.found ?? '', /it is in us-east-1, and the stack in eu-west-1/);
});
