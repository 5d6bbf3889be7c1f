/**
 * Runs `serverless` commands against a mocked AWS account: S3, CloudFormation and STS in this process, osls in a copy
 * of the project. Credentials and endpoints come only from the environment, because the tests' user may have
 * real ones elsewhere.
 */
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { type LocalAws, startAws } from '../../local/aws/aws.ts';
import { copyProject, removeProject, runServerless } from '../support/packaging.ts';
import { type LocalCloudFormation, startCloudFormation } from './cloudformation.ts';
import type { StackEvent } from './stacks.ts';

export const ACCESS_KEY = 'AKIDMADEUP';
const SECRET_KEY = 'made-up';

/** A project, and a mocked AWS account for it. */
export interface Account {
  readonly folder: string;
  readonly aws: LocalAws;
  readonly cloudFormation: LocalCloudFormation;
  /** Keys and endpoints, for commands that run in a shell. */
  readonly environment: Readonly<Record<string, string>>;
  readonly serverless: (...parameters: readonly string[]) => Promise<Run>;
  close(): Promise<void>;
}

export interface Run {
  readonly exitCode: number;
  readonly output: string;
  /** Calls to AWS other than S3. */
  readonly calls: readonly string[];
}

/** The state after a command. */
export interface Seen extends Run {
  /** Undefined when there is no stack. */
  readonly status: string | undefined;
  readonly events: readonly StackEvent[];
  /** Physical id by logical id, of what is there. */
  readonly resources: Readonly<Record<string, string>>;
  /** ETag by key, of the deployment bucket and of the model bucket; undefined when there is no such bucket. */
  readonly deployment: Readonly<Record<string, string>> | undefined;
  readonly bucket: Readonly<Record<string, string>> | undefined;
}

/**
 * @param service a folder with serverless.yml, which stays. Default: a copy of the project, which does not
 * @param more variables of the commands
 */
export async function startAccount(
  service?: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Account> {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const credentials = { accessKeyId: ACCESS_KEY, secretAccessKey: SECRET_KEY };
  const [folder, aws] = await Promise.all([
    service ?? copyProject(),
    startAws({ port: 0, log: quiet, credentials }),
  ]);
  const { s3, region } = aws;
  const cloudFormation = await startCloudFormation({ s3, region, accessKeyId: ACCESS_KEY });
  const variables = {
    AWS_ACCESS_KEY_ID: ACCESS_KEY,
    AWS_SECRET_ACCESS_KEY: SECRET_KEY,
    AWS_REGION: region,
    AWS_EC2_METADATA_DISABLED: 'true',
    // Every service, so that an unexpected call ends here and not on the internet.
    AWS_ENDPOINT_URL: cloudFormation.url,
    AWS_ENDPOINT_URL_S3: aws.url,
    // Between two looks at the stack's events; osls's default is 5000.
    SLS_AWS_MONITORING_FREQUENCY: '50',
    ...more,
  };
  return {
    folder,
    aws,
    cloudFormation,
    environment: variables,
    serverless: async (...parameters) => {
      const first = cloudFormation.calls.length;
      const run = await runServerless(folder, parameters, variables);
      return { ...run, calls: cloudFormation.calls.slice(first) };
    },
    close: async () => {
      await cloudFormation.close();
      await aws.close();
      if (service === undefined) await removeProject(folder);
    },
  };
}

export async function look({ aws, cloudFormation }: Account, stackName: string, run: Run): Promise<Seen> {
  await cloudFormation.settle(stackName);
  const stack = cloudFormation.stack(stackName);
  const there = [...(stack?.resources ?? [])].filter(([, { status }]) => status !== 'DELETE_COMPLETE');
  const resources = Object.fromEntries(there.map(([name, { physicalId }]) => [name, physicalId]));
  const { ServerlessDeploymentBucket, Bucket } = resources;
  const [deployment, bucket] = await Promise.all([
    objectsOf(aws, ServerlessDeploymentBucket),
    objectsOf(aws, Bucket),
  ]);
  return { ...run, status: stack?.status, events: [...(stack?.events ?? [])], resources, deployment, bucket };
}

export async function objectsOf({ s3 }: LocalAws, Bucket: string | undefined) {
  if (Bucket === undefined) return undefined;
  try {
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }));
    return Object.fromEntries(Contents.map(({ Key = '', ETag = '' }) => [Key, ETag]));
  } catch (error) {
    if ((error as Error).name === 'NoSuchBucket') return undefined;
    throw error;
  }
}

export async function bodyOf({ s3 }: LocalAws, Bucket: string, Key: string): Promise<Uint8Array> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return (await Body?.transformToByteArray()) as Uint8Array;
}
