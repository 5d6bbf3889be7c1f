/**
 * Runs the stack of a packaged template on this machine: every archive unzipped and run with the template's
 * environment, behind the template's routes and event sources. No function name, route or variable is hard-coded, so
 * that a template that omits one fails a test.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { APIGatewayProxyEventV2, APIGatewayProxyResultV2, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { QueueSender } from '../../lib/queue/sender.ts';
import { listPages } from '../../lib/s3/pages.ts';
import { type LocalAws, startAws } from '../../local/aws/aws.ts';
import type { LocalLog } from '../../local/aws/lambda.ts';
import { watchObjects } from '../../local/event-source/objects.ts';
import { startPoller } from '../../local/event-source/poller.ts';
import { startGateway } from '../../local/gateway/gateway.ts';
import type { GatewayRoute } from '../../local/gateway/routes.ts';
import { startRedis } from '../../local/redis/start.ts';
import { startHttpProxy } from '../support/faults/http-proxy.ts';
import type { Artifacts } from '../support/packaging.ts';
import { createTable, startDynamo } from '../support/table.ts';
import { propertiesOf, resourcesOf, type Template } from '../support/template.ts';
import { startTlsProxy, type TlsProxy } from '../support/tls.ts';
import { extract, readArchive } from './archive.ts';
import { type Artifact, startArtifact } from './artifact.ts';

export interface Deployed {
  /** The HTTP API. */
  readonly url: string;
  readonly aws: LocalAws;
  readonly bucket: string;
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
  /** Undefined where no certificate could be made: then Redis is reached without TLS. */
  readonly tls: TlsProxy | undefined;
  /** By the function's name without service and stage. */
  readonly artifacts: ReadonlyMap<string, Artifact>;
  close(): Promise<void>;
}

/** One function, ready to be started. */
export interface Unpacked {
  /** Without service and stage. */
  readonly name: string;
  /** The folder to which its archive was extracted. */
  readonly folder: string;
  readonly handler: string;
  /** The template's variables and those Lambda sets; without AWS_LAMBDA_RUNTIME_API, which says who runs it. */
  readonly environment: Readonly<Record<string, string>>;
}

/** All that functions need, and no function started yet. */
export interface Prepared {
  readonly template: Template;
  readonly aws: LocalAws;
  /** Their addresses. */
  readonly queues: Queues;
  readonly tls: TlsProxy | undefined;
  readonly functions: readonly Unpacked[];
}

interface Queues {
  readonly Queue: string;
  readonly DeadLetterQueue: string;
  /** Where the stack takes jobs over files. */
  readonly JobsQueue?: string;
}

/** By function, the calls of a table so far: `DynamoDB_20120810.GetItem`. */
export type TableCalls = Map<string, readonly string[]>;

/** A Redis of another stack. */
export interface OtherRedis {
  /** Replaces the exports of that stack. */
  readonly exports: Readonly<Record<string, string>>;
  /** More variables of a function with these. */
  readonly variables: (template: Readonly<Record<string, string>>) => Readonly<Record<string, string>>;
}

export const BUCKET = 'deployed-bucket';
/** Its logical name, and here its own. */
const TABLE = 'ResultTable';
const QUIET: LocalLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

type Properties = Readonly<Record<string, unknown>>;
type Reference = { readonly Ref: string };
type Attribute = { readonly 'Fn::GetAtt': readonly [string, string] };

