/** A deployment in virtual time: runs a plan, writes down what happens, and judges it. */
import zlib from 'node:zlib';
import type { LuaWasm } from 'wasmoon';
import { ServingError } from '../../lib/contract/errors.ts';
import { modelPrefix, namedModelsPrefix } from '../../lib/contract/names.ts';
import { present } from '../../lib/contract/present.ts';
import { parseResult } from '../../lib/results/fields.ts';
import { Actors } from './actors.ts';
import type { PointerText } from './canaries/facts.ts';
import { CAPTURE, readCaptures, zlibModule } from './captures.ts';
import { FILES_VARIABLES, Files } from './files.ts';
import { History } from './history.ts';
import { judgeHistory } from './invariants.ts';
import type { Evaluate } from './machine/bundle.ts';
import { EPOCH_MS } from './machine/clock.ts';
import { Disk } from './machine/disk.ts';
import { Network } from './machine/network.ts';
import { type Machine, SimulatedProcess } from './machine/process.ts';
import { Choices } from './machine/random.ts';
import { type Owner, Scheduler } from './machine/scheduler.ts';
import { awsError, type Call, type Fate, type Services, sdkModule, uploadModule } from './models/aws.ts';
import { childModule } from './models/children.ts';
import { EventSource } from './models/event-source.ts';
import { gatewayFetch } from './models/gateway.ts';
import { type FileFacts, onnxModule, readModelFile } from './models/inference.ts';
import { type Environment, FunctionModel, type Invocation, type Release } from './models/lambda.ts';
import { netModule } from './models/net.ts';
import { webhookModule } from './models/receiver.ts';
import { S3Model } from './models/s3.ts';
import { type Attribute, type QueueMessage, SqsQueue } from './models/sqs.ts';
import { tlsModule } from './models/tls.ts';
import type { SessionFault } from './named/facts.ts';
import { NOTIFIER_MS, NOTIFIER_VARIABLES, Notices, TARGETS } from './notices.ts';
import { answerOf, answerText, BUCKET, JOB, QUEUE_URL, REDIS_URL, type Stage } from './stage.ts';
import type { Plan, Step } from './steps.ts';
import { isTrouble, Troubles } from './trouble.ts';
import type { Violation } from './violation.ts';

const REDIS_PORT = 6379;
const MINUTE = 60_000;
/** After the last trouble everything has to have its outcome within this time: five deliveries of a record, and more. */
const SETTLE_MS = 120 * MINUTE;
const DAY_MS = 24 * 60 * MINUTE;

export interface Simulated {
  readonly history: History;
  readonly violations: readonly Violation[];
  readonly virtualMs: number;
  readonly events: number;
}

export interface WorldOptions {
  readonly evaluate: Evaluate;
  /** Lua for each start of Redis. */
  readonly lua: () => LuaWasm;
  /** The client of Redis. */
  readonly ioredis: unknown;
  /** The code of environments that start after a `deploy` step. Default: the same. */
  readonly nextEvaluate?: Evaluate;
}

/** How many times Redis starts. */
export function redisStarts({ steps }: Plan): number {
  return 1 + steps.filter((step) => step.kind === 'redis' && step.how === 'restart').length;
}

export class World implements Stage {
  readonly plan: Plan;
  readonly options: WorldOptions;
  readonly history: History;
  readonly choices: Choices;
  readonly scheduler: Scheduler;
  readonly machine: Machine;
  readonly network: Network;
  readonly s3: S3Model;
  readonly queue: SqsQueue;
  readonly deadLetters: SqsQueue;
  readonly notices: Notices;
  readonly files: Files;
  readonly services: Services;
  readonly functions: Readonly<
    Record<
      | 'batch'
      | 'dead-letter'
      | 'jobs'
      | 'notifier'
      | 'predict'
      | 'predictions'
      | 'enqueue'
      | 'status'
      | 'trials',
      FunctionModel
    >
  >;
  readonly actors: Actors;
  readonly troubles: Troubles;
  redis: SimulatedProcess | undefined;
  readonly #redisDisk = new Disk();
  #redisStarts = 0;
  #store: RedisStoreHolder['store'] | undefined;
  /** Troubles of now. */
  reach: Stage['reach'] = 'open';
  slowMs = 0;
  delivery: Stage['delivery'] = { twice: 0, lostDelete: 0, delayMs: 0 };
  readonly troubled: Stage['troubled'] = new Map();

