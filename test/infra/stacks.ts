/**
 * Stacks as CloudFormation keeps them: resources, events, outputs, and errors in its words. Buckets are created in an
 * S3 on this machine; other resources exist only by name. Properties are not checked, so a template with a wrong
 * property still gets its stack.
 */
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { importsOf, type Resource, type Template } from '../support/template.ts';
import { changesOf, type Names, parseTemplate, Refusal, valueOf } from './stack-template.ts';

export const ACCOUNT_ID = '123456789012';

export interface StackEvent {
  readonly EventId: string;
  readonly StackId: string;
  readonly StackName: string;
  readonly LogicalResourceId: string;
  readonly PhysicalResourceId: string;
  readonly ResourceType: string;
  readonly ResourceStatus: string;
  readonly ResourceStatusReason?: string;
  readonly Timestamp: string;
}

export interface StackResource {
  readonly type: string;
  readonly physicalId: string;
  status: string;
}

export interface Stack {
  readonly name: string;
  readonly id: string;
  status: string;
  template: Template | undefined;
  /** When functions were last written. */
  changedAt: string;
  readonly resources: Map<string, StackResource>;
  /** Oldest first. */
  readonly events: StackEvent[];
  readonly changeSets: Map<string, ChangeSet>;
  /** Requested changes that have not begun. */
  work: (() => Promise<void>) | undefined;
  /** Changes that have begun. */
  running: Promise<void>;
}

interface ChangeSet {
  readonly template: Template;
  /** Logical ids. */
  readonly changes: readonly string[];
}

interface Failure {
  readonly template: Template;
  readonly action: 'CREATE' | 'UPDATE';
  readonly failed: string;
  /** Resources to be deleted again, in the order of their creation. */
  readonly made: readonly string[];
}

export interface ChangeSetRequest {
  readonly stackName: string;
  readonly name: string;
  readonly type: 'CREATE' | 'UPDATE';
  readonly body: string | undefined;
  readonly url: string | undefined;
}

export interface StacksOptions {
  readonly s3: S3Client;
  readonly region: string;
  /** Why this resource cannot be made; undefined when it can. */
  refusal(stackName: string, logicalId: string): string | undefined;
}

const NO_CHANGES =
  "The submitted information didn't contain changes. Submit different information to create a change set.";

export class Stacks {
  readonly #options: StacksOptions;
  readonly #stacks = new Map<string, Stack>();
  #count = 0;

  constructor(options: StacksOptions) {
    this.#options = options;
  }

