/** The names of a job's stack and of its queues, by which clients find them. */
import { createHash } from 'node:crypto';
import { badConfig } from '../contract/errors.ts';
import { assertJobName, DEFAULT_JOB_NAME } from '../contract/names.ts';

// With the stage and "-dead-letter", a service of 36 characters keeps a function's name within 64 and a queue's within 80.
const MAX_SERVICE_LENGTH = 36;
/** Characters of a stage's name. The deployment is refused with `bad_config`. */
const MAX_STAGE_LENGTH = 15;
const SERVICE = 'cluster-serving';

/** @throws bad_config when `stage` cannot name a stage */
export function assertStage(stage: string): string {
  if (new RegExp(`^[A-Za-z0-9-]{1,${MAX_STAGE_LENGTH}}$`).test(stage)) return stage;
  throw badConfig(`stage ${JSON.stringify(stage)}: expected 1 to ${MAX_STAGE_LENGTH} letters, digits or "-"`);
}

/**
 * The job's name in the keys of Redis: its name, or `job@stage` if several stages share one.
 * @throws bad_config for any other
 */
export function assertKeyspace(name: string): string {
  const [job, stage] = name.split(/@(.*)/s);
  assertJobName(job as string);
  if (stage !== undefined) assertStage(stage);
  return name;
}

/**
 * The name of the job's stack, without the stage: the job's name if it is a valid one; else its start and a digest, so
 * that a_b and a-b differ.
 */
export function serviceName(job: string): string {
  if (job === DEFAULT_JOB_NAME) return SERVICE;
  const plain = `${SERVICE}-${job}`;
  if (!job.includes('_') && plain.length <= MAX_SERVICE_LENGTH) return plain;
  const digest = createHash('sha256').update(job).digest('hex').slice(0, 6);
  const start = plain.replaceAll('_', '-').slice(0, MAX_SERVICE_LENGTH - digest.length - 1);
  return `${start}-${digest}`;
}

/**
 * The name of a job's queue, by which a client finds it. That of a deployment begins with the name of its stack, so that
 * two stages of a job have a queue each. A local service has no stage.
 */
export function queueName(job: string, stage?: string): string {
  return stage === undefined ? `${SERVICE}-${job}` : `${serviceName(job)}-${assertStage(stage)}-queue`;
}

/** The name of the queue that gets what is delivered too often from the queue of this name. */
export function deadLetterQueueName(queue: string): string {
  return `${queue}-dlq`;
}

/** The name of the queue of the notifier, beside the queue of this name. */
export function notifyQueueName(queue: string): string {
  return `${queue}-notify`;
}

/** The name of the queue of records with `priority: high`, beside the queue of this name; also of its URL. */
export function highQueueName(queue: string): string {
  return `${queue}-high`;
}

/** The name of the queue of jobs over files, beside the queue of this name. */
export function fileJobQueueName(queue: string): string {
  return `${queue}-jobs`;
}

/** True for the names of the queues that a job has beside each other. @param queue the name of the queue of records */
export function isQueueOfJob(name: string, queue: string): boolean {
  const queues = [queue, notifyQueueName(queue), fileJobQueueName(queue)];
  return [highQueueName(queue), ...queues, ...queues.map(deadLetterQueueName)].includes(name);
}
