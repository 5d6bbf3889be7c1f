/**
 * Finds a deployment by the name of its CloudFormation stack. Nothing is kept: a stack that was deployed again, with other
 * parameters, is another answer.
 */
import type { CloudFormationClient, Output, Stack } from '@aws-sdk/client-cloudformation';
import { badConfig, ServingError } from '../lib/contract/errors.ts';
import { type AccessOptions, type AuthKind, isAuthKind } from './access.ts';
import { limited } from './limit.ts';
import { awsAgent } from './proxy.ts';

export interface StackOptions {
  /** Of the stack. Default: that of the environment or the profile. */
  readonly region?: string | undefined;
  /** The AWS endpoint. Default: the AWS SDK's own (AWS_ENDPOINT_URL). */
  readonly endpoint?: string | undefined;
  /** Default 15,000. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Where a deployment is, and how it asks who calls. */
export interface StackPlaces {
  readonly stack: string;
  readonly region: string;
  /** The HTTPS API. */
  readonly url: string;
  readonly auth: AuthKind;
  readonly job: string;
  readonly queueUrl: string;
  readonly bucket: string;
  /** Of a deployment with redis=public; another Redis is reached by its functions alone. */
  readonly redisUrl: string | undefined;
}

const WHY: readonly (readonly [name: RegExp, why: string])[] = [
  [/^AccessDenied/, 'the credentials need cloudformation:DescribeStacks on it'],
  [/^CredentialsProvider/, 'no AWS credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)'],
  [/^ExpiredToken/, 'the AWS credentials have expired'],
  [/^(InvalidClient|SignatureDoes|UnrecognizedClient)/, 'AWS does not know these credentials'],
];

/**
 * @param stack its name or ARN
 * @throws not_found, unauthorized, bad_config (no region, or no stack of this service), queue_unavailable (still being
 * created, or CloudFormation cannot be reached), timeout; the signal's reason
 */
export async function findStack(stack: string, options: StackOptions = {}): Promise<StackPlaces> {
  const arn = /^arn:[\w-]+:cloudformation:([a-z0-9-]+):\d{12}:stack\/[\w-]+\/[\w-]+$/.exec(stack);
  if (!arn && !/^[A-Za-z][A-Za-z0-9-]{0,127}$/.test(stack)) {
    throw badConfig(
      `stack: expected 1 to 128 letters, digits and "-", or an ARN, got ${JSON.stringify(stack)}`,
    );
  }
  const { CloudFormationClient, DescribeStacksCommand } = await import('@aws-sdk/client-cloudformation');
  const { endpoint, timeoutMs = 15_000, signal } = options;
  const region = arn?.[1] ?? options.region;
  const client = new CloudFormationClient({
    ...(region ? { region } : {}),
    ...(endpoint ? { endpoint } : {}),
    requestHandler: awsAgent(),
  });
  const command = new DescribeStacksCommand({ StackName: stack });
  try {
    const limit = { timeoutMs, signal, what: 'CloudFormation did not answer in' };
    const { Stacks: [found] = [] } = await limited(limit, (abortSignal) =>
      client.send(command, { abortSignal }),
    );
    if (!found) throw new ServingError('not_found', `there is no stack ${stack}`);
    return placesOf(stack, found, await client.config.region());
  } catch (error) {
    if (error instanceof ServingError) throw error;
    signal?.throwIfAborted();
    throw await explained(stack, error as Error, client);
  } finally {
    client.destroy();
  }
}

/** How the stack asks who calls, unless the options say otherwise. */
export function accessOfStack(
  { auth, region }: StackPlaces,
  options: Omit<AccessOptions, 'region'>,
): AccessOptions {
  const { fetch, token, apiKey } = options;
  const said = options.auth ?? (token === undefined && apiKey === undefined ? auth : undefined);
  return {
    region,
    ...(fetch && { fetch }),
    ...(said && { auth: said }),
    ...(token !== undefined && { token }),
    ...(apiKey !== undefined && { apiKey }),
  };
}

async function explained(stack: string, error: Error, client: CloudFormationClient): Promise<ServingError> {
  const { name, message } = error;
  if (/region is missing/i.test(message))
    return badConfig(`stack ${stack}: which region? Say it with region (--region) or AWS_REGION`);
  const region = await client.config.region().catch(() => 'this region');
  if (/does not exist/.test(message)) {
    const text = `there is no stack ${stack} in ${region} for these credentials; \`serverless deploy\` prints its name`;
    return new ServingError('not_found', text, { cause: error });
  }
  const [, why] = WHY.find(([pattern]) => pattern.test(name)) ?? [];
  const text = `stack ${stack} in ${region} cannot be looked up: ${why === undefined ? '' : `${why}: `}${message}`;
  return new ServingError(why === undefined ? 'queue_unavailable' : 'unauthorized', text, { cause: error });
}

function placesOf(stack: string, found: Stack, region: string): StackPlaces {
  const { StackStatus: status = '', Outputs = [] } = found;
  const outputs = new Map(Outputs.map(({ OutputKey, OutputValue }: Output) => [OutputKey, OutputValue]));
  const missing = ['HttpApiUrl', 'QueueUrl', 'BucketName', 'JobName', 'Auth'].filter(
    (key) => !outputs.get(key),
  );
  if (status.startsWith('DELETE_'))
    throw new ServingError('not_found', `stack ${stack} is being removed (${status})`);
  // osls makes the stack with its bucket alone, and everything else in an update.
  if (missing.includes('QueueUrl') && status.endsWith('_IN_PROGRESS')) {
    const text = `stack ${stack} is still being created (${status}); try again when deploy has ended`;
    throw new ServingError('queue_unavailable', text);
  }
  if (missing.length > 0) {
    throw badConfig(
      `stack ${stack} (${status}) has no output ${missing.join(', ')}: its deployment failed, or it is no stack of Cluster Serving`,
    );
  }
  const of = (key: string) => outputs.get(key) as string;
  const auth = of('Auth');
  if (!isAuthKind(auth))
    throw badConfig(`stack ${stack} has auth ${auth}, which this version does not know: update the client`);
  const [url, job, queueUrl, bucket] = [of('HttpApiUrl'), of('JobName'), of('QueueUrl'), of('BucketName')];
  const redis = outputs.get('RedisUrl');
  const redisUrl = redis?.includes('&iam=') ? redis : undefined;
  return { stack, region, url: url.replace(/\/+$/, ''), auth, job, queueUrl, bucket, redisUrl };
}