  constructor(plan: Plan, options: WorldOptions) {
    const { settings, seed } = plan;
    this.plan = plan;
    this.options = options;
    this.choices = new Choices(seed);
    this.history = new History({
      refreshMs: settings.refreshSeconds * 1000,
      timeoutMs: settings.timeoutSeconds * 1000,
      maxReceiveCount: settings.maxReceiveCount,
      isPatient: settings.redriveAfter === 1_000,
      endMs: plan.endMs,
    });
    this.scheduler = new Scheduler({ onUncaught: (owner, error) => this.#uncaught(owner, error) });
    const weather = {
      delayMs: (link: string) => this.delayMs(link),
      reach: (port: number) => (port === REDIS_PORT ? this.reach : 'open'),
    };
    this.network = new Network(this.scheduler, weather);
    this.machine = {
      scheduler: this.scheduler,
      network: this.network,
      choices: this.choices,
      modules: (process) => this.#modules(process),
      fetchOf: (process) =>
        gatewayFetch(process, {
          route: (method, path) => this.#route(method, path),
          fate: (one) => this.#fate('https', one),
        }),
      onLine: (process, line) => this.#printed(process, line),
    };
    const now = () => EPOCH_MS + this.scheduler.nowMs + 130;
    this.s3 = new S3Model(now);
    const visibilityMs = Math.max(90_000, 6_000 * settings.timeoutSeconds);
    this.deadLetters = new SqsQueue(
      { name: 'dead', visibilityMs: 60_000, retentionMs: 14 * DAY_MS },
      this.choices,
      now,
    );
    this.queue = new SqsQueue(
      {
        name: 'message',
        visibilityMs,
        retentionMs: 4 * DAY_MS,
        maxReceives: settings.redriveAfter,
        deadLetters: this.deadLetters,
      },
      this.choices,
      now,
    );
    this.notices = new Notices(this, settings.receiverFails, now);
    this.files = new Files(this, plan, now);
    this.services = {
      serve: (call, process) => this.#serve(call, process),
      fate: (call, process) => this.#fate(call.service, process),
    };
    this.functions = this.#functions();
    this.actors = new Actors(this, settings.named);
    this.troubles = new Troubles(this, (downMs) => this.actors.killBridge(downMs));
  }

  get evaluate(): Evaluate {
    return this.options.evaluate;
  }

  get nowMs(): number {
    return this.scheduler.nowMs;
  }

  /** The process whose code runs now. */
  get current(): SimulatedProcess {
    const { current } = this.scheduler;
    if (current instanceof SimulatedProcess) return current;
    throw new Error('code of a process runs outside of it');
  }

  /** Writes a sentence of the story. @param about uris; undefined: it concerns all */
  tell(from: string, to: string, text: string, about?: readonly string[]): void {
    this.history.lines.push({ atMs: this.nowMs, from, to, text, about });
  }

  delayMs(link: string): number {
    const { tailMs } = this.plan.settings;
    const usual = this.choices.between(`delay ${link}`, 0.1, 1);
    const tail = this.choices.chance(`delay ${link}`, 0.02)
      ? this.choices.between(`delay ${link}`, 0, tailMs)
      : 0;
    return usual + tail + (this.slowMs > 0 ? this.choices.between(`delay ${link}`, 0, this.slowMs) : 0);
  }

  async run(): Promise<Simulated> {
    this.startRedis();
    this.actors.publishFirst();
    const source = this.#source('batch', this.queue, this.plan.settings.eventSize, 0);
    const dead = this.#source('dead-letter', this.deadLetters, 10, 0);
    const notices = this.#source('notifier', this.notices.queue, 10, 0);
    const files = this.#source('jobs', this.files.queue, 1, 0);
    for (const step of this.plan.steps)
      this.scheduler.after(step.atMs + 2_000, undefined, () => this.#begin(step));
    await this.scheduler.run(this.plan.endMs + 2_000);
    this.#calm();
    const settlesAt = this.nowMs + SETTLE_MS;
    for (const span of [1, 4, 5, 20, 30, 60]) {
      await this.scheduler.run(Math.min(settlesAt, this.nowMs + span * MINUTE));
      if (this.#isQuiet()) break;
    }
    this.actors.readAll();
    await this.scheduler.run(this.nowMs + MINUTE);
    for (const { attributes } of this.queue.messages.values())
      this.history.stuck.push(
        this.history.enqueueOf(attributes['identity']?.StringValue ?? '')?.uri ?? 'unknown',
      );
    void [source, dead, notices, files];
    this.history.captures.push(...readCaptures(this.s3));
    this.files.readAll();
    const violations = judgeHistory(this.history);
    return { history: this.history, violations, virtualMs: this.nowMs, events: this.scheduler.ran };
  }

  #isQuiet(): boolean {
    const isIdle = Object.values(this.functions).every(({ running }) => running === 0);
    return (
      isIdle &&
      this.queue.messages.size === 0 &&
      this.deadLetters.messages.size === 0 &&
      this.notices.queue.messages.size === 0 &&
      this.files.queue.messages.size === 0 &&
      this.actors.underWay === 0
    );
  }

  /** No more trouble. */
  #calm(): void {
    this.reach = 'open';
    this.slowMs = 0;
    this.delivery = { twice: 0, lostDelete: 0, delayMs: 0 };
    this.troubled.clear();
    this.notices.share = 0;
    for (const link of this.network.links) link.resume();
    if (this.redis?.state === 'ended') this.startRedis();
    this.troubles.calm();
    this.actors.calm();
  }

  #source(
    name: 'batch' | 'dead-letter' | 'jobs' | 'notifier',
    queue: SqsQueue,
    batchSize: number,
    windowMs: number,
  ): EventSource {
    const pool = this.functions[name];
    const options = {
      queue,
      pool,
      batchSize,
      windowMs,
      twice: () => this.delivery.twice,
      lostDelete: () => this.delivery.lostDelete,
    };
    const urisOf = (messages: readonly { readonly attributes: Readonly<Record<string, Attribute>> }[]) =>
      messages.map(
        ({ attributes }) =>
          this.history.enqueueOf(attributes['identity']?.StringValue ?? '')?.uri ?? 'unknown',
      );
    return new EventSource(this.scheduler, this.choices, options, {
      onBatch: (messages) => {
        const shown = messages.map(({ id, receives }) =>
          receives > 1 ? `${id} (delivery ${receives})` : id,
        );
        this.tell('SQS', name, `SQS delivers ${shown.join(', ')} to the ${name} function.`, urisOf(messages));
      },
      onOutcome: (messages, { kind }, failed, startedMs) => {
        const uris = urisOf(messages);
        if (kind === 'answered' && name === 'batch') this.#delivered(messages, failed, startedMs);
        if (kind === 'throttled')
          this.tell(name, 'SQS', `Lambda has no environment free for the ${name} function.`, uris);
        else if (failed.size === 0)
          this.tell(
            name,
            'SQS',
            `The ${name} function acknowledges ${messages.map(({ id }) => id).join(', ')}.`,
            uris,
          );
        else
          this.tell(
            name,
            'SQS',
            `The ${name} function leaves ${[...failed].join(', ')} to be delivered again.`,
            uris,
          );
      },
    });
  }

  #delivered(messages: readonly QueueMessage[], failed: ReadonlySet<string>, startedMs: number): void {
    if (!this.plan.settings.named) return;
    this.history.named.deliveries.push({
      startedMs,
      atMs: this.nowMs,
      messages: messages.map(({ id, receives, attributes }) => ({
        identity: attributes['identity']?.StringValue ?? id,
        receives,
        isReturned: failed.has(id),
      })),
    });
  }

