/** A service of workers prints addresses without the account's credentials. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placesText } from '../../cli/places.ts';
import type { StackRecord } from '../../local/service/data-folder.ts';

test('the addresses of a service of workers have no AWS keys, which its clients do not need', () => {
  const environment = { AWS_SECRET_ACCESS_KEY: 'secret' };
  const record = { pid: 1, jobs: [], redisUrl: 'redis://x', redis: 'embedded', bucket: 'b', environment };
  assert.match(placesText(record as unknown as StackRecord), /AWS_SECRET_ACCESS_KEY=secret/);
  const worker = { ...record, isWorker: true } as unknown as StackRecord;
  assert.doesNotMatch(placesText(worker), /AWS/);
});
