/**
 * The template of a stack as osls makes it from serverless.yml and infra/stack/, in milliseconds and without packaging
 * anything. What osls adds by itself is in osls.ts; package.system.test.ts holds that a packaged template has the same resources.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isAlias, isMap, isPair, isScalar, isSeq, type Node, parseDocument } from 'yaml';
import { readService, readSettings, type Settings } from '../../infra/template/config.ts';
import { applyConventions } from '../../infra/template/conventions.ts';
import type { Parameters } from '../../infra/template/parameters.ts';
import { readSharedRedis } from '../../infra/template/shared-redis.ts';
import type { Template } from '../support/template.ts';
import { type Composed, OUTPUTS_OF_OSLS, resourcesOfOsls } from './osls.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** A folder without a config.yaml. */
const ELSEWHERE = fileURLToPath(new URL('.', import.meta.url));
const STACK = 'infra/stack';

type Tree = Readonly<Record<string, unknown>>;
/** A part of its resources, or of `resources` in serverless.yml. */
interface Part {
  readonly Resources?: Template['Resources'];
  readonly Outputs?: Template['Outputs'];
  readonly Conditions?: Tree;
  readonly extensions?: Readonly<
    Record<string, { readonly Properties?: Tree; readonly DependsOn?: string[] }>
  >;
}

export interface Request {
  readonly stage?: string;
  readonly parameters?: Readonly<Record<string, string | number>>;
  /** Path of a config.yaml, from the project. Default: there is none. */
  readonly config?: string;
  /** The time in the name of a last snapshot. */
  readonly now?: Date;
}

/** serverless.yml, with the values of its variables. */
export function composeFile({ stage = 'dev', parameters = {}, config: path, now }: Request = {}): Composed {
  const { params, ...file } = readYaml('serverless.yml');
  const all = { ...of(params, 'default'), ...of(params, stage), ...parameters } as unknown as Parameters;
  const config = path === undefined ? undefined : resolve(ROOT, path);
  const request = { stage, config, parameters: all, ...(now && { now }) };
  const settings = { ...readSettings(ELSEWHERE, request), stack: STACK };
  const service = readService(ELSEWHERE, config);
  const composed = resolved(file, { stage, settings, service }) as unknown as Composed;
  // As infra/plugin.mjs does.
  const present = Object.entries(composed.functions).filter(
    ([name]) => !settings.absentFunctions.includes(name),
  );
  return { ...composed, functions: Object.fromEntries(present) };
}

/** A stack of a job. */
export function composeJob(request: Request = {}): Template {
  const composed = composeFile(request);
  const own = { Resources: resourcesOfOsls(composed), Outputs: OUTPUTS_OF_OSLS };
  const template = merged([own, ...(composed.resources as Part[])]);
  // As infra/plugin.mjs does when osls has all resources.
  const { settings } = composed['custom'] as { readonly settings: Pick<Settings, 'conventions'> };
  applyConventions(template.Resources, settings.conventions);
  return template;
}

/** The stack of shared-redis.yml. */
export function composeSharedRedis({ stage = 'dev', parameters = {} }: Request = {}): Template {
  const { params, ...file } = readYaml('shared-redis.yml');
  const all = { ...of(params, 'default'), ...of(params, stage), ...parameters } as Record<string, string>;
  const settings = {
    ...readSharedRedis({ stage, parameters: all, named: [], needsJobs: true }),
    stack: STACK,
  };
  const composed = resolved(file, { stage, settings, service: 'shared-redis' });
  return merged(composed['resources'] as Part[]);
}

const of = (params: unknown, stage: string) => (params as Readonly<Record<string, Tree>>)[stage] ?? {};

