/**
 * Finds the references in a CloudFormation template and the statements of its policies. References occur in Ref,
 * Fn::GetAtt, the text of Fn::Sub, and DependsOn.
 */
export interface Resource {
  readonly Type: string;
  // A template has AWS's format; each test states what it expects of a property.
  readonly Properties?: Readonly<Record<string, unknown>>;
  readonly DependsOn?: string | readonly string[];
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
}

export interface Template {
  readonly Resources: Readonly<Record<string, Resource>>;
  readonly Outputs: Readonly<
    Record<string, { readonly Value: unknown; readonly Export?: { readonly Name: unknown } }>
  >;
  readonly Parameters?: Readonly<Record<string, unknown>>;
}

export interface Statement {
  readonly Sid?: string;
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Condition?: unknown;
}

export function resourcesOf(template: Template, type: string): [string, Readonly<Record<string, unknown>>][] {
  return Object.entries(template.Resources)
    .filter(([, resource]) => resource.Type === type)
    .map(([name, { Properties = {} }]) => [name, Properties]);
}

/** The properties of one resource. @throws when there is none of that name */
export function propertiesOf(template: Template, name: string): Readonly<Record<string, unknown>> {
  const properties = template.Resources[name]?.Properties;
  if (!properties) throw new Error(`the template has no resource ${name}`);
  return properties;
}

/** Logical names a part of the template refers to, AWS's own (AWS::Region) left out. */
export function referencesOf(part: unknown): string[] {
  if (Array.isArray(part)) return part.flatMap(referencesOf);
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) => {
    if (key === 'Ref') return named([String(value)]);
    if (key === 'Fn::GetAtt') return named([String(Array.isArray(value) ? value[0] : value)]);
    if (key === 'Fn::Sub') return named(substituted(value));
    if (key === 'DependsOn') return named([value].flat().map(String));
    return referencesOf(value);
  });
}

/** The names of exports of other stacks that a part of the template imports. */
export function importsOf(part: unknown): string[] {
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) =>
    key === 'Fn::ImportValue' ? [String(value)] : importsOf(value),
  );
}

function named(references: readonly string[]): string[] {
  return references.map((name) => name.split('.')[0] as string).filter((name) => !name.startsWith('AWS::'));
}

function substituted(value: unknown): string[] {
  const text = String(Array.isArray(value) ? value[0] : value);
  return [...text.matchAll(/\$\{([^!][^}]*)\}/g)].map(([, name]) => name as string);
}

/** Every statement of every role, with the role's name: the role's own, and those of policies that name it. */
export function roleStatements(
  template: Template,
): { readonly role: string; readonly statement: Statement }[] {
  const own = resourcesOf(template, 'AWS::IAM::Role').flatMap(([role, { Policies }]) =>
    (Policies as { PolicyDocument: PolicyDocument }[]).flatMap(({ PolicyDocument }) =>
      PolicyDocument.Statement.map((statement) => ({ role, statement })),
    ),
  );
  const added = resourcesOf(template, 'AWS::IAM::Policy').flatMap(([, { Roles, PolicyDocument }]) =>
    referencesOf(Roles).flatMap((role) =>
      (PolicyDocument as PolicyDocument).Statement.map((statement) => ({ role, statement })),
    ),
  );
  return [...own, ...added];
}

interface PolicyDocument {
  readonly Statement: readonly Statement[];
}
