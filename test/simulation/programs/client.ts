/** A client: the queues of the SDK, over SQS and Redis, or over HTTPS. */

export { Redis } from 'ioredis';
export { InputQueue } from '../../../sdk/input-queue.ts';
export { OutputQueue } from '../../../sdk/output-queue.ts';
