/** What the checks of every-stack/tests.ts read in a packaged template: functions, queues and their variables. */
import assert from 'node:assert/strict';
import { propertiesOf, referencesOf, resourcesOf, type Template } from '../../support/template.ts';

export type Check = readonly [title: string, check: (template: Template) => void];

export type Properties = Readonly<Record<string, unknown>>;

export interface PackagedFunction {
  readonly logicalName: string;
  /** `predict` */
  readonly name: string;
  readonly properties: Properties;
  readonly variables: Properties;
  readonly subnets: readonly unknown[];
}

/** Names of the variables of functions. */
export const VARIABLES = {
  bucket: 'CLUSTER_SERVING_BUCKET',
  config: 'CLUSTER_SERVING_CONFIG',
  queue: 'CLUSTER_SERVING_QUEUE_URL',
  redis: 'CLUSTER_SERVING_REDIS_URL',
  redisCache: 'CLUSTER_SERVING_REDIS_CACHE',
  redisPassword: 'CLUSTER_SERVING_REDIS_PASSWORD_PARAMETER',
} as const;

export function functionsOf(template: Template): PackagedFunction[] {
  return resourcesOf(template, 'AWS::Lambda::Function').map(([logicalName, properties]) => ({
    logicalName,
    name: nameOf(properties),
    properties,
    variables: (properties['Environment'] as { Variables: Properties }).Variables,
    subnets: [(properties['VpcConfig'] as Properties | undefined)?.['SubnetIds'] ?? []].flat(),
  }));
}

/** That of its zip, or of the folder in its image. */
function nameOf({ Code, ImageConfig }: Properties): string {
  const [command] = ((ImageConfig as Properties | undefined)?.['Command'] ?? []) as string[];
  if (command !== undefined) return command.split('/')[1] as string;
  return String((Code as Properties)['S3Key']).replace(/^.*\/|\.zip$/g, '');
}

/** What a queue feeds, with the queue and the function. */
export function mappingsOf(template: Template) {
  return resourcesOf(template, 'AWS::Lambda::EventSourceMapping').map(([name, mapping]) => {
    const [queue] = referencesOf(mapping['EventSourceArn']) as [string];
    const [fed] = referencesOf(mapping['FunctionName']) as [string];
    return { name, mapping, queue: propertiesOf(template, queue), fed: propertiesOf(template, fed) };
  });
}

/** The only resource of a type. */
export const single = (template: Template, type: string): [string, Properties] => {
  const found = resourcesOf(template, type);
  assert.equal(found.length, 1, type);
  return found[0] as [string, Properties];
};

/** How long a queue keeps a message. */
export const days = (queue: Properties) => Number(queue['MessageRetentionPeriod']) / 86_400;

/** The Redis of this stack: a group of nodes, or a serverless cache. */
export const ownRedis = ({ Resources }: Template) =>
  (['Redis', 'RedisServerless', 'RedisPublic'] as const).find((name) => Object.hasOwn(Resources, name));

/** Functions that a queue may run at the same time: one for each of ten batches of a poller, or as limited. */
export function mostAtOnce({ ScalingConfig, ProvisionedPollerConfig }: Properties): number {
  const pollers = ProvisionedPollerConfig as { readonly MaximumPollers: number } | undefined;
  const { MaximumConcurrency } = (ScalingConfig ?? {}) as { readonly MaximumConcurrency?: number };
  return pollers ? 10 * pollers.MaximumPollers : Number(MaximumConcurrency);
}
