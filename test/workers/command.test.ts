/** The environment of a worker's process: that of the service, without what opens the account or the service's own data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placesText } from '../../cli/places.ts';
import { loopEnvironment } from '../../lib/workers/command.ts';
import type { StackRecord } from '../../local/data-folder.ts';

test('a worker does not get AWS credentials, and gets all else', () => {
  const secrets = {
    AWS_ACCESS_KEY_ID: 'AKIA',
    AWS_SECRET_ACCESS_KEY: 'secret',
    AWS_SESSION_TOKEN: 'token',
    AWS_SECURITY_TOKEN: 'token',
    AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://169.254.170.23/',
    AWS_CONTAINER_AUTHORIZATION_TOKEN: 'token',
    AWS_WEB_IDENTITY_TOKEN_FILE: '/token',
  };
  const { PYTHONPATH, ...environment } = loopEnvironment(
    { ...secrets, AWS_REGION: 'eu-west-1', HOME: '/home/me', PYTHONPATH: '/mine' },
    -1,
  );
  assert.deepEqual(environment, { AWS_REGION: 'eu-west-1', HOME: '/home/me', CUDA_VISIBLE_DEVICES: '-1' });
  assert.match(String(PYTHONPATH), /python:\/mine$/);
});

test('the addresses of a service of workers have no AWS keys, which its clients do not need', () => {
  const environment = { AWS_SECRET_ACCESS_KEY: 'secret' };
  const record = { pid: 1, jobs: [], redisUrl: 'redis://x', redis: 'embedded', bucket: 'b', environment };
  assert.match(placesText(record as unknown as StackRecord), /AWS_SECRET_ACCESS_KEY=secret/);
  const worker = { ...record, isWorker: true } as unknown as StackRecord;
  assert.doesNotMatch(placesText(worker), /AWS/);
});
