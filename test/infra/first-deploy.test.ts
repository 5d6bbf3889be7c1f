/** What stops a deployment before it creates anything, and what is said about an error of AWS. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adviceOn } from '../../infra/account/advice.ts';
import { assertDeployable, type Planned } from '../../infra/account/deployed-stack.ts';
import { queueName } from '../../lib/queue/names.ts';

const URL = 'https://sqs.us-east-1.amazonaws.com/123456789012/';
const DEPLOYING = { zones: [], region: 'us-east-1', stage: 'dev' };

function outputs(queue: string, job = 'serving_stream') {
  return {
    QueueUrl: `${URL}${queue}`,
    ModelLocation: `s3://bucket/models/${job}/`,
  };
}

function planned(change: Partial<Planned> = {}): Planned {
  return {
    stackName: 'cluster-serving-dev',
    jobName: 'serving_stream',
    missingModel: undefined,
    network: OWN,
    ...change,
  };
}

const never = { template: () => answerOf({}) };

/** As infra/template/resources.ts plans the network of a stack without parameters, and with its own zones or VPC. */
const first = [0, 1].map((place) => ({ 'Fn::Select': [place, { 'Fn::GetAZs': '' }] }));
const OWN: Planned['network'] = {
  redis: 'node',
  vpcId: { Ref: 'Vpc' },
  subnetIds: [{ Ref: 'SubnetA' }, { Ref: 'SubnetB' }],
  zones: first,
};
const VPC = { ...OWN, vpcId: 'vpc-0123456789abcdef0', subnetIds: ['subnet-1', 'subnet-2'] };

/** GetTemplate of a stack with this network. */
function deployedIn({ redis, vpcId, subnetIds, zones }: NonNullable<Planned['network']>) {
  const subnets = zones.map((AvailabilityZone) => ({ Properties: { AvailabilityZone } }));
  return answerOf({
    ...(typeof vpcId === 'string' ? {} : { SubnetA: subnets[0], SubnetB: subnets[1] }),
    RedisSecurityGroup: { Properties: { VpcId: vpcId } },
    ...(redis === 'node'
      ? { Redis: { Properties: {} } }
      : { RedisServerless: { Properties: { SubnetIds: subnetIds } } }),
  });
}

const answerOf = (Resources: object) => Promise.resolve({ TemplateBody: JSON.stringify({ Resources }) });

test('a first deployment needs a model, or the sample; a later one does not', async () => {
  const without = planned({ missingModel: '/job/model' });
  // A stack whose creation failed has its deployment bucket only.
  for (const deployed of [undefined, {}, { ServerlessDeploymentBucketName: 'b' }])
    await assert.rejects(assertDeployable(deployed, without, never), {
      code: 'model_unavailable',
      message: /\/job\/model is no directory.*Nothing was created.*modelPath.*--param sample=on/,
    });
  await assertDeployable(undefined, planned(), never);
  await assertDeployable(outputs(queueName('serving_stream', 'dev')), without, never);
});

test('the stack of another job is not overwritten', async () => {
  const deployed = outputs('cluster-serving-a-b-c-queue', 'a');
  const change = { stackName: 'cluster-serving-a-b-c', jobName: 'a-b' };
  await assert.rejects(assertDeployable(deployed, planned(change), never), {
    message: /cluster-serving-a-b-c is the stack of the job a, and this deployment is of the job a-b/,
  });
});

test('zones, a VPC and subnets that CloudFormation cannot change are refused, with what is deployed', async () => {
  const named = ['us-east-1a', 'us-east-1c'];
  const serverless = { redis: 'serverless' } as const;
  for (const [before, after, expected] of [
    [OWN, { ...OWN, zones: named }, /in the first two zones of the region.* Leave out zones/],
    [
      { ...OWN, zones: named },
      OWN,
      /in us-east-1a and us-east-1c.* Keep --param zones=us-east-1a,us-east-1c/,
    ],
    [
      { ...OWN, zones: named },
      { ...OWN, zones: named.toReversed() },
      /Keep --param zones=us-east-1a,us-east-1c/,
    ],
    [OWN, { ...OWN, ...serverless, zones: named }, /first two zones/],
    [OWN, VPC, /in the network of the stack.* Leave out vpcId/],
    [VPC, OWN, /in vpc-0123456789abcdef0.* Keep --param vpcId=vpc-0123456789abcdef0/],
    [VPC, { ...VPC, vpcId: 'vpc-0fedcba9876543210' }, /Keep --param vpcId=vpc-0123456789abcdef0/],
    [{ ...OWN, ...serverless }, { ...VPC, ...serverless }, /Leave out vpcId/],
    [
      { ...VPC, ...serverless },
      { ...VPC, ...serverless, subnetIds: ['subnet-1', 'subnet-3'] },
      /in subnet-1 and subnet-2.* Keep --param subnetIds=subnet-1,subnet-2/,
    ],
  ] as const) {
    const deployed = outputs(queueName('serving_stream', 'dev'));
    const asked = { template: () => deployedIn(before) };
    await assert.rejects(assertDeployable(deployed, planned({ network: after }), asked), {
      code: 'bad_config',
      message: expected,
    });
    // A stack that stays as it is.
    await assertDeployable(deployed, planned({ network: before }), asked);
  }
});

