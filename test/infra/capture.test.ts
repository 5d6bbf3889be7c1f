/** The stack of a job that captures requests and records, and that of one that does not. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { idlePrice } from '../../infra/doctor/idle-price.ts';
import { temporaryFolder } from '../support/runner.ts';
import { propertiesOf, roleStatements } from '../support/template.ts';
import { composeJob } from './compose.ts';

test('a job that captures nothing has nothing of it in its stack', () => {
  assert.doesNotMatch(JSON.stringify(composeJob()), /captur/i);
});

test('a job that captures may write captures and read none, S3 deletes them in time, and nothing that waits costs anything', async (t) => {
  const config = join(await temporaryFolder(t), 'config.yaml');
  await writeFile(
    config,
    'jobName: day\ncapture: {share: 5%, days: 7, leaveOut: [name]}\nrelease: {maxFlips: 1%}\n',
  );
  const [without, template] = [composeJob(), composeJob({ config })];
  const added = Object.keys(template.Resources).filter((name) => !Object.hasOwn(without.Resources, name));
  assert.deepEqual(added.sort(), ['CapturePolicy', 'CaptureReaderRole']);
  const policy = propertiesOf(template, 'CapturePolicy');
  assert.deepEqual(policy['Roles'], [{ Ref: 'PredictRole' }, { Ref: 'BatchRole' }]);
  assert.match(
    JSON.stringify(policy['PolicyDocument']),
    /"Action":"s3:PutObject","Resource":\{"Fn::Sub":"\$\{Bucket\.Arn\}\/captures\/day\/\*"\}/,
  );
  const reads = roleStatements(template).flatMap(({ role, statement: { Action, Resource, Condition } }) =>
    role === 'CaptureReaderRole' ? [[Action, Resource, Condition]] : [],
  );
  assert.deepEqual(reads, [
    ['s3:ListBucket', { 'Fn::GetAtt': ['Bucket', 'Arn'] }, { StringLike: { 's3:prefix': 'captures/day/*' } }],
    [
      ['s3:GetObject', 's3:DeleteObject', 's3:PutObject'],
      { 'Fn::Sub': '${Bucket.Arn}/captures/day/*' },
      undefined,
    ],
  ]);
  const trust = JSON.stringify(propertiesOf(template, 'CaptureReaderRole')['AssumeRolePolicyDocument']);
  assert.match(trust, /iam::\$\{AWS::AccountId\}:root/);
  const bucket = JSON.stringify(propertiesOf(template, 'Bucket'));
  assert.match(bucket, /"Id":"captures","Status":"Enabled","Prefix":"captures\/","ExpirationInDays":7/);
  assert.equal(idlePrice(template).dollars, idlePrice(without).dollars);
  const given = JSON.stringify(propertiesOf(template, 'PredictLambdaFunction'));
  assert.match(given, /\\"capture\\":\{\\"share\\":0\.05/);
  assert.doesNotMatch(given, /maxFlips/);
});
