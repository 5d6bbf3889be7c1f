/**
 * Reads what the rules need from a packaged CloudFormation template. Nothing in it is trusted: a property may be
 * missing, have another type, or be a reference that only AWS can resolve, for which numberOf returns undefined.
 */
import { isObject } from '../../lib/codecs/instances.ts';
export type Properties = Readonly<Record<string, unknown>>;

interface Resource {
  readonly Type: string;
  readonly Properties?: Properties;
  /** `Retain` or `Snapshot` keep something of a resource that the template no longer has. */
  readonly DeletionPolicy?: string;
  /** The same of one that is replaced. */
  readonly UpdateReplacePolicy?: string;
}

export interface Template {
  readonly Resources: Readonly<Record<string, Resource>>;
  readonly Outputs?: Properties;
}

export interface DeployedFunction {
  /** Name of its archive, or of its folder in an image: `predict`. The logical name is osls's: `DeadDashletterLambdaFunction`. */
  readonly name: string;
  readonly properties: Properties;
  readonly memoryMB: number;
  readonly timeoutSeconds: number;
  readonly variables: Properties;
  readonly reservedConcurrency: number | undefined;
  readonly processor: string;
}

/** The functions that load onnxruntime and the model. */
export const MODEL_FUNCTIONS: ReadonlySet<string> = new Set(['predict', 'batch', 'trials']);

/** Lambda's own defaults. */
const DEFAULT_MEMORY_MB = 128;
const DEFAULT_TIMEOUT_SECONDS = 3;

export function recordOf(value: unknown): Properties {
  return isObject(value) ? value : {};
}

/** A single value is a list of one, a missing one an empty list. */
export function listOf(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}

export function numberOf(value: unknown): number | undefined {
  if (value === undefined || value === null || typeof value === 'object' || value === '') return undefined;
  const number = Number(value);
  return Number.isFinite(number) ? number : undefined;
}

/** The readable part of a text; references stay as `${name}`. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const { 'Fn::Sub': sub, 'Fn::Join': join, Ref: ref, 'Fn::GetAtt': attribute } = recordOf(value);
  if (sub !== undefined) return String(listOf(sub)[0]);
  if (typeof ref === 'string') return `\${${ref}}`;
  if (attribute !== undefined) return `\${${listOf(attribute).join('.')}}`;
  const [separator, parts] = listOf(join);
  return listOf(parts)
    .map(textOf)
    .join(typeof separator === 'string' ? separator : '');
}

export function resourcesOf(template: Template, type: string): (readonly [string, Properties])[] {
  return Object.entries(template.Resources)
    .filter(([, resource]) => resource.Type === type)
    .map(([name, { Properties: properties }]) => [name, recordOf(properties)]);
}

export function functionsOf(template: Template): DeployedFunction[] {
  return resourcesOf(template, 'AWS::Lambda::Function').map(([logicalName, properties]) => {
    const [command] = listOf(recordOf(properties['ImageConfig'])['Command']);
    const code = /([^/]+)\.zip$/.exec(archiveKey(properties)) ?? /^dist\/([^/]+)\//.exec(textOf(command));
    return {
      name: code?.[1] ?? (textOf(properties['FunctionName']) || logicalName),
      properties,
      memoryMB: numberOf(properties['MemorySize']) ?? DEFAULT_MEMORY_MB,
      timeoutSeconds: numberOf(properties['Timeout']) ?? DEFAULT_TIMEOUT_SECONDS,
      variables: recordOf(recordOf(properties['Environment'])['Variables']),
      reservedConcurrency: numberOf(properties['ReservedConcurrentExecutions']),
      processor: textOf(listOf(properties['Architectures'])[0]) || 'x86_64',
    };
  });
}

/** The stage in the path that osls gives to archives: serverless/<service>/<stage>/<time>/predict.zip. */
export function stageOf(template: Template): string | undefined {
  return resourcesOf(template, 'AWS::Lambda::Function')
    .map(([, properties]) => /^serverless\/[^/]+\/([^/]+)\//.exec(archiveKey(properties))?.[1])
    .find((stage) => stage !== undefined);
}

/** Reads a template of shared-redis.yml. Its exports for users begin with the name of the stack. */
export function sharedStackOf({ Outputs }: Template): { service: string; stage: string } | undefined {
  const exported = Object.values(Outputs ?? {}).map((one) =>
    textOf(recordOf(recordOf(one)['Export'])['Name']),
  );
  const [, service, stage] = /^(shared-redis)-([^:]+):/m.exec(exported.join('\n')) ?? [];
  return service && stage ? { service, stage } : undefined;
}

function archiveKey({ Code }: Properties): string {
  return textOf(recordOf(Code)['S3Key']);
}
