import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readAddress } from '../../../lib/redis/address.ts';

test('an address says where Redis is, whether in cluster mode, who signs in and how much it stores', () => {
  const plain = { isCluster: false, cacheUser: undefined, maxBytes: undefined };
  assert.deepEqual(readAddress('redis://h:1'), { ...plain, url: 'redis://h:1' });
  // What else ioredis takes is left to it.
  assert.deepEqual(readAddress('redis://h:1?family=6'), { ...plain, url: 'redis://h:1?family=6' });
  assert.deepEqual(readAddress('rediss://h:1?cluster=on'), {
    ...plain,
    url: 'rediss://h:1',
    isCluster: true,
  });
  assert.deepEqual(
    readAddress(
      'rediss://u-1@h.example.com:6379?cluster=on&iam=cache-public&region=us-gov-east-1&maxGB=5000',
    ),
    {
      url: 'rediss://u-1@h.example.com:6379',
      isCluster: true,
      cacheUser: { cache: 'cache-public', region: 'us-gov-east-1', user: 'u-1' },
      maxBytes: 5000 * 2 ** 30,
    },
  );
});

test('an address that says half of it is refused', () => {
  for (const wrong of [
    'redis://h:1?cluster=yes',
    'redis://h:1?cluster=on&x',
    'rediss://u@h:1?cluster=on&iam=c',
    'rediss://u@h:1?cluster=on&iam=c&region=eu&maxGB=1',
    'rediss://u@h:1?cluster=on&iam=c&region=eu-west-1&maxGB=x',
    'rediss://u@h:1?iam=c&region=eu-west-1&maxGB=1',
    // Without TLS or a user nobody could sign in.
    'redis://u@h:1?cluster=on&iam=c&region=eu-west-1&maxGB=1',
    'rediss://h:1?cluster=on&iam=c&region=eu-west-1&maxGB=1',
  ])
    assert.throws(
      () => readAddress(wrong),
      { code: 'bad_config', message: /^the Redis url: expected / },
      wrong,
    );
});
