/**
 * Parses a template or throws CloudFormation's error, compares two templates, and evaluates expressions once
 * resources have names. An attribute evaluates to the resource's name and its own, `name.Arn`, because only AWS knows
 * the real one.
 */
import { referencesOf, type Template } from '../support/template.ts';

/** AWS's error instead of a result. */
export class Refusal extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Physical id by logical id, `export <name>` for those of other stacks, and what AWS itself names. */
export type Names = (name: string) => string | undefined;

/** @throws Refusal for a text that is not a template, or has a dangling reference */
export function parseTemplate(text: string): Template {
  const template = parse(text);
  const { Resources, Outputs } = template;
  const missing = [...new Set(referencesOf([Resources, Outputs]))].filter((name) => !(name in Resources));
  if (missing.length === 0) return template;
  throw new Refusal(
    'ValidationError',
    `Template format error: Unresolved resource dependencies [${missing.join(', ')}] in the Resources block of the template`,
  );
}

function parse(text: string): Template {
  try {
    const template = JSON.parse(text) as Template;
    if (Object.keys(template.Resources).length > 0) return template;
  } catch {
    throw new Refusal('ValidationError', 'Template format error: JSON not well-formed.');
  }
  throw new Refusal(
    'ValidationError',
    'Template format error: At least one Resources member must be defined.',
  );
}

/** Logical ids of what is new, differs or is gone. */
export function changesOf(before: Template | undefined, after: Template): string[] {
  const names = new Set([...Object.keys(before?.Resources ?? {}), ...Object.keys(after.Resources)]);
  return [...names].filter(
    (name) => JSON.stringify(before?.Resources[name]) !== JSON.stringify(after.Resources[name]),
  );
}

/** @throws when nothing stands for a name or a function of the expression */
export function valueOf(part: unknown, names: Names): string {
  const named = (name: string): string => {
    const found = names(name);
    if (found !== undefined) return found;
    const [logicalId = '', ...attribute] = name.split('.');
    const owner = names(logicalId);
    if (owner === undefined) throw new Error(`nothing stands for ${name} here`);
    return [owner, ...attribute].join('.');
  };
  if (typeof part !== 'object' || part === null) return String(part);
  const [[key, value] = ['', undefined]] = Object.entries(part);
  if (key === 'Ref') return named(String(value));
  if (key === 'Fn::ImportValue') return named(`export ${String(value)}`);
  if (key === 'Fn::GetAtt') return named([value].flat().join('.'));
  if (key === 'Fn::Sub') return String(value).replaceAll(/\$\{([^}]+)\}/g, (_, name: string) => named(name));
  if (key === 'Fn::Join') {
    const [separator, parts] = value as [string, readonly unknown[]];
    return parts.map((one) => valueOf(one, names)).join(separator);
  }
  throw new Error(`a template uses ${key}, which nothing stands for here`);
}
