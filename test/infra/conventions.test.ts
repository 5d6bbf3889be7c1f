/** A company's rules for every resource; sample-stacks.ts has the values in a whole template. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deployerPolicies } from '../../infra/template/deployer-policy.ts';
import { resourcesOf } from '../support/template.ts';
import { stack } from './sample-stacks.ts';

const KEY = 'arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012';

const policyOf = (name: 'dev' | 'company') => {
  const policies = deployerPolicies({
    kind: 'deployer',
    template: stack(name),
    service: 'cluster-serving',
    stage: 'dev',
    queueName: 'cluster-serving-dev',
    redisStack: undefined,
    account: '123456789012',
    region: 'us-east-1',
    partition: 'aws',
    deploymentRole: null,
  });
  return policies.flatMap(({ Statement }) => Statement);
};

test('every role has the boundary, the path and the right to use the key', () => {
  const roles = resourcesOf(stack('company'), 'AWS::IAM::Role');
  assert.ok(roles.length >= 6);
  for (const [name, { PermissionsBoundary, Path, Policies }] of roles) {
    assert.deepEqual(
      [PermissionsBoundary, Path],
      ['arn:aws:iam::123456789012:policy/limits', '/team/'],
      name,
    );
    const last = (Policies as readonly { readonly PolicyDocument: { readonly Statement: unknown } }[]).at(-1);
    assert.deepEqual(
      last?.PolicyDocument.Statement,
      [{ Sid: 'UseKey', Effect: 'Allow', Action: ['kms:Decrypt', 'kms:GenerateDataKey'], Resource: KEY }],
      name,
    );
  }
});

test('every log group and every function that writes to it has the same name', () => {
  const groups = resourcesOf(stack('company'), 'AWS::Logs::LogGroup').map(
    ([, group]) => group['LogGroupName'],
  );
  assert.ok(groups.every((name) => String(name).startsWith('/company/')));
  for (const [name, { LoggingConfig }] of resourcesOf(stack('company'), 'AWS::Lambda::Function'))
    assert.ok(groups.includes((LoggingConfig as { readonly LogGroup: string }).LogGroup), name);
});

test('only the queue of records has pollers of its own', () => {
  const mappings = resourcesOf(stack('company'), 'AWS::Lambda::EventSourceMapping').map(
    ([, mapping]) => mapping,
  );
  assert.deepEqual(
    mappings.map(({ ScalingConfig, ProvisionedPollerConfig }) => [ScalingConfig, ProvisionedPollerConfig]),
    [
      [undefined, { MinimumPollers: 2, MaximumPollers: 20 }],
      [{ MaximumConcurrency: 2 }, undefined],
    ],
  );
});

test('the deployer policy gains the rights for them only where they are used', () => {
  const [usual, company] = [policyOf('dev'), policyOf('company')].map((statements) => ({
    actions: new Set(statements.flatMap(({ Action }) => Action)),
    resources: new Set(statements.flatMap(({ Resource }) => Resource)),
  }));
  assert.ok(usual && company);
  assert.deepEqual([...company.actions].filter((action) => !usual.actions.has(action)).sort(), [
    'iam:DeleteRolePermissionsBoundary',
    'iam:PutRolePermissionsBoundary',
    'kms:CreateGrant',
    'kms:Decrypt',
    'kms:DescribeKey',
    'kms:GenerateDataKey',
    'logs:AssociateKmsKey',
    'logs:DisassociateKmsKey',
  ]);
  assert.deepEqual([...company.resources].filter((resource) => !usual.resources.has(resource)).sort(), [
    'arn:aws:iam::123456789012:role/team/cluster-serving-dev*',
    KEY,
    'arn:aws:logs:us-east-1:123456789012:log-group:/company/http-api/cluster-serving-dev*',
    'arn:aws:logs:us-east-1:123456789012:log-group:/company/lambda/cluster-serving-dev-*',
  ]);
});