/** As osls: an extension replaces properties of a resource, and adds to what it depends on. */
function merged(parts: readonly Part[]): Template {
  const [Resources, Outputs, Conditions] = (['Resources', 'Outputs', 'Conditions'] as const).map((name) =>
    Object.assign({}, ...parts.map((part) => part[name] ?? {})),
  ) as [Template['Resources'], Template['Outputs'], Tree];
  const all: Record<string, unknown> = { ...Resources };
  for (const [name, { Properties, DependsOn }] of parts.flatMap(({ extensions = {} }) =>
    Object.entries(extensions),
  )) {
    const before = all[name] as Template['Resources'][string] | undefined;
    if (before === undefined) throw new Error(`Cannot extend "${name}" resource`);
    all[name] = {
      ...before,
      Properties: { ...before.Properties, ...Properties },
      ...(DependsOn && { DependsOn: [...[before.DependsOn ?? []].flat(), ...DependsOn] }),
    };
  }
  return {
    Resources: all as Template['Resources'],
    Outputs,
    ...(Object.keys(Conditions).length > 0 && { Conditions }),
  };
}

interface Scope {
  readonly stage: string;
  readonly service: string;
  readonly settings: Tree;
}

/** Without a variable: `${AWS::Region}` and `${Bucket.Arn}` are CloudFormation's. */
const VARIABLE = /\$\{((?:self|sls|opt|env|file)[:(][^${}]*)\}/;

/** With the values of osls's variables; what is null is left out. */
function resolved(tree: Tree, scope: Scope): Tree {
  return valuesIn(tree, scope) as Tree;
}

function valuesIn(value: unknown, scope: Scope): unknown {
  if (typeof value === 'string') {
    const [variable, expression = ''] = VARIABLE.exec(value) ?? [];
    if (variable === undefined) return value;
    const found = valueOf(expression, scope);
    return variable === value
      ? valuesIn(found, scope)
      : valuesIn(
          value.replace(variable, () => String(found)),
          scope,
        );
  }
  if (Array.isArray(value)) return value.map((one) => valuesIn(one, scope));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, one]) => [key, valuesIn(one, scope)] as const);
  return Object.fromEntries(entries.filter(([, one]) => one !== null && one !== undefined));
}

function valueOf(expression: string, scope: Scope): unknown {
  const values = expression.split(', ').map((source) => sourceOf(source, scope));
  const value = values.find((one) => one !== undefined);
  if (value === undefined) throw new Error(`${expression} has no value`);
  return value;
}

/** Undefined where the next one after a comma is asked. */
function sourceOf(source: string, { stage, service, settings }: Scope): unknown {
  if (source === 'sls:stage' || source === 'opt:stage') return stage;
  if (source === 'self:service' || source.endsWith('config.cjs):service')) return service;
  if (/config\.cjs\):/.test(source)) return settings;
  if (source.startsWith('file(')) return readYaml(source.slice('file('.length, -1));
  if (source === 'null') return null;
  if (source.startsWith("'")) return source.slice(1, -1);
  const [, name] = /^self:custom\.settings\.(.*)$/.exec(source) ?? [];
  let value: unknown = name === undefined ? undefined : settings;
  for (const key of name?.split('.') ?? []) value = (value as Tree | undefined)?.[key];
  return value;
}

const read = new Map<string, Tree>();

/** With CloudFormation's short forms written out. */
function readYaml(path: string): Tree {
  const before = read.get(path);
  if (before) return before;
  const tree = parseYaml(path);
  read.set(path, tree);
  return tree;
}

function parseYaml(path: string): Tree {
  const document = parseDocument(readFileSync(join(ROOT, path), 'utf8'), { logLevel: 'silent' });
  const written = (node: Node | null): unknown => {
    if (isAlias(node)) return written(node.resolve(document) ?? null);
    const value = plain(node, written);
    const name = /^!(\w+)$/.exec(node?.tag ?? '')?.[1];
    if (name === undefined) return value;
    if (name === 'Ref') return { Ref: value };
    if (name === 'GetAtt') return { 'Fn::GetAtt': /^([^.]+)\.(.+)$/.exec(String(value))?.slice(1) };
    return { [`Fn::${name}`]: value };
  };
  return written(document.contents) as Tree;
}

function plain(node: Node | null, written: (node: Node | null) => unknown): unknown {
  if (isSeq(node)) return node.items.map((item) => written(item as Node));
  if (isMap(node))
    return Object.fromEntries(
      node.items.map((item) => {
        if (!isPair(item) || !isScalar(item.key)) throw new Error('a key that is not a text');
        return [String(item.key.value), written(item.value as Node | null)];
      }),
    );
  return isScalar(node) ? node.value : null;
}