  all(): readonly Stack[] {
    return [...this.#stacks.values()];
  }

  /** By name or id. @throws Refusal for one that is not there, or not any more */
  get(nameOrId: string): Stack {
    const found = this.all().find(({ name, id }) => name === nameOrId || id === nameOrId);
    if (!found) throw new Refusal('ValidationError', `Stack with id ${nameOrId} does not exist`);
    return found;
  }

  resource(stackName: string, logicalId: string): StackResource {
    const found = this.get(stackName).resources.get(logicalId);
    if (found) return found;
    throw new Refusal('ValidationError', `Resource ${logicalId} does not exist for stack ${stackName}`);
  }

  /** @throws Refusal for a template that cannot be had or read, or refers to what is not there */
  async templateOf(body: string | undefined, url: string | undefined): Promise<Template> {
    const text = body ?? (url === undefined ? '' : await this.#fetch(url));
    return parseTemplate(text);
  }

  async createChangeSet({ stackName, name, type, body, url }: ChangeSetRequest): Promise<Stack> {
    const template = await this.templateOf(body, url);
    this.#assertImports(stackName, template);
    const stack = type === 'CREATE' ? this.#reserve(stackName, name) : this.get(stackName);
    if (type === 'UPDATE' && !/^(CREATE|UPDATE|UPDATE_ROLLBACK)_COMPLETE$/.test(stack.status)) {
      const message = `Stack:${stack.id} is in ${stack.status} state and can not be updated.`;
      throw new Refusal('ValidationError', message);
    }
    if (stack.changeSets.has(name))
      throw new Refusal('AlreadyExistsException', `ChangeSet ${name} already exists`);
    stack.changeSets.set(name, { template, changes: changesOf(stack.template, template) });
    return stack;
  }

  changeSet(stackName: string, name: string) {
    const stack = this.get(stackName);
    const found = stack.changeSets.get(name);
    if (!found) throw new Refusal('ChangeSetNotFound', `ChangeSet [${name}] does not exist`);
    const { template, changes } = found;
    const isEmpty = changes.length === 0;
    return {
      stack,
      template,
      changes,
      status: isEmpty ? 'FAILED' : 'CREATE_COMPLETE',
      reason: isEmpty ? NO_CHANGES : '',
    };
  }

  execute(stackName: string, name: string): void {
    const { stack, template, changes, status } = this.changeSet(stackName, name);
    if (status === 'FAILED')
      throw new Refusal(
        'InvalidChangeSetStatus',
        `ChangeSet [${name}] cannot be executed in its current status of [FAILED]`,
      );
    stack.changeSets.clear();
    const action = stack.template === undefined ? 'CREATE' : 'UPDATE';
    this.#report(stack, stack.name, `${action}_IN_PROGRESS`, 'User Initiated');
    stack.work = () => this.#apply(stack, template, changes, action);
  }

  delete(stackName: string): void {
    const stack = this.all().find(({ name }) => name === stackName);
    // As AWS: deleting something that does not exist is not an error.
    if (!stack) return;
    this.#assertUnused(stack, []);
    this.#report(stack, stack.name, 'DELETE_IN_PROGRESS', 'User Initiated');
    stack.work = () => this.#remove(stack);
  }

  outputs(stack: Stack): Readonly<Record<string, string>> {
    const outputs = Object.entries(stack.template?.Outputs ?? {});
    return Object.fromEntries(outputs.map(([key, { Value }]) => [key, valueOf(Value, this.#names(stack))]));
  }

  /** Values by the names of exports. */
  #exports(stack: Stack, template = stack.template): ReadonlyMap<string, string> {
    const outputs = Object.values(template?.Outputs ?? {}).filter(({ Export }) => Export !== undefined);
    const names = this.#names(stack);
    return new Map(outputs.map(({ Export, Value }) => [valueOf(Export?.Name, names), valueOf(Value, names)]));
  }

  #assertImports(stackName: string, template: Template): void {
    const all = this.all().flatMap((stack) => [...this.#exports(stack).keys()]);
    const missing = importsOf(template).find((name) => !all.includes(name));
    if (missing !== undefined) throw new Refusal('ValidationError', `No export named ${missing} found`);
    const stack = this.all().find(({ name }) => name === stackName);
    const left = Object.values(template.Outputs ?? {}).map(({ Export }) => Export?.Name);
    if (stack)
      this.#assertUnused(
        stack,
        left.flatMap((name) => (name === undefined ? [] : [valueOf(name, this.#names(stack))])),
      );
  }

  /** @param left exports that stay */
  #assertUnused(stack: Stack, left: readonly string[]): void {
    for (const { name, template } of this.all())
      for (const used of importsOf(template))
        if (this.#exports(stack).has(used) && !left.includes(used))
          throw new Refusal('ValidationError', `Export ${used} cannot be deleted as it is in use by ${name}`);
  }

  async #fetch(url: string): Promise<string> {
    const [, Bucket, Key] = /^https:\/\/s3[^/]*\.amazonaws\.com\/([^/]+)\/(.+)$/.exec(url) ?? [];
    if (!Bucket || !Key) throw new Refusal('ValidationError', 'TemplateURL must be a supported URL.');
    try {
      const { Body } = await this.#options.s3.send(new GetObjectCommand({ Bucket, Key }));
      return (await Body?.transformToString()) ?? '';
    } catch (error) {
      throw new Refusal('ValidationError', `S3 error: ${(error as Error).message}`);
    }
  }

  #reserve(name: string, changeSet: string): Stack {
    const old = this.#stacks.get(name);
    if (old && old.status !== 'REVIEW_IN_PROGRESS') {
      const message = `Stack [${name}] already exists and cannot be created again with the changeSet [${changeSet}].`;
      throw new Refusal('ValidationError', message);
    }
    const id = `arn:aws:cloudformation:${this.#options.region}:${ACCOUNT_ID}:stack/${name}/${this.#unique()}`;
    const stack: Stack = {
      name,
      id,
      status: 'REVIEW_IN_PROGRESS',
      template: undefined,
      changedAt: now(),
      resources: new Map(),
      events: [],
      changeSets: new Map(),
      work: undefined,
      running: Promise.resolve(),
    };
    this.#stacks.set(name, stack);
    return stack;
  }

  async #apply(stack: Stack, template: Template, changes: readonly string[], action: 'CREATE' | 'UPDATE') {
    const made: string[] = [];
    for (const logicalId of changes) {
      const resource = template.Resources[logicalId];
      if (!resource) continue;
      const isNew = stack.resources.get(logicalId)?.status.startsWith('DELETE') ?? true;
      const [step, reason] = [
        isNew ? 'CREATE' : 'UPDATE',
        await this.#make(stack, logicalId, resource, isNew),
      ];
      if (reason !== undefined) {
        this.#report(stack, logicalId, `${step}_FAILED`, reason);
        return this.#rollBack(stack, { template, action, failed: logicalId, made });
      }
      if (isNew) made.push(logicalId);
      this.#report(stack, logicalId, `${step}_COMPLETE`);
    }
    for (const logicalId of changes)
      if (!(logicalId in template.Resources)) await this.#drop(stack, logicalId, stack.template);
    stack.template = template;
    stack.changedAt = now();
    this.#report(stack, stack.name, `${action}_COMPLETE`);
  }

  /** A changed resource keeps only its name here, so it needs no rollback. */
  async #rollBack(stack: Stack, { template, action, failed, made }: Failure) {
    const status = action === 'CREATE' ? 'ROLLBACK' : 'UPDATE_ROLLBACK';
    const reason = `The following resource(s) failed to ${action.toLowerCase()}: [${failed}]. `;
    this.#report(stack, stack.name, `${status}_IN_PROGRESS`, reason);
    if (stack.resources.get(failed)?.status === 'CREATE_FAILED')
      this.#report(stack, failed, 'DELETE_COMPLETE');
    for (const logicalId of made.toReversed()) await this.#drop(stack, logicalId, template);
    this.#report(stack, stack.name, `${status}_COMPLETE`);
  }

  async #remove(stack: Stack) {
    const failed: string[] = [];
    for (const [logicalId, { status }] of [...stack.resources].toReversed()) {
      if (/^DELETE_(COMPLETE|SKIPPED)$/.test(status)) continue;
      if (!(await this.#drop(stack, logicalId, stack.template))) failed.push(logicalId);
    }
    const reason = `The following resource(s) failed to delete: [${failed.join(', ')}]. `;
    if (failed.length > 0) return this.#report(stack, stack.name, 'DELETE_FAILED', reason);
    this.#report(stack, stack.name, 'DELETE_COMPLETE');
    this.#stacks.delete(stack.name);
  }

  /** Answers why not. */
  async #make(
    stack: Stack,
    logicalId: string,
    resource: Resource,
    isNew: boolean,
  ): Promise<string | undefined> {
    const { Type: type, Properties = {} } = resource;
    const physicalId = isNew
      ? this.#nameOf(stack, logicalId, resource)
      : (stack.resources.get(logicalId)?.physicalId as string);
    stack.resources.delete(logicalId);
    stack.resources.set(logicalId, { type, physicalId, status: 'CREATE_IN_PROGRESS' });
    const refused = this.#options.refusal(stack.name, logicalId);
    if (refused !== undefined) return refused;
    try {
      if (type === 'AWS::S3::Bucket' && isNew)
        await this.#options.s3.send(new CreateBucketCommand({ Bucket: physicalId }));
      if (type === 'AWS::Lambda::Function') {
        const { ImageUri, S3Bucket, S3Key: Key } = Properties['Code'] as Record<string, string | undefined>;
        const Bucket = ImageUri === undefined ? valueOf(S3Bucket, this.#names(stack)) : undefined;
        if (Bucket) await this.#options.s3.send(new HeadObjectCommand({ Bucket, Key }));
      }
      return undefined;
    } catch (error) {
      return `${type}: ${(error as Error).name}`;
    }
  }

  /** False when it cannot be deleted. `template` is the one that made it. */
  async #drop(stack: Stack, logicalId: string, template: Template | undefined): Promise<boolean> {
    const resource = stack.resources.get(logicalId) as StackResource;
    if (template?.Resources[logicalId]?.DeletionPolicy === 'Retain') {
      this.#report(stack, logicalId, 'DELETE_SKIPPED');
      return true;
    }
    try {
      if (resource.type === 'AWS::S3::Bucket')
        await this.#options.s3.send(new DeleteBucketCommand({ Bucket: resource.physicalId }));
    } catch (error) {
      this.#report(stack, logicalId, 'DELETE_FAILED', (error as Error).message);
      return false;
    }
    this.#report(stack, logicalId, 'DELETE_COMPLETE');
    return true;
  }

  #report(stack: Stack, logicalId: string, status: string, reason?: string): void {
    const resource = stack.resources.get(logicalId);
    if (resource) resource.status = status;
    else stack.status = status;
    stack.events.push({
      EventId: this.#unique(),
      StackId: stack.id,
      StackName: stack.name,
      LogicalResourceId: logicalId,
      PhysicalResourceId: resource?.physicalId ?? stack.id,
      ResourceType: resource?.type ?? 'AWS::CloudFormation::Stack',
      ResourceStatus: status,
      ...(reason === undefined ? {} : { ResourceStatusReason: reason }),
      Timestamp: now(),
    });
  }

  #nameOf({ name }: Stack, logicalId: string, { Type, Properties = {} }: Resource): string {
    const { FunctionName, QueueName } = Properties;
    if (Type === 'AWS::Lambda::Function') return String(FunctionName);
    if (Type === 'AWS::SQS::Queue')
      return `https://sqs.${this.#options.region}.amazonaws.com/${ACCOUNT_ID}/${String(QueueName)}`;
    const full = `${name.slice(0, 24)}-${logicalId.slice(0, 24)}-${this.#unique()}`;
    return Type === 'AWS::S3::Bucket' ? full.toLowerCase() : full;
  }

  #names({ name, resources }: Stack): Names {
    const own = new Map([
      ['AWS::Region', this.#options.region],
      ['AWS::URLSuffix', 'amazonaws.com'],
      ['AWS::StackName', name],
      ['AWS::AccountId', ACCOUNT_ID],
      ['AWS::Partition', 'aws'],
    ]);
    return (wanted) =>
      wanted.startsWith('export ')
        ? this.#exported(wanted.slice('export '.length))
        : (resources.get(wanted)?.physicalId ?? own.get(wanted));
  }

  #exported(name: string): string | undefined {
    return this.all()
      .map((stack) => (stack.template ? this.#exports(stack).get(name) : undefined))
      .find((value) => value !== undefined);
  }

  #unique(): string {
    return `n${String(++this.#count).padStart(6, '0')}`;
  }
}

function now(): string {
  return new Date().toISOString();
}
