/** Doctor says which resources an update of a stack changes in place, replaces and refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { updateAnswer, updateOf } from '../../infra/account/update.ts';
import type { Template } from '../../infra/doctor/template.ts';

const cache = (own: object = {}) => ({
  Type: 'AWS::ElastiCache::ServerlessCache',
  Properties: { ServerlessCacheName: 'a', SubnetIds: ['s'], CacheUsageLimits: 1, ...own },
});
const queue = (QueueName: string) => ({ Type: 'AWS::SQS::Queue', Properties: { QueueName } });
const of = (Resources: Template['Resources']): Template => ({ Resources });
const DEPLOYED = of({ RedisServerless: cache(), Queue: queue('q'), Role: { Type: 'AWS::IAM::Role' } });

test('a limit of a cache changes in place', () => {
  const update = updateOf(
    DEPLOYED,
    of({ ...DEPLOYED.Resources, RedisServerless: cache({ CacheUsageLimits: 2 }) }),
  );
  assert.deepEqual(update.inPlace, ['RedisServerless']);
  assert.deepEqual(updateAnswer(DEPLOYED, DEPLOYED), { kind: 'ok', found: 'in place 0' });
});

test('a fixed property of a resource with a name of its own is refused, and names the property', () => {
  const after = of({ ...DEPLOYED.Resources, RedisServerless: cache({ SubnetIds: ['t'] }) });
  const { kind, found } = updateAnswer(DEPLOYED, after);
  assert.deepEqual(
    [kind, found],
    ['error', 'CloudFormation refuses to change RedisServerless (SubnetIds); in place 0'],
  );
});

test('a changed name, and a fixed property without a name, replace, and what is lost is said', () => {
  const renamed = updateAnswer(DEPLOYED, of({ ...DEPLOYED.Resources, Queue: queue('r') }));
  assert.deepEqual(
    [renamed.kind, renamed.found],
    ['warning', 'lost: Queue (queued records); in place 0; replaced 1 (Queue)'],
  );
  const moved = { Type: 'AWS::IAM::Role', Properties: { Path: '/team/' } };
  const { replaced, lost } = updateOf(DEPLOYED, of({ ...DEPLOYED.Resources, Role: moved }));
  assert.deepEqual([replaced, lost], [['Role'], []]);
});

test('another kind of Redis is a new resource and loses the results of the old one', () => {
  const { RedisServerless: _gone, ...rest } = DEPLOYED.Resources;
  const { kind, found } = updateAnswer(
    DEPLOYED,
    of({ ...rest, RedisPublic: cache({ ServerlessCacheName: 'b' }) }),
  );
  assert.deepEqual(
    [kind, found],
    [
      'warning',
      'lost: RedisServerless (results); in place 0; new 1 (RedisPublic); removed 1 (RedisServerless)',
    ],
  );
});

test('what a policy keeps is said to be kept', () => {
  const before = of({ Bucket: { Type: 'AWS::S3::Bucket', DeletionPolicy: 'Retain' } });
  assert.deepEqual(updateOf(before, of({})).lost, [
    'Bucket (models and dead letters, of which a copy is kept)',
  ]);
});

test('another type under the same name is refused', () => {
  const after = of({ ...DEPLOYED.Resources, Role: { Type: 'AWS::IAM::Policy' } });
  assert.deepEqual(updateOf(DEPLOYED, after).refused, ['Role (its type)']);
});

test('without a packaged template there is nothing to compare', () => {
  assert.equal(updateAnswer(DEPLOYED, undefined).kind, 'note');
});
