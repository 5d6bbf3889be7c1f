/**
 * In: a template. Out: its functions, what feeds them, and what their variables say.
 * Trap: a function is known by its archive's name (`predict`), which is what a person calls it; its logical name is
 * osls's (`DeadDashletterLambdaFunction`).
 */
import {
  listOf,
  namesIn,
  numberOf,
  type Properties,
  propertiesOf,
  recordOf,
  resourcesOf,
  type Template,
  textOf,
} from './template.ts';

export interface DeployedFunction {
  /** `predict` */
  readonly name: string;
  readonly logicalName: string;
  readonly properties: Properties;
  readonly memoryMB: number;
  readonly timeoutSeconds: number;
  readonly variables: Properties;
  readonly isInVpc: boolean;
  /** Logical name of its role; undefined for one from elsewhere. */
  readonly role: string | undefined;
  readonly reservedConcurrency: number | undefined;
  readonly processor: string;
}

/** What feeds a function from a queue. */
export interface EventSource {
  readonly logicalName: string;
  /** Logical name; undefined for a queue of another stack. */
  readonly queue: string | undefined;
  readonly queueProperties: Properties;
  readonly fed: DeployedFunction | undefined;
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly maximumConcurrency: number | undefined;
  readonly properties: Properties;
}

export const VARIABLES = {
  bucket: 'CLUSTER_SERVING_BUCKET',
  config: 'CLUSTER_SERVING_CONFIG',
  queue: 'CLUSTER_SERVING_QUEUE_URL',
  redis: 'CLUSTER_SERVING_REDIS_URL',
} as const;

/** Those that load onnxruntime and the model. */
export const MODEL_FUNCTIONS: ReadonlySet<string> = new Set(['predict', 'batch']);

/** Lambda's own, where a template says nothing. */
const DEFAULT_MEMORY_MB = 128;
const DEFAULT_TIMEOUT_SECONDS = 3;
const DEFAULT_BATCH_SIZE = 10;

export function functionsOf(template: Template): DeployedFunction[] {
  return resourcesOf(template, 'AWS::Lambda::Function').map(([logicalName, properties]) => ({
    name: nameOf(logicalName, properties),
    logicalName,
    properties,
    memoryMB: numberOf(properties['MemorySize']) ?? DEFAULT_MEMORY_MB,
    timeoutSeconds: numberOf(properties['Timeout']) ?? DEFAULT_TIMEOUT_SECONDS,
    variables: recordOf(recordOf(properties['Environment'])['Variables']),
    isInVpc: listOf(recordOf(properties['VpcConfig'])['SubnetIds']).length > 0,
    role: namesIn(properties['Role'])[0],
    reservedConcurrency: numberOf(properties['ReservedConcurrentExecutions']),
    processor: textOf(listOf(properties['Architectures'])[0]) || 'x86_64',
  }));
}

function nameOf(logicalName: string, { Code, FunctionName }: Properties): string {
  const archive = /([^/]+)\.zip$/.exec(textOf(recordOf(Code)['S3Key']))?.[1];
  return archive ?? (textOf(FunctionName) || logicalName);
}

/** The stage of osls's path for the archives: serverless/<service>/<stage>/<time>/predict.zip. */
export function stageOf(template: Template): string | undefined {
  const keys = functionsOf(template).map(({ properties }) => textOf(recordOf(properties['Code'])['S3Key']));
  return keys
    .map((key) => /^serverless\/[^/]+\/([^/]+)\//.exec(key)?.[1])
    .find((stage) => stage !== undefined);
}

export function eventSourcesOf(template: Template): EventSource[] {
  const functions = functionsOf(template);
  return resourcesOf(template, 'AWS::Lambda::EventSourceMapping')
    .filter(([, { EventSourceArn }]) => isQueue(template, EventSourceArn))
    .map(([logicalName, properties]) => {
      const queue = namesIn(properties['EventSourceArn'])[0];
      const fed = namesIn(properties['FunctionName'])[0];
      return {
        logicalName,
        queue,
        queueProperties: propertiesOf(template, queue),
        fed: functions.find((one) => one.logicalName === fed),
        batchSize: numberOf(properties['BatchSize']) ?? DEFAULT_BATCH_SIZE,
        windowSeconds: numberOf(properties['MaximumBatchingWindowInSeconds']) ?? 0,
        maximumConcurrency: numberOf(recordOf(properties['ScalingConfig'])['MaximumConcurrency']),
        properties,
      };
    });
}

function isQueue(template: Template, arn: unknown): boolean {
  const [name] = namesIn(arn);
  const type =
    name !== undefined && Object.hasOwn(template.Resources, name) && template.Resources[name]?.Type;
  return type === 'AWS::SQS::Queue' || /^arn:[^:]+:sqs:/.test(textOf(arn));
}

/** Queues that others give up to, by logical name. */
export function deadLetterQueues(template: Template): Set<string> {
  const targets = resourcesOf(template, 'AWS::SQS::Queue').flatMap(([, { RedrivePolicy }]) =>
    namesIn(recordOf(RedrivePolicy)['deadLetterTargetArn']),
  );
  return new Set(targets);
}

/** Functions behind a route of an HTTP API, by logical name; an alias counts as its function. */
export function routedFunctions(template: Template): Set<string> {
  const integrations = resourcesOf(template, 'AWS::ApiGatewayV2::Integration');
  const targets = integrations.flatMap(([, { IntegrationUri }]) => namesIn(IntegrationUri));
  const aliases = new Map(resourcesOf(template, 'AWS::Lambda::Alias'));
  return new Set(targets.flatMap((name) => namesIn(aliases.get(name)?.['FunctionName']).concat(name)));
}
