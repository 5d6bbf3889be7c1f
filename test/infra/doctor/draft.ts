/**
 * A copy of the facts of a real package, to be changed by a test. It refuses to change what is not there, because that
 * would test nothing.
 */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import type { ArchiveFacts } from '../../../infra/doctor/archive.ts';
import type { Facts, ModelFacts, Severity } from '../../../infra/doctor/rule.ts';
import type { Template } from '../../../infra/doctor/template.ts';
import { readSettings } from '../../../infra/template/config.ts';
import type { Parameters } from '../../../infra/template/parameters.ts';
import type { JobConfig } from '../../../lib/config/job.ts';

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

/** Without a config.yaml. */
const FOLDER = fileURLToPath(new URL('.', import.meta.url));

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

  /** A variable of a function, by its logical name. */
  variable(resource: string, name: string, value: unknown): void {
    const { Variables } = (this.resource(resource)['Properties'] as Tree)['Environment'] as {
      Variables: Tree;
    };
    Variables[name] = value;
  }

  job(change: Partial<JobConfig>): void {
    this.facts.job = { ...this.facts.job, ...change };
  }

  /** As `--param name=value`, on the command line of the doctor alone: the package stays as it is. */
  parameters(change: Partial<Parameters>): void {
    const { stage } = this.facts;
    const parameters = { ...this.facts.parameters, ...change } as unknown as Parameters & Facts['parameters'];
    this.facts.parameters = parameters;
    this.facts.settings = readSettings(FOLDER, { stage, config: undefined, parameters });
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
  }
}

/** The import report of the sample's model, with one thing changed. */
export function importReport(change: {
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
