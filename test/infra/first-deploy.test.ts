/** What stops a deployment before it creates anything, and what is said about an error of AWS. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adviceOn } from '../../infra/advice.ts';
import { assertDeployable, type Planned } from '../../infra/deployed-stack.ts';
import { deadLetterQueueName, queueName } from '../../lib/queue/names.ts';

const URL = 'https://sqs.us-east-1.amazonaws.com/123456789012/';
const DEPLOYING = { zones: [], region: 'us-east-1', stage: 'dev' };

function outputs(queue: string, job = 'serving_stream') {
  return {
    QueueUrl: `${URL}${queue}`,
    DeadLetterQueueUrl: `${URL}${deadLetterQueueName(queue)}`,
    ModelLocation: `s3://bucket/models/${job}/`,
  };
}

function planned(change: Partial<Planned> = {}): Planned {
  const queue = queueName('serving_stream', 'dev');
  return {
    stackName: 'cluster-serving-dev',
    jobName: 'serving_stream',
    queueName: queue,
    deadLetterQueueName: deadLetterQueueName(queue),
    isQueueNamed: false,
    missingModel: undefined,
    ...change,
  };
}

const never = () => Promise.reject(new Error('no queue is asked'));

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

test('a deployment that would replace a queue of an earlier version says what to do', async () => {
  const old = outputs(queueName('serving_stream'));
  await assert.rejects(assertDeployable(old, planned(), never), {
    code: 'bad_config',
    message:
      /is cluster-serving-serving_stream, and .* replace it by cluster-serving-dev-queue and delete it, with the records in it\. .*--param queueName=job.*docs\/how-to\/deploy\.md#queues-of-earlier-versions$/,
  });
  const kept = queueName('serving_stream');
  await assertDeployable(
    old,
    planned({ queueName: kept, deadLetterQueueName: deadLetterQueueName(kept) }),
    never,
  );
});

test('a switch that was asked for waits until both queues are empty', async () => {
  const old = outputs(queueName('serving_stream'));
  const named = planned({ isQueueNamed: true });
  const counts = new Map([
    [old.QueueUrl, 0],
    [old.DeadLetterQueueUrl, 3],
  ]);
  const count = (url: string) => Promise.resolve(counts.get(url) ?? Number.NaN);
  await assert.rejects(assertDeployable(old, named, count), {
    message: /Messages in it: cluster-serving-serving_stream 0, cluster-serving-serving_stream-dlq 3\./,
  });
  counts.set(old.DeadLetterQueueUrl, 0);
  await assertDeployable(old, named, count);
});

test('the stack of another job is not overwritten', async () => {
  const deployed = outputs('cluster-serving-a-b-c-queue', 'a');
  const change = {
    stackName: 'cluster-serving-a-b-c',
    jobName: 'a-b',
    queueName: 'cluster-serving-a-b-c-queue',
  };
  await assert.rejects(assertDeployable(deployed, planned(change), never), {
    message: /cluster-serving-a-b-c is the stack of the job a, and this deployment is of the job a-b/,
  });
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