/** `prepare` runs when the bucket is there and before any function starts. */
export async function deployLocally(
  packaged: Artifacts,
  prepare: (aws: LocalAws) => Promise<void>,
  otherRedis?: OtherRedis,
  tableCalls?: TableCalls,
): Promise<Deployed> {
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closeOne of closers.splice(0).reverse()) await closeOne();
  };
  try {
    const onClose = (closer: () => Promise<unknown>) => closers.push(closer);
    return {
      ...(await deploy(await prepareDeployment(packaged, prepare, onClose, otherRedis, tableCalls), onClose)),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** SQS, S3 and Redis on this machine and every archive in a folder of its own, with the template's environment. */
export async function prepareDeployment(
  packaged: Artifacts,
  prepare: (aws: LocalAws) => Promise<void>,
  onClose: (close: () => Promise<unknown>) => void,
  otherRedis?: OtherRedis,
  tableCalls?: TableCalls,
): Promise<Prepared> {
  const template = await packaged.template();
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-deployed-'));
  onClose(() => rm(folder, { recursive: true, force: true }));
  const store = await storeOf(template, folder, onClose, otherRedis, tableCalls);
  const { tls } = store;
  const aws = await startAws({ port: 0, log: QUIET });
  onClose(() => aws.close());
  await aws.createBucket(BUCKET);
  await prepare(aws);
  const queues = await createQueues(aws, template);
  const values: Readonly<Record<string, string>> = {
    Bucket: BUCKET,
    ...queues,
    ...store.values,
  };
  const functions = await Promise.all(
    resourcesOf(template, 'AWS::Lambda::Function').map(async ([, properties]) => {
      const name = functionName(properties);
      const target = join(folder, name, 'archive');
      await extract(await readArchive(packaged.archive(name)), target);
      const variables = environmentOf(properties, values, tls);
      const environment = {
        ...aws.environment,
        ...(await store.variablesOf(name)),
        ...variables,
        ...otherRedis?.variables(variables),
        // As with respondAsync=on; what the template says of that is tested with the parameters.
        ...(name === 'predict' ? { CLUSTER_SERVING_QUEUE_URL: queues.Queue } : {}),
        AWS_LAMBDA_FUNCTION_NAME: String(properties['FunctionName']),
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(properties['MemorySize']),
      };
      return { name, folder: target, handler: String(properties['Handler']), environment };
    }),
  );
  return { template, aws, queues, tls, functions };
}

/** Where results are: in the table of the stack, or in a Redis. */
async function storeOf(
  template: Template,
  folder: string,
  onClose: (close: () => Promise<unknown>) => void,
  otherRedis: OtherRedis | undefined,
  tableCalls: TableCalls | undefined,
) {
  const variablesOf = async (_functionName: string): Promise<Record<string, string>> => ({});
  if (otherRedis) return { tls: undefined, values: otherRedis.exports, variablesOf };
  if (!template.Resources[TABLE]) return { ...(await ownRedis(folder, onClose)), variablesOf };
  const endpoint = await startDynamo({ after: (close) => onClose(close) });
  await createTable(endpoint, TABLE);
  return {
    tls: undefined,
    values: { [TABLE]: TABLE },
    variablesOf: async (name: string) => {
      const proxy = await startHttpProxy({ after: (close) => onClose(close) }, endpoint);
      tableCalls?.set(name, proxy.seen);
      return { AWS_ENDPOINT_URL_DYNAMODB: proxy.url };
    },
  };
}

async function ownRedis(folder: string, onClose: (close: () => Promise<unknown>) => void) {
  const redis = await startRedis({ dataDir: join(folder, 'redis'), port: 0, log: () => undefined });
  onClose(() => redis.close());
  const tls = await startTlsProxy(Number(new URL(redis.url).port), folder);
  onClose(async () => tls?.close());
  const values = {
    'Redis.PrimaryEndPoint.Address': 'localhost',
    'Redis.PrimaryEndPoint.Port': String(tls?.port ?? new URL(redis.url).port),
  };
  return { tls, values };
}

async function deploy(
  { template, aws, queues, tls, functions }: Prepared,
  onClose: (close: () => Promise<unknown>) => void,
): Promise<Omit<Deployed, 'close'>> {
  const artifacts = new Map<string, Artifact>();
  onClose(() => Promise.all([...artifacts.values()].map((artifact) => artifact.close())));
  const starts = await Promise.allSettled(
    functions.map(async (unpacked) => artifacts.set(unpacked.name, await start(unpacked))),
  );
  // All have started or failed by now, so that closing misses none.
  for (const started of starts) if (started.status === 'rejected') throw started.reason;
  if (queues.JobsQueue !== undefined) onClose(sendObjectEvents(aws, template, queues.JobsQueue));
  const pollers = await startPollers(aws, template, { ...queues }, artifacts);
  onClose(() => Promise.all(pollers.map((poller) => poller.close())));
  const gateway = await startGateway({ port: 0, log: QUIET, routes: routesOf(template, artifacts) });
  onClose(() => gateway.close());
  const { Queue: queueUrl, DeadLetterQueue: deadLetterUrl } = queues;
  return { url: gateway.url, aws, bucket: BUCKET, queueUrl, deadLetterUrl, tls, artifacts };
}

async function createQueues(aws: LocalAws, template: Template): Promise<Queues> {
  const create = (name: string, deadLetter: string) => {
    const { QueueName, VisibilityTimeout, RedrivePolicy } = propertiesOf(template, name);
    return aws.createQueue({
      name: String(QueueName),
      visibilitySeconds: Number(VisibilityTimeout),
      maxReceiveCount: (RedrivePolicy as { maxReceiveCount: number }).maxReceiveCount,
      deadLetterName: String(propertiesOf(template, deadLetter)['QueueName']),
    });
  };
  const { deadLetter, url } = await create('Queue', 'DeadLetterQueue');
  const queues = { Queue: url, DeadLetterQueue: deadLetter?.url as string };
  if (!template.Resources['JobsQueue']) return queues;
  return { ...queues, JobsQueue: (await create('JobsQueue', 'JobsDeadLetterQueue')).url };
}

/** The S3 of this machine sends no events. */
function sendObjectEvents(aws: LocalAws, template: Template, queueUrl: string): () => Promise<void> {
  const { NotificationConfiguration } = propertiesOf(template, 'Bucket') as {
    NotificationConfiguration: {
      QueueConfigurations: { Filter: { S3Key: { Rules: { Value: string }[] } } }[];
    };
  };
  const [prefix] = NotificationConfiguration.QueueConfigurations.map(
    ({ Filter }) => Filter.S3Key.Rules[0]?.Value,
  );
  const sender = new QueueSender(aws.sqs, { queueUrl });
  const pages = () => listPages(aws.s3, BUCKET, prefix ?? '');
  return watchObjects({ pages }, (message) => sender.send(message), Number.POSITIVE_INFINITY);
}

function start({ folder, handler, environment }: Unpacked): Promise<Artifact> {
  return startArtifact({
    folder,
    handler,
    // The address is never called, its presence starts INIT.
    environment: { ...environment, AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9' },
    readable: [environment['NODE_EXTRA_CA_CERTS'] ?? []].flat(),
  });
}

/** `cluster-serving-dev-predict` -> predict. */
function functionName({ Code }: Properties): string {
  return (Code as { S3Key: string }).S3Key.replace(/^.*\//, '').replace(/\.zip$/, '');
}

/** The template's variables with what stands for its resources here. */
function environmentOf(
  { Environment }: Properties,
  values: Readonly<Record<string, string>>,
  tls: TlsProxy | undefined,
): Record<string, string> {
  const { Variables } = Environment as { Variables: Properties };
  const value = (variable: unknown) => {
    if (typeof variable === 'string') return variable;
    if ('Fn::ImportValue' in (variable as object))
      return valueOf((variable as { 'Fn::ImportValue': string })['Fn::ImportValue'], values);
    if ('Ref' in (variable as object)) return valueOf((variable as Reference).Ref, values);
    const { 'Fn::Sub': text } = variable as { 'Fn::Sub': string };
    const filled = text.replaceAll(/\$\{([^}]+)\}/g, (_, name: string) => valueOf(name, values));
    return tls ? filled : filled.replace('rediss:', 'redis:');
  };
  const variables = Object.entries(Variables).map(([name, variable]) => [name, value(variable)] as const);
  return { ...Object.fromEntries(variables), ...(tls ? { NODE_EXTRA_CA_CERTS: tls.certificate } : {}) };
}

function valueOf(name: string, values: Readonly<Record<string, string>>): string {
  const found = values[name];
  if (found === undefined) throw new Error(`an environment refers to ${name}, which nothing stands for here`);
  return found;
}

/** The artifact behind `{"Fn::GetAtt": ["PredictLambdaFunction", "Arn"]}`. */
function behind(template: Template, reference: unknown, artifacts: ReadonlyMap<string, Artifact>): Artifact {
  const [logicalName] = (reference as Attribute)['Fn::GetAtt'];
  return artifacts.get(functionName(propertiesOf(template, logicalName))) as Artifact;
}

function routesOf(template: Template, artifacts: ReadonlyMap<string, Artifact>): GatewayRoute[] {
  return resourcesOf(template, 'AWS::ApiGatewayV2::Route').map(([, { RouteKey, Target }]) => {
    const [, [, integration]] = (Target as { 'Fn::Join': [string, [string, Reference]] })['Fn::Join'];
    const artifact = behind(template, propertiesOf(template, integration.Ref)['IntegrationUri'], artifacts);
    const [method, path] = String(RouteKey).split(' ') as [GatewayRoute['method'], string];
    const handler = (event: APIGatewayProxyEventV2) =>
      artifact.invoke(event) as Promise<APIGatewayProxyResultV2>;
    return { method, path, handler };
  });
}

async function startPollers(
  aws: LocalAws,
  template: Template,
  queues: Readonly<Record<string, string>>,
  artifacts: ReadonlyMap<string, Artifact>,
) {
  const mappings = resourcesOf(template, 'AWS::Lambda::EventSourceMapping');
  return Promise.all(
    mappings.map(async ([functionName_, mapping]) => {
      const [queue] = (mapping['EventSourceArn'] as Attribute)['Fn::GetAtt'];
      const artifact = behind(template, mapping['FunctionName'], artifacts);
      return startPoller({
        sqs: aws.sqs,
        queueUrl: queues[queue] as string,
        functionName: functionName_,
        handler: (event: SQSEvent) => artifact.invoke(event) as Promise<SQSBatchResponse>,
        batchSize: Number(mapping['BatchSize']),
        windowSeconds: Number(mapping['MaximumBatchingWindowInSeconds'] ?? 0),
        maximumConcurrency: (mapping['ScalingConfig'] as { MaximumConcurrency: number }).MaximumConcurrency,
        functionTimeoutMs: 30_000,
        log: QUIET,
      });
    }),
  );
}
