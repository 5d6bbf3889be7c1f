/** Both queues of a deployment, by the name of its stack. */
import { badConfig } from '../lib/contract/errors.ts';
import { variables } from '../lib/contract/variables.ts';
import type { AccessOptions } from './access.ts';
import { InputQueue } from './input-queue.ts';
import { OutputQueue } from './output-queue.ts';
import { accessOfStack, findStack, type StackOptions, type StackPlaces } from './stack.ts';

export interface ConnectOptions extends Omit<AccessOptions, 'region'>, StackOptions {
  /** The name or ARN of the stack. Default: CLUSTER_SERVING_STACK. */
  readonly stack?: string;
}

export interface Connection {
  /** Sends records to SQS, and predictions over HTTPS. */
  readonly input: InputQueue;
  /** Reads results over HTTPS, because most deployments have their Redis inside a VPC. */
  readonly output: OutputQueue;
  readonly places: StackPlaces;
  /** Closes both. */
  readonly close: () => Promise<void>;
}

/** @throws as findStack; bad_config for access that contradicts itself */
export async function connect(options: ConnectOptions = {}): Promise<Connection> {
  const { stack = variables['CLUSTER_SERVING_STACK'] || undefined, endpoint } = options;
  if (stack === undefined)
    throw badConfig('connect needs a stack: the option stack or CLUSTER_SERVING_STACK');
  const places = await findStack(stack, options);
  const { url, queueUrl, bucket, job: name, region, redisUrl } = places;
  const access = accessOfStack(places, options);
  const input = new InputQueue({
    ...access,
    name,
    region,
    queueUrl,
    bucket,
    frontendUrl: url,
    ...(redisUrl ? { redisUrl } : {}),
    ...(endpoint ? { endpoint } : {}),
  });
  const output = new OutputQueue({ ...access, name, url });
  const close = async () => void (await Promise.all([input.close(), output.close()]));
  return { input, output, places, close };
}