  #functions(): World['functions'] {
    const { settings } = this.plan;
    const timeoutMs = settings.timeoutSeconds * 1000;
    const make = (name: string, program: string, most: number, has: Reached, limitMs = timeoutMs) => {
      const release: Release = { evaluate: this.options.evaluate, variables: this.#variables(name, has) };
      return new FunctionModel(
        this.machine,
        { name, program, release, timeoutMs: limitMs, most, diskBytes: settings.named?.diskBytes },
        {
          onInvoke: (environment) => this.troubles.onInvoke(environment),
          onStart: (environment) =>
            this.tell(environment.name, environment.name, `Environment ${environment.name} starts.`, []),
          onAnswer: (environment, invocation) => this.#answered(environment, invocation),
          onEnd: (environment, how, invocation) => {
            this.history.kills.push({ process: environment.name, how, atMs: this.nowMs });
            const where = invocation ? ' in the middle of an invocation' : '';
            this.tell(
              environment.name,
              environment.name,
              `The process of ${environment.name} ends${where}: ${how}.`,
            );
          },
        },
      );
    };
    return {
      batch: make('batch', 'batch', settings.environments, 'redis'),
      'dead-letter': make('dead-letter', 'dead-letter', 1, 'redis'),
      jobs: make('jobs', 'jobs', 2, 'files'),
      notifier: make('notifier', 'notifier', 2, 'notices', NOTIFIER_MS),
      predict: make('predict', 'predict', 3, 'both'),
      predictions: make('predictions', 'predictions', 8, 'redis', 30_000),
      enqueue: make('enqueue', 'predictions', 8, 'queue', 30_000),
      status: make('status', 'status', 1, 'redis'),
      trials: make('trials', 'trials', 1, 'redis', 300_000),
    };
  }

