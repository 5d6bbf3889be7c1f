/**
 * In: a CloudFormation template. Out: what it holds, read without trusting any of it.
 * Trap: a property may be a number, its text, or a reference that only AWS can resolve; whoever asks for a number gets
 * undefined for the last, never NaN.
 */
export type Properties = Readonly<Record<string, unknown>>;

export interface Resource {
  readonly Type: string;
  readonly Properties?: Properties;
  readonly DependsOn?: string | readonly string[];
}

export interface Template {
  readonly Resources: Readonly<Record<string, Resource>>;
  readonly Parameters?: Readonly<Record<string, unknown>>;
  readonly Conditions?: Readonly<Record<string, unknown>>;
  readonly Outputs?: Readonly<Record<string, unknown>>;
}

export interface Statement {
  /** Logical name of the role or policy. */
  readonly owner: string;
  readonly sid: string;
  readonly effect: string;
  readonly actions: readonly string[];
  readonly resources: readonly unknown[];
  readonly condition: unknown;
}

/** A way to a name in the template: `Ref`, `Fn::GetAtt`, `${...}` or `DependsOn`. */
export interface Reference {
  readonly name: string;
  readonly by: string;
}

/** Deeper is no template of ours, and a recursion without a limit is none either. */
const MAX_DEPTH = 64;

export function recordOf(value: unknown): Properties {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Properties) : {};
}

/** One of something is a list of one, nothing is none. */
export function listOf(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}

export function numberOf(value: unknown): number | undefined {
  if (value === undefined || value === null || typeof value === 'object' || value === '') return undefined;
  const number = Number(value);
  return Number.isFinite(number) ? number : undefined;
}

/** CloudFormation takes the text "true" for true. */
export function isTrue(value: unknown): boolean {
  return value === true || value === 'true';
}

/** What can be read of a text: references stay as `${name}`. */
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

export function resourcesOf(
  template: Template,
  ...types: readonly string[]
): (readonly [string, Properties])[] {
  return Object.entries(template.Resources)
    .filter(([, { Type }]) => types.includes(Type))
    .map(([name, { Properties: properties }]) => [name, recordOf(properties)]);
}

export function propertiesOf(template: Template, name: string | undefined): Properties {
  const found = name !== undefined && Object.hasOwn(template.Resources, name);
  return found ? recordOf(template.Resources[name]?.Properties) : {};
}

/** Names a part of the template refers to, without AWS's own (`AWS::Region`). */
export function namesIn(part: unknown): string[] {
  return referencesIn(part).map(({ name }) => name);
}

export function referencesIn(part: unknown, depth = 0): Reference[] {
  if (typeof part !== 'object' || part === null || depth > MAX_DEPTH) return [];
  if (Array.isArray(part)) return part.flatMap((item) => referencesIn(item, depth + 1));
  return Object.entries(part).flatMap(([key, value]) => {
    if (key === 'Ref') return named([String(value)], 'Ref');
    if (key === 'Fn::GetAtt') return named([String(listOf(value)[0])], 'Fn::GetAtt');
    if (key === 'Fn::Sub') return [...substituted(value), ...referencesIn(listOf(value)[1], depth + 1)];
    if (key === 'DependsOn') return named(listOf(value).map(String), 'DependsOn');
    return referencesIn(value, depth + 1);
  });
}

/** `${name}` of a text; the second part of a list form defines names of its own. */
function substituted(value: unknown): Reference[] {
  const [text, own] = listOf(value);
  const local = recordOf(own);
  const names = [...String(text).matchAll(/\$\{([^!}][^}]*)\}/g)].map(([, name]) => name as string);
  return named(
    names.filter((name) => !Object.hasOwn(local, name)),
    'Fn::Sub',
  );
}

function named(names: readonly string[], by: string): Reference[] {
  return names
    .map((name) => ({ name: name.split('.')[0] as string, by }))
    .filter(({ name }) => !name.startsWith('AWS::'));
}

export function allStatements(template: Template): Statement[] {
  const roles = resourcesOf(template, 'AWS::IAM::Role').flatMap(([role, { Policies }]) =>
    listOf(Policies).flatMap((policy) => statementsOf(role, recordOf(policy)['PolicyDocument'])),
  );
  const policies = resourcesOf(
    template,
    'AWS::IAM::Policy',
    'AWS::IAM::RolePolicy',
    'AWS::IAM::ManagedPolicy',
  ).flatMap(([name, { PolicyDocument }]) => statementsOf(name, PolicyDocument));
  return [...roles, ...policies];
}

export function statementsOf(owner: string, document: unknown): Statement[] {
  return listOf(recordOf(document)['Statement']).map((item) => {
    const { Sid, Effect, Action, Resource: resource, Condition } = recordOf(item);
    return {
      owner,
      sid: textOf(Sid),
      effect: textOf(Effect),
      actions: listOf(Action).map(textOf),
      resources: listOf(resource),
      condition: Condition,
    };
  });
}