test('changes of the network that CloudFormation can make are not refused', async () => {
  const zones = ['us-east-1a', 'us-east-1c'];
  for (const [before, after] of [
    // No Redis of the stack moves: one comes, goes or is replaced by one of another kind.
    [OWN, undefined],
    [OWN, { ...VPC, redis: 'serverless' }],
    [
      { ...OWN, zones },
      { ...VPC, redis: 'serverless' },
    ],
    [VPC, { ...VPC, subnetIds: ['subnet-1', 'subnet-2', 'subnet-3'] }],
  ] as const)
    await assertDeployable(outputs(queueName('serving_stream', 'dev')), planned({ network: after }), {
      template: () => deployedIn(before),
    });
  // The template has no network: the deployment of everything but the bucket failed.
  await assertDeployable(outputs(queueName('serving_stream', 'dev')), planned(), never);
});

test('a zone that AWS refuses is named, with what to set', () => {
  const zoneOf = (text: string, zones: readonly string[] = []) => adviceOn(text, { ...DEPLOYING, zones });
  assert.deepEqual(
    zoneOf(
      'CREATE_FAILED: SubnetB (AWS::EC2::Subnet)\nValue (us-east-1c) for parameter availabilityZone is invalid. Subnets can currently only be created in the following availability zones: us-east-1e, us-east-1a, us-east-1d.',
    ),
    ['AWS does not offer this in us-east-1c: --param zones=us-east-1e,us-east-1a'],
  );
  assert.deepEqual(
    zoneOf(
      'InsufficientCacheClusterCapacity: cache.t4g.small (VPC) is not currently supported in the availability zone us-east-1e. Retry the launch with no availability zone or target: us-east-1a, us-east-1f.',
    ),
    ['AWS does not offer this in us-east-1e: --param zones=us-east-1a,us-east-1f'],
  );
  const lambda =
    "The provided subnets contain availability zone Lambda doesn't support. Please use a different set of subnets.";
  assert.match(
    String(zoneOf(lambda)),
    /^AWS does not offer this in one of the first two zones of us-east-1: name two others, --param zones=<zone>,<zone>/,
  );
  assert.match(String(zoneOf(lambda, ['us-east-1b', 'us-east-1e'])), /in us-east-1b or us-east-1e: name two/);
});

test('other errors that stop a first deployment have an answer too, and an unknown one has none', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    [
      "'MemorySize' value failed to satisfy constraint: Member must have value less than or equal to 3008",
      /function\.memoryMB/,
    ],
    [
      "Specified ConcurrentExecutions for function decreases account's UnreservedConcurrentExecution below its minimum value of [10].",
      /--param provisioned/,
    ],
    [
      'The maximum number of VPCs has been reached. (Service: Ec2, Status Code: 400)',
      /"VPCs per Region".*--param vpcId/,
    ],
    [
      'Stack:arn:aws:cloudformation:… is in ROLLBACK_COMPLETE state and can not be updated.',
      /npx serverless remove --stage dev, then deploy again/,
    ],
    ['The bucket you tried to delete is not empty (Service: S3)', /empties it/],
    ['resource sg-1 has a dependent object (Service: Ec2)', /network interfaces/],
    ['cluster-serving-dev-queue already exists in stack arn:…', /something of that name is left/],
  ];
  for (const [text, says] of cases) assert.match(adviceOn(text, DEPLOYING).join('\n'), says, text);
  assert.deepEqual(adviceOn('User is not authorized to perform: iam:CreateRole', DEPLOYING), []);
});