  #variables(name: string, has: Reached, ttlSeconds = 86_400): Record<string, string> {
    const { settings } = this.plan;
    const config = {
      jobName: JOB,
      batchSize: settings.rowsOfRun,
      batching: settings.sharesRuns ? 'always' : 'never',
      modelRefreshSeconds: settings.refreshSeconds,
      resultTtlSeconds: ttlSeconds,
      queue: {
        batchSize: settings.eventSize,
        maximumConcurrency: settings.environments,
        maxReceiveCount: settings.maxReceiveCount,
      },
      function: { timeoutSeconds: settings.timeoutSeconds },
      ...(settings.notifies ? { notify: TARGETS } : {}),
      ...(settings.captures ? { capture: CAPTURE } : {}),
      ...(settings.named
        ? { models: { memoryMB: settings.named.memoryMB, pinned: settings.named.pinned } }
        : {}),
    };
    return {
      CLUSTER_SERVING_CONFIG: JSON.stringify(config),
      CLUSTER_SERVING_BUCKET: BUCKET,
      CLUSTER_SERVING_METRICS: 'off',
      ...(has === 'redis' || has === 'both' ? { CLUSTER_SERVING_REDIS_URL: REDIS_URL } : {}),
      ...(has === 'queue' || has === 'both' ? { CLUSTER_SERVING_QUEUE_URL: QUEUE_URL } : {}),
      ...(has === 'notices' ? NOTIFIER_VARIABLES : {}),
      ...(has === 'files' ? FILES_VARIABLES : {}),
      AWS_REGION: 'eu-west-1',
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SECRET_ACCESS_KEY: 'key',
      AWS_LAMBDA_RUNTIME_API: 'runtime',
      AWS_LAMBDA_FUNCTION_NAME: name,
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
    };
  }

  /** Environments that start from now on have other settings, and other code if there is any. */
  deploy(ttlSeconds: number): void {
    const others: Readonly<Record<string, Reached>> = {
      enqueue: 'queue',
      predict: 'both',
      notifier: 'notices',
      jobs: 'files',
    };
    for (const pool of Object.values(this.functions)) {
      const has = others[pool.options.name] ?? 'redis';
      pool.release = {
        evaluate: this.options.nextEvaluate ?? this.options.evaluate,
        variables: this.#variables(pool.options.name, has, ttlSeconds),
      };
    }
    this.tell(
      'operator',
      'Lambda',
      'A new release is deployed: environments that start from now on have it.',
    );
  }

  #route(method: string, path: string): FunctionModel {
    const { functions } = this;
    if (path === '/predict' || path.startsWith('/v2')) return functions.predict;
    if (path === '/predictions' && method === 'POST') return functions.enqueue;
    return path.startsWith('/predictions') || path === '/status' || path === '/cancel'
      ? functions.predictions
      : functions.status;
  }

  #modules(process: SimulatedProcess): Readonly<Record<string, () => unknown>> {
    const { settings } = this.plan;
    const vary = (about: string, ms: number) =>
      this.choices.between(`${about} ${process.name}`, 0.5 * ms, 1.5 * ms);
    const s3 = () => sdkModule(process, this.services, 's3');
    const https = () => webhookModule(process, this.notices.receiver);
    return {
      net: () => netModule(this.network, process),
      tls: () => tlsModule(process, this.services),
      http: https,
      https,
      'dns/promises': () => ({}),
      zlib: () => zlibModule(process, zlib),
      ioredis: () => this.options.ioredis,
      child_process: () =>
        childModule(process, {
          machine: this.machine,
          startMs: () => settings.childStartMs * this.choices.between(`start ${process.name}`, 0.9, 1.1),
        }),
      '@aws-sdk/client-s3': s3,
      '@aws-sdk/client-sqs': () => sdkModule(process, this.services, 'sqs'),
      '@aws-sdk/lib-storage': () => uploadModule(Reflect.get(s3(), 'PutObjectCommand')),
      wasmoon: () => ({ LuaWasm: { initialize: async () => this.options.lua() } }),
      'onnxruntime-node': () =>
        onnxModule(process, {
          openMs: () => vary('open', settings.openMs),
          runMs: () => vary('run', settings.runMs),
          slowMs: settings.timeoutSeconds * 400,
          onOpen: (_process, open) => this.#opens(process, open),
          onRun: (_process, numbers, facts) => this.#ran(process, numbers, facts),
          onClosedRun: (_process, facts) =>
            this.#faulty(
              'a closed model runs nothing',
              `${process.name} runs ${nameOf(facts)} after it was closed`,
            ),
        }),
    };
  }

  /** A session begins to open. The process of an isolated run has a copy that no budget counts. */
  #opens(process: SimulatedProcess, open: readonly FileFacts[]): void {
    const { mostOpen } = this.history;
    const own = open.filter(({ model }) => model === undefined);
    mostOpen.set(process.name, Math.max(own.length, mostOpen.get(process.name) ?? 0));
    const names = open.map(nameOf);
    const twice = names.find((name, i) => names.indexOf(name) < i);
    if (twice !== undefined)
      this.#faulty('no model is open twice', `${process.name} has ${twice} open twice`);
    const budgetBytes = (this.plan.settings.named?.memoryMB ?? 0) * 1024 * 1024;
    const further = open.filter(({ model }) => model !== undefined);
    const bytes = further.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
    if (bytes > budgetBytes && rootOf(process) === process.name)
      this.#faulty(
        'the memory of further models',
        `${process.name} has ${further.map(nameOf).join(', ')} open, ${bytes} bytes of ${budgetBytes}`,
      );
  }

  #faulty(invariant: SessionFault['invariant'], text: string): void {
    this.history.named.faults.push({ invariant, text, atMs: this.nowMs });
  }

  #ran(process: SimulatedProcess, given: readonly number[], { model, version }: FileFacts): void {
    // Warming up runs zeros.
    const numbers = given.filter((number) => number > 0);
    if (numbers.length === 0) return;
    this.history.ran.push(...numbers);
    const fact = { kind: 'ran', process: rootOf(process), numbers, version, atMs: this.nowMs } as const;
    if (model === undefined) this.history.canaries.seen.push(fact);
    const uris = this.history.enqueues.filter(({ number }) => numbers.includes(number)).map(({ uri }) => uri);
    const by = model === undefined ? '' : ` by ${model}`;
    this.tell(process.name, process.name, `${process.name} runs record ${numbers.join(', ')}${by}.`, uris);
  }

  startRedis(): void {
    const redis = new SimulatedProcess(this.machine, this.options.evaluate, {
      name: `redis-${++this.#redisStarts}`,
      variables: {},
      disk: this.#redisDisk,
      wall: { offsetMs: -70 },
      pid: 1,
      intervalFactor: 600,
    });
    this.redis = redis;
    redis.after(0, () => void this.#openRedis(redis));
  }

  async #openRedis(redis: SimulatedProcess): Promise<void> {
    const { RedisEngine, startEmbedded } = Object((await redis.programs['redis']?.()) ?? {});
    const { publish } = RedisEngine.prototype;
    const observe = (engine: RedisStoreHolder, channel: string) => this.#published(engine, channel);
    RedisEngine.prototype.publish = function (this: RedisStoreHolder, channel: string, message: string) {
      observe(this, channel);
      return publish.call(this, channel, message);
    };
    await startEmbedded({
      dataDir: '/data',
      port: REDIS_PORT,
      host: '127.0.0.1',
      log: () => undefined,
      now: () => redis.clock.wallMs(),
    });
  }

  /** Redis writes a result before it announces it, in one step. */
  #published({ store }: RedisStoreHolder, channel: string): void {
    this.#store = store;
    const prefix = `cluster-serving-done_${JOB}:`;
    if (!channel.startsWith(prefix)) return;
    const uri = channel.slice(prefix.length);
    const fields = Object.fromEntries(store.hash(`cluster-serving_${JOB}:${uri}`) ?? []);
    const { identity = '', status = '', model = '' } = fields;
    const outcome = readOutcome(uri, fields);
    this.history.outcomes.push({ uri, identity, status, model, ...outcome, atMs: this.nowMs });
    const number = this.history.enqueueOf(identity)?.number;
    const what = outcome.answer ? `the answer ${answerText(outcome.answer)}` : `the failure ${outcome.code}`;
    const whose = number === undefined ? '' : ` for record ${number}`;
    this.tell('batch', 'Redis', `Redis has ${what}${whose} under ${uri}.`, [uri]);
  }

  #serve({ service, operation, input }: Call, process: SimulatedProcess): object {
    const trouble = this.troubled.get(service);
    if (trouble?.how === 'errors' && this.choices.chance(`errors ${service} ${process.name}`, trouble.share))
      throw awsError('ServiceUnavailable', 'Please reduce your request rate.', 503);
    if (service === 's3') {
      this.#reads(operation, input, process);
      const answer = this.s3.serve(operation, input);
      if (operation === 'PutObject') this.#activated(input, process);
      if (operation === 'GetObject') this.#looked(input, process);
      if (operation === 'PutObject') this.notices.onPut(input);
      return answer;
    }
    const isPartial = trouble?.how === 'partial';
    const chances = {
      refuses: () => isPartial && this.choices.chance(`partial ${process.name}`, trouble.share),
      delayMs: () => this.choices.between('delayed', 0, this.delivery.delayMs),
    };
    const other = this.notices.queueOf(input) ?? this.files.queueOf(input);
    if (other) return other.sendBatch(input, chances);
    const before = this.queue.messages.size;
    const known = new Set(this.queue.messages.keys());
    const answer = this.queue.sendBatch(input, chances);
    if (this.queue.messages.size > before)
      for (const { id, attributes, sentAt } of this.queue.messages.values())
        if (!known.has(id)) this.#sent(process, id, attributes, sentAt);
    return answer;
  }

  #sent(
    process: SimulatedProcess,
    id: string,
    attributes: Readonly<Record<string, Attribute>>,
    sentAt: number,
  ): void {
    const identity = attributes['identity']?.StringValue ?? id;
    this.history.messages.push({ id, identity, sentAt });
    const enqueue = this.history.enqueueOf(identity);
    this.tell(
      process.name,
      'SQS',
      `SQS takes record ${enqueue?.number ?? '?'} of ${enqueue?.uri ?? '?'} as ${id}.`,
      enqueue ? [enqueue.uri] : [],
    );
  }

  #activated(input: object, { name: by }: SimulatedProcess): void {
    const { Key = '', Body = '' }: { Key?: string; Body?: string } = input;
    const model = furtherOf(Key);
    if (model !== undefined) this.history.named.uploaded.add(model);
    if (!Key.endsWith('/current.json')) return;
    if (model !== undefined) return this.#activatedNamed(model, Body);
    const { version, history, canary, ended }: PointerText = JSON.parse(Body);
    const { canaries } = this.history;
    const [serving, other] = [this.#versionOf(version), canary && this.#versionOf(canary.version)];
    canaries.pointers.push({ by, version, history, canary, ended, atMs: this.nowMs });
    const beside = other === undefined ? '' : `, and version ${other} takes ${100 * (canary?.share ?? 0)} %`;
    this.tell('operator', 'S3', `Version ${serving} of the model serves from now on${beside}.`);
  }

  #activatedNamed(model: string, body: string): void {
    const { version }: PointerText = JSON.parse(body);
    const { named } = this.history;
    named.versions.set(version, this.#fileOf(version));
    named.pointers.push({ model, version, atMs: this.nowMs });
    const facts = named.versions.get(version);
    this.tell('operator', 'S3', `${facts ? nameOf(facts) : version} serves from now on.`, []);
  }

  /** Somebody deletes all of a further model. */
  deleteModel(model: string): void {
    const prefix = modelPrefix(JOB, model);
    const Objects = [...this.s3.objects.keys()]
      .filter((key) => key.startsWith(prefix))
      .map((Key) => ({ Key }));
    this.s3.serve('DeleteObjects', { Delete: { Objects } });
    this.history.named.pointers.push({ model, version: undefined, atMs: this.nowMs });
    this.tell('operator', 'S3', `Somebody deletes the model ${model}.`, []);
  }

  /** A process reads an object of a further model. */
  #reads(operation: string, input: object, process: SimulatedProcess): void {
    const { Key = '' }: { Key?: string } = input;
    const model = operation === 'GetObject' ? furtherOf(Key) : undefined;
    const { looked, uploaded } = this.history.named;
    if (model !== undefined && !uploaded.has(model) && !process.name.startsWith('operator'))
      looked.push({ model, process: process.name, atMs: this.nowMs });
  }

  #fileOf(id: string): FileFacts {
    const [, file] = [...this.s3.objects].find(([key]) => key.includes(`/versions/${id}/`)) ?? [];
    return readModelFile(present(file, `file of version ${id}`).body);
  }

  /** The number of a version that the pointer names. */
  #versionOf(id: string): number {
    const { versions } = this.history.canaries;
    const known = versions.get(id);
    if (known) return known.number;
    const { version: number, flaw } = this.#fileOf(id);
    versions.set(id, { number, flaw });
    return number;
  }

  #looked(input: object, process: SimulatedProcess): void {
    const { Key = '' }: { Key?: string } = input;
    const { canaries } = this.history;
    if (!Key.endsWith('/current.json') || furtherOf(Key) !== undefined || !canaries.pointer) return;
    const { pointer } = canaries;
    canaries.seen.push({ kind: 'looked', process: rootOf(process), pointer, atMs: this.nowMs });
  }

  hashOf(key: string): ReadonlyMap<string, string> | undefined {
    return this.#store?.hash(key);
  }

  #fate(service: 's3' | 'sqs' | 'https', process: SimulatedProcess): Fate {
    const about = `${service} ${process.name}`;
    const [least, most] = service === 'https' ? [2, 12] : [4, 15];
    const slow = () => (this.slowMs > 0 ? this.choices.between(about, 0, this.slowMs) : 0);
    const [thereMs, backMs] = [
      this.choices.between(about, least, most) + slow(),
      this.choices.between(about, least, most) + slow(),
    ];
    const trouble = service === 'https' ? undefined : this.troubled.get(service);
    const isHit = trouble && this.choices.chance(about, trouble.share);
    const what = isHit && isFate(trouble.how) ? trouble.how : 'arrives';
    return { thereMs, backMs, what };
  }

  #answered(environment: Environment, { startedMs, endsMs }: Invocation): void {
    const { process } = environment;
    if (!process) return;
    const left = [...process.asked, ...this.network.underWay(process)];
    this.history.answers.push({
      environment: environment.name,
      startedMs,
      atMs: this.nowMs,
      left,
      leftMs: endsMs - this.nowMs,
    });
    if (left.length > 0)
      this.tell(
        environment.name,
        environment.name,
        `${environment.name} has answered while ${left.join(', ')} is under way.`,
      );
  }

  #begin(step: Step): void {
    if (isTrouble(step)) this.troubles.begin(step);
    else if (step.kind === 'files') this.files.begin(step);
    else this.actors.begin(step);
  }

  #printed(process: SimulatedProcess, line: string): void {
    if (!line.startsWith('{')) return;
    const { level, message, uri }: { level?: string; message?: string; uri?: string } = JSON.parse(line);
    if (level === 'error' || level === 'warn')
      this.tell(
        process.name,
        process.name,
        `${process.name} logs: ${message}`,
        uri === undefined ? [] : [uri],
      );
  }

  #uncaught(owner: Owner | undefined, error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    if (owner === undefined) throw error;
    this.history.uncaught.push({ process: owner.name, text, atMs: this.nowMs });
    this.tell(
      owner.name,
      owner.name,
      `${owner.name} ends by an error that nobody caught: ${text.split('\n')[0]}`,
    );
    if (owner instanceof SimulatedProcess) owner.end('exit code 1');
  }
}

/** The addresses that a function knows. */
type Reached = 'redis' | 'queue' | 'both' | 'notices' | 'files';

interface RedisStoreHolder {
  readonly store: { readonly hash: (key: string) => ReadonlyMap<string, string> | undefined };
}

/** The further model whose object has this key. */
function furtherOf(key: string): string | undefined {
  const prefix = namedModelsPrefix(JOB);
  return key.startsWith(prefix) ? key.slice(prefix.length).split('/')[0] : undefined;
}

function nameOf({ model, version }: FileFacts): string {
  return `version ${version} of ${model ?? "the job's own model"}`;
}

/** The process whose model it is: an isolated one has its parent's. */
function rootOf({ name }: SimulatedProcess): string {
  return name.split('/')[0] ?? name;
}

function isFate(how: string): how is Fate['what'] {
  return how === 'lost' || how === 'refused' || how === 'unanswered';
}

function readOutcome(uri: string, fields: Readonly<Record<string, string>>) {
  try {
    const result = parseResult(uri, fields);
    return { answer: result && answerOf(result), code: undefined };
  } catch (error) {
    return { answer: undefined, code: ServingError.from(error).code };
  }
}
