/** The queue of a service, for the commands that enqueue. Apart from service.ts, because the others need no client of SQS. */
import { InputQueue } from '../sdk/index.ts';
import { grouped } from './command.ts';
import type { Service } from './service.ts';

/** Options beside SERVICE_OPTIONS. */
export const QUEUE_OPTIONS = grouped('Connection', {
  'queue-url': { value: 'url', about: "SQS queue of another service (default: found by the job's name)" },
  bucket: { value: 'name', about: 'its bucket, for records over 1 MiB' },
  'redis-url': { value: 'url', about: 'its Redis, so that `status` knows what is queued' },
});

export function openQueue({ job, http, access, ...rest }: Service): InputQueue {
  const { queueUrl, endpoint, region, bucket, redisUrl } = rest;
  const places = { queueUrl, endpoint, region, bucket, frontendUrl: http, redisUrl };
  const known = Object.entries(places).filter((place): place is [string, string] => place[1] !== undefined);
  return new InputQueue({ ...access, ...Object.fromEntries(known), name: job });
}
