/**
 * Lambda, its pollers and API Gateway for what was deployed into an emulated account. It takes everything from the account:
 * archives, variables, routes, event sources and the roles whose credentials functions and pollers use.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { APIGatewayProxyEventV2, APIGatewayProxyResultV2, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { startPoller } from '../../../local/event-source/poller.ts';
import { startGateway } from '../../../local/gateway/gateway.ts';
import type { GatewayRoute } from '../../../local/gateway/routes.ts';
import type { Hooks } from '../../support/runner.ts';
import { KEYS, type SignedApi, startSignedApi } from '../../support/signed-api.ts';
import { type RunningFunction, startFunction } from './functions.ts';
import { type AccountState, type Api, type DeployedFunction, type Moto, REGION, type Role } from './moto.ts';
import type { Tool } from './tools.ts';
import { STACK } from './variants.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };
/** Of a long poll. moto holds a thread for it. */
const WAIT_SECONDS = 1;

export interface RunningOptions {
  readonly moto: Moto;
  readonly state: AccountState;
  readonly folder: string;
  readonly certificate: string;
  readonly client: Tool;
}

export interface RunningStack {
  readonly functions: ReadonlyMap<string, RunningFunction>;
  /** API Gateway, which asks for signatures. */
  readonly api: SignedApi;
}

/** For clients of this test: who deploys and calls. */
export function clientsOf({ url: endpoint }: Moto, credentials = KEYS): { s3: S3Client; sqs: SQSClient } {
  const common = { endpoint, region: REGION, credentials };
  return {
    s3: new S3Client({ ...common, forcePathStyle: true }),
    sqs: new SQSClient({ ...common, useQueueUrlAsEndpoint: false }),
  };
}

/** INIT of every function, and no event. */
export async function startFunctions(
  t: Hooks,
  options: RunningOptions,
): Promise<ReadonlyMap<string, RunningFunction>> {
  const { moto, state, folder, certificate, client } = options;
  const archives = join(folder, 'archives');
  await mkdir(archives, { recursive: true });
  const running = new Map<string, RunningFunction>();
  t.after(async () => {
    for (const one of running.values()) await one.close();
  });
  for (const deployed of state.functions) {
    const archive = await download(options, deployed, archives);
    const role = roleOf(state, deployed);
    const endpoint = moto.url;
    running.set(
      deployed.FunctionArn,
      await startFunction({ deployed, role, archive, folder, endpoint, certificate, client }),
    );
  }
  return new Map(running);
}

export async function startStack(t: Hooks, options: RunningOptions): Promise<RunningStack> {
  const functions = await startFunctions(t, options);
  const { moto, state } = options;
  for (const { EventSourceArn, FunctionArn, ...mapping } of state.mappings) {
    const deployed = state.functions.find((one) => one.FunctionArn === FunctionArn) as DeployedFunction;
    const { AccessKeyId, SecretAccessKey, SessionToken } = roleOf(state, deployed).Credentials;
    const keys = { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken };
    const [, , , , , queue] = EventSourceArn.split(':');
    const poller = await startPoller({
      sqs: clientsOf(moto, keys).sqs,
      queueUrl: String(state.queues.find((url) => url.endsWith(`/${queue}`))),
      functionName: deployed.FunctionName,
      handler: (event: SQSEvent) => invoke(functions, FunctionArn, event) as Promise<SQSBatchResponse>,
      batchSize: mapping.BatchSize,
      windowSeconds: mapping.MaximumBatchingWindowInSeconds ?? 0,
      maximumConcurrency: 1,
      functionTimeoutMs: deployed.Timeout * 1_000,
      waitSeconds: WAIT_SECONDS,
      log: QUIET,
    });
    t.after(() => poller.close());
  }
  const [api] = state.apis;
  const gateway = await startGateway({ port: 0, log: QUIET, routes: routesOf(api as Api, functions) });
  t.after(() => gateway.close());
  const signed = await startSignedApi(t, { behind: gateway.url });
  await moto.place({ api: signed.url });
  return { functions, api: signed };
}

function routesOf({ Routes, Integrations }: Api, functions: RunningStack['functions']): GatewayRoute[] {
  return Routes.map(({ RouteKey, Target, AuthorizationType }) => {
    if (AuthorizationType !== 'AWS_IAM') throw new Error(`${RouteKey} is open: ${AuthorizationType}`);
    const integration = Integrations.find(({ IntegrationId }) => Target === `integrations/${IntegrationId}`);
    const [method, path] = RouteKey.split(' ') as [GatewayRoute['method'], string];
    const arn = String(integration?.IntegrationUri);
    const handler = (event: APIGatewayProxyEventV2) =>
      invoke(functions, arn, event) as Promise<APIGatewayProxyResultV2>;
    return { method, path, handler };
  });
}

function invoke(functions: RunningStack['functions'], arn: string, event: unknown): Promise<unknown> {
  const found = functions.get(arn);
  if (!found) throw new Error(`there is no function ${arn}`);
  return found.invoke(event);
}

function roleOf({ roles }: AccountState, { Role: arn }: DeployedFunction): Role {
  const found = roles.find((role) => role.Arn === arn);
  if (!found) throw new Error(`there is no role ${arn}`);
  return found;
}

/** What Lambda would unpack: moto names its key, and the bucket is that of osls. */
async function download(
  { moto, state }: RunningOptions,
  { FunctionName }: DeployedFunction,
  folder: string,
): Promise<string> {
  const [, location] = state.codes.find(([name]) => name === FunctionName) ?? [];
  const Key = decodeURIComponent(new URL(String(location)).pathname.slice(1));
  const Bucket = String(state.buckets.find((name) => name.startsWith(`${STACK}-serverlessdeploymentbucket`)));
  const { Body } = await clientsOf(moto).s3.send(new GetObjectCommand({ Bucket, Key }));
  const path = join(folder, `${FunctionName}-${basename(Key)}`);
  await writeFile(path, (await Body?.transformToByteArray()) as Uint8Array);
  return path;
}
