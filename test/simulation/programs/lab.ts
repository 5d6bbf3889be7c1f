/** Parts of the product that the comparisons with real sockets, processes and services call directly. */

export { Redis } from 'ioredis';
export { startEmbedded } from '../../../embedded-redis/server.ts';
export { IsolatedRunner } from '../../../lib/inference/isolated-runner.ts';
export { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
export { RedisConnection } from '../../../lib/redis/connection.ts';
export { openS3 } from '../../../lib/s3/client.ts';
export { getText, putText } from '../../../lib/s3/objects.ts';
