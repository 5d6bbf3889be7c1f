/** The stack of a job whose records may have a priority, and that of one whose may not. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryFolder } from '../support/runner.ts';
import { propertiesOf, roleStatements } from '../support/template.ts';
import { composeJob } from './compose.ts';

async function stackOf(t: TestContext, text: string) {
  const config = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(config, text);
  return composeJob({ config });
}

const BOTH = ['Queue', 'HighQueue'].map((name) => ({ 'Fn::GetAtt': [name, 'Arn'] }));
const arn = (name: string) => ({
  'Fn::Sub': `arn:\${AWS::Partition}:sqs:\${AWS::Region}:\${AWS::AccountId}:${name}`,
});

test('a deployment without priorities has one queue and one event source of records', async (t) => {
  const without = JSON.stringify(composeJob());
  assert.doesNotMatch(without, /HighQueue|-high"/);
  assert.equal(JSON.stringify(await stackOf(t, 'queue: {highShare: 0}')), without);
});

test('queue.highShare adds a queue, its event source and an alarm, and splits the concurrency of batch', async (t) => {
  const [without, template] = [
    composeJob(),
    await stackOf(t, 'queue: {highShare: 0.7, retentionSeconds: 7200}'),
  ];
  const added = Object.keys(template.Resources).filter((name) => !Object.hasOwn(without.Resources, name));
  assert.deepEqual(added.toSorted(), [
    'BatchEventSourceMappingSQSHighQueue',
    'HighQueue',
    'HighQueueAgeAlarm',
    'HighQueuePolicy',
  ]);
  const normal = propertiesOf(template, 'BatchEventSourceMappingSQSQueue');
  const high = propertiesOf(template, 'BatchEventSourceMappingSQSHighQueue');
  assert.deepEqual(normal['ScalingConfig'], { MaximumConcurrency: 3 });
  assert.deepEqual(high['ScalingConfig'], { MaximumConcurrency: 7 });
  // All else is that of the other records.
  const { EventSourceArn: _one, ScalingConfig: _two, ...rest } = normal;
  const { EventSourceArn: source, ScalingConfig: _three, ...same } = high;
  assert.deepEqual(same, rest);
  assert.deepEqual(source, BOTH[1]);
  const { QueueName: name, ...queue } = propertiesOf(template, 'HighQueue');
  const { QueueName: other, ...records } = propertiesOf(template, 'Queue');
  assert.deepEqual(queue, records);
  assert.equal(name, `${String(other)}-high`);
  const { RedriveAllowPolicy } = propertiesOf(template, 'DeadLetterQueue') as {
    RedriveAllowPolicy: { sourceQueueArns: unknown };
  };
  assert.deepEqual(RedriveAllowPolicy.sourceQueueArns, [arn(String(other)), arn(`${String(other)}-high`)]);
});

test('who may send and take records may do so in both queues', async (t) => {
  const template = await stackOf(t, 'queue: {highShare: 0.5}');
  const rights = roleStatements(template).filter(({ statement }) =>
    /^(SendMessages|TakeMessages)$/.test(statement.Sid ?? ''),
  );
  const found = rights.map(({ role, statement }) => [role, statement.Resource] as const);
  assert.deepEqual(Object.fromEntries(found), {
    BatchRole: BOTH,
    SubmitRole: BOTH,
    DeadLetterRole: { 'Fn::GetAtt': ['DeadLetterQueue', 'Arn'] },
  });
});

for (const [total, highShare, normal, high] of [
  [10, 0.7, 3, 7],
  [4, 0.7, 2, 2],
  [5, 0.9, 2, 3],
  [1_000, 0.001, 998, 2],
  [10, 0.5, 5, 5],
] as const)
  test(`${total} functions are shared by ${highShare} as ${high} and ${normal}, neither below Lambda's 2`, async (t) => {
    const template = await stackOf(t, `queue: {highShare: ${highShare}, maximumConcurrency: ${total}}`);
    const sharesOf = ['SQSHighQueue', 'SQSQueue'].map(
      (name) => propertiesOf(template, `BatchEventSourceMapping${name}`)['ScalingConfig'],
    );
    assert.deepEqual(sharesOf, [{ MaximumConcurrency: high }, { MaximumConcurrency: normal }]);
  });

test('fewer functions than two queues need are refused', async (t) => {
  await assert.rejects(
    stackOf(t, 'queue: {highShare: 0.7, maximumConcurrency: 3}'),
    /queue\.maximumConcurrency: 3 cannot be shared by queue\.highShare 0\.7: two queues need 4/,
  );
  await assert.rejects(stackOf(t, 'queue: {highShare: 1}'), /0, or a number between 0 and 1/);
});
