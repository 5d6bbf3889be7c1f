/**
 * Validates a poller's options by Lambda's rules. Lambda refuses an event source mapping whose queue makes messages
 * visible again before the function's timeout.
 */
import { GetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { badConfig, ServingError } from '../../lib/contract/errors.ts';
import type { SqsCalls } from '../aws/direct.ts';
import { type LocalLog, MAX_FUNCTION_TIMEOUT_MS } from '../aws/lambda.ts';
import type { QueueFacts } from './event.ts';

export interface PollerOptions {
  readonly sqs: SqsCalls;
  /** The URL of a standard queue. */
  readonly queueUrl: string;
  readonly handler: (event: SQSEvent, context: Context) => Promise<SQSBatchResponse | void>;
  readonly functionName: string;
  /** Messages per invocation, 1 to 10,000; above 10 needs a window. */
  readonly batchSize: number;
  /** How long a batch may grow, in whole seconds from 0 (invoke as soon as a message arrives) to 300. */
  readonly windowSeconds: number;
  /** Concurrent invocations, 1 to 1000. (AWS requires at least 2.) */
  readonly maximumConcurrency: number;
  /** 1 to 900,000; the queue's visibility timeout must be at least as long. */
  readonly functionTimeoutMs: number;
  readonly log: LocalLog;
  /** The duration of one long poll, default 20. */
  readonly waitSeconds?: number;
  /** How long close() waits for running invocations. Default: the function's timeout, at most 10,000. */
  readonly closeTimeoutMs?: number;
  /** A clock in ms. Default: one that no one sets. */
  readonly clock?: () => number;
  /** The clock of an invocation's time limit, in ms. Default: `clock`. */
  readonly functionClock?: () => number;
  /** Wraps each invocation, including its clock. */
  readonly invoke?: <T>(work: () => Promise<T>) => Promise<T>;
  /** Returns 0 to 1, for the jitter of waits after an error. Default Math.random. */
  readonly random?: () => number;
}

export async function describeQueue(options: PollerOptions): Promise<QueueFacts> {
  const { sqs, queueUrl, functionTimeoutMs, windowSeconds, log } = options;
  let attributes: Record<string, string>;
  try {
    const command = new GetQueueAttributesCommand({
      QueueUrl: queueUrl,
      AttributeNames: ['QueueArn', 'VisibilityTimeout'],
    });
    attributes = (await sqs.send(command)).Attributes ?? {};
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServingError('queue_unavailable', `queue ${queueUrl} cannot be read: ${reason}`, {
      cause: error,
    });
  }
  const arn = attributes.QueueArn ?? '';
  const visibilitySeconds = Number(attributes.VisibilityTimeout);
  if (visibilitySeconds * 1000 < functionTimeoutMs) {
    throw badConfig(
      `the queue's visibility timeout (${visibilitySeconds} s) is less than the function's timeout ` +
        `(${functionTimeoutMs / 1000} s); Lambda refuses that, and advises 6 times the function's timeout`,
    );
  }
  if (visibilitySeconds < functionTimeoutMs / 1000 + windowSeconds) {
    log.warn("the queue's visibility timeout is less than window and function timeout together: duplicates", {
      visibilitySeconds,
      windowSeconds,
      functionTimeoutMs,
    });
  }
  return { arn, region: arn.split(':')[3] ?? '' };
}

export function checkOptions(options: PollerOptions): void {
  const problems: string[] = [];
  const check = (field: keyof PollerOptions, least: number, most: number) => {
    const value = options[field];
    if (value === undefined) return;
    const isWithin = Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
    if (!isWithin)
      problems.push(`${field} must be a whole number from ${least} to ${most}, got ${JSON.stringify(value)}`);
  };
  check('batchSize', 1, 10_000);
  check('windowSeconds', 0, 300);
  check('maximumConcurrency', 1, 1000);
  check('functionTimeoutMs', 1, MAX_FUNCTION_TIMEOUT_MS);
  check('waitSeconds', 0, 20);
  check('closeTimeoutMs', 0, MAX_FUNCTION_TIMEOUT_MS);
  if (options.batchSize > 10 && options.windowSeconds < 1) {
    problems.push(`batchSize ${options.batchSize} is above 10 and needs windowSeconds of at least 1, got 0`);
  }
  if (options.queueUrl.endsWith('.fifo')) problems.push('FIFO queues are not supported by the local poller');
  if (problems.length > 0) throw badConfig(`poller: ${problems.join('; ')}`);
}
