/**
 * In: the facts of a real package. Out: a copy of them to spoil, one change at a time.
 * Trap: a change of something that is not there would test nothing; the draft refuses it.
 */
import assert from 'node:assert/strict';
import type { ArchiveFacts } from '../../../infra/doctor/archive.ts';
import type { Facts, ModelFacts, Severity } from '../../../infra/doctor/rule.ts';
import type { Resource, Template } from '../../../infra/doctor/template.ts';

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };
type Tree = Record<string, unknown>;

export interface Case {
  readonly rule: string;
  /** What is wrong: `<rule>: <name>`. */
  readonly name: string;
  readonly severity: Severity;
  readonly found: RegExp;
  /** Stage of the package that is spoilt. Default dev. */
  readonly stage?: 'dev' | 'prod';
  readonly change: (draft: Draft) => void;
}

/** What looks alike and is right: the rule says neither error nor warning. */
export type QuietCase = Omit<Case, 'severity' | 'found'>;

export class Draft {
  readonly facts: Writable<Facts>;

  constructor(facts: Facts) {
    this.facts = structuredClone(facts);
  }

  get template(): Template {
    assert.ok(this.facts.template);
    return this.facts.template;
  }

  /** @param path of properties, by dots; undefined takes the last one away */
  set(resource: string, path: string, value: unknown): void {
    const names = path.split('.');
    const last = names.pop() as string;
    let at = this.resource(resource)['Properties'] as Tree;
    for (const name of names) {
      assert.ok(typeof at[name] === 'object', `${resource} has no ${path}`);
      at = at[name] as Tree;
    }
    if (value !== undefined) at[last] = value;
    else {
      assert.ok(Object.hasOwn(at, last), `${resource} has no ${path}`);
      delete at[last];
    }
  }

  /** The properties of one resource, or of another part of it. */
  resource(name: string): Tree {
    const resources = this.template.Resources as Tree;
    assert.ok(Object.hasOwn(resources, name), `the template has no ${name}`);
    return resources[name] as Tree;
  }

  add(name: string, Type: string, Properties: Resource['Properties']): void {
    (this.template.Resources as Tree)[name] = { Type, Properties };
  }

  remove(name: string): void {
    this.resource(name);
    delete (this.template.Resources as Tree)[name];
  }

  /** A variable of a function, by its logical name. */
  variable(resource: string, name: string, value: unknown): void {
    const { Variables } = (this.resource(resource)['Properties'] as Tree)['Environment'] as {
      Variables: Tree;
    };
    Variables[name] = value;
  }

  /** Adds an Allow to a role. */
  allow(role: string, Action: unknown, Resource: unknown): void {
    const policies = (this.resource(role)['Properties'] as Tree)['Policies'] as [
      { PolicyDocument: { Statement: unknown[] } },
    ];
    policies[0].PolicyDocument.Statement.push({ Sid: 'Added', Effect: 'Allow', Action, Resource });
  }

  archive(name: string, change: Partial<ArchiveFacts>): void {
    const archives = this.facts.archives as Map<string, ArchiveFacts>;
    const found = archives.get(name);
    assert.ok(found, `no archive ${name}`);
    archives.set(name, { ...found, ...change });
  }

  model(change: Partial<Extract<ModelFacts, { state: 'found' }>>): void {
    assert.ok(this.facts.model.state === 'found');
    this.facts.model = { ...this.facts.model, ...change };
  }

  /** Only the settings are known. */
  withoutTemplate(): void {
    this.facts.template = undefined;
    this.facts.archives = undefined;
    this.facts.templateBytes = 0;
  }
}

/** The passport of the sample's model, with one thing changed. */
export function passport(change: {
  memoryMB?: number;
  latencyMs?: number;
  modelFileBytes?: number;
  recordBytes?: number;
}) {
  return {
    memoryMB: 256,
    latencyMs: 2,
    modelFile: 'model.onnx',
    modelFileBytes: 0,
    recordBytes: 64,
    ...change,
  };
}
