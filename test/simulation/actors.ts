/** Who uses a deployment: clients with the SDK, old clients of the stream with their bridge, and the operator. */
import { asError, ServingError } from '../../lib/contract/errors.ts';
import type { Result } from '../../lib/contract/result.ts';
import type { InputQueue } from '../../sdk/input-queue.ts';
import type { OutputQueue } from '../../sdk/output-queue.ts';
import { Operators } from './canaries/operators.ts';
import type { EnqueueFact, ReadFact } from './history.ts';
import { Disk } from './machine/disk.ts';
import { SimulatedProcess } from './machine/process.ts';
import { KINDS, modelFile } from './models/inference.ts';
import { NamedOperators } from './named/operators.ts';
import { TARGET } from './notices.ts';
import { answerOf, answerText, BUCKET, JOB, QUEUE_URL, REDIS_URL, type Stage } from './stage.ts';
import type { AskStep, CallStep, ChangeStep, EnqueueStep, PredictStep, ReadStep, Settings } from './steps.ts';

interface Queues {
  readonly process: SimulatedProcess;
  readonly sqs: InputQueue;
  readonly https: InputQueue;
  readonly redis: OutputQueue;
  readonly web: OutputQueue;
}

const API = 'https://api.simulated';
const CLIENT_VARIABLES = { AWS_REGION: 'eu-west-1', AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'key' };

export class Actors {
  readonly #world: Stage;
  readonly #clients = new Map<string, Promise<Queues>>();
  #stream: Promise<{ xadd(...args: string[]): Promise<string> }> | undefined;
  #bridge: SimulatedProcess | undefined;
  #bridges = 0;
  #oldClient: SimulatedProcess | undefined;
  #operator: SimulatedProcess | undefined;
  readonly #operators: Operators;
  readonly #named: NamedOperators;
  #calls = 0;

  constructor(world: Stage, named: Settings['named']) {
    this.#world = world;
    this.#operators = new Operators(world, (name) => this.#process(name));
    this.#named = new NamedOperators(world, named, (name) => this.#process(name));
  }

  /** Calls that have not ended. */
  get underWay(): number {
    return this.#calls + this.#operators.underWay + this.#named.underWay;
  }

  begin(step: CallStep | ChangeStep): void {
    switch (step.kind) {
      case 'enqueue':
        return step.way === 'stream' ? this.#xadd(step) : this.#enqueue(step);
      case 'query':
      case 'wait':
      case 'take':
        return this.#read(step);
      case 'status':
        return this.#status(step);
      case 'cancel':
        return this.#cancel(step);
      case 'dequeue':
        return this.#dequeue(step);
      case 'predict':
        return this.#predict(step);
      case 'publish':
        return this.#publish(step.version);
      case 'rollback':
        return this.#rollBack();
      case 'deploy':
        return this.#world.deploy(step.ttlSeconds);
      case 'order':
        return this.#operators.order(step);
      case 'schedule':
        return this.#operators.schedule();
      case 'named':
        return this.#named.order(step.order);
    }
  }

  #process(name: string): SimulatedProcess {
    const { machine, evaluate, choices } = this.#world;
    return new SimulatedProcess(machine, evaluate, {
      name,
      variables: CLIENT_VARIABLES,
      disk: new Disk(),
      wall: { offsetMs: choices.between(`clock ${name}`, -5_000, 5_000) },
      pid: 100,
    });
  }

  #client(name: string): Promise<Queues> {
    const known = this.#clients.get(name);
    if (known) return known;
    const process = this.#process(name);
    const opened = new Promise<Queues>((resolve) => {
      process.after(0, () => {
        void (async () => {
          const {
            InputQueue: Input,
            OutputQueue: Output,
          }: {
            InputQueue: new (options: object) => InputQueue;
            OutputQueue: new (options: object) => OutputQueue;
          } = Object(await process.programs['client']?.());
          resolve({
            process,
            sqs: new Input({
              name: JOB,
              queueUrl: QUEUE_URL,
              bucket: BUCKET,
              redisUrl: REDIS_URL,
              region: 'eu-west-1',
            }),
            https: new Input({ name: JOB, frontendUrl: API, auth: 'none' }),
            redis: new Output({ name: JOB, url: REDIS_URL }),
            web: new Output({ name: JOB, url: API, auth: 'none' }),
          });
        })();
      });
    });
    this.#clients.set(name, opened);
    return opened;
  }

  /** Calls in the process of a client. */
  #call(name: string, work: (queues: Queues) => Promise<void>): void {
    this.#calls++;
    void this.#client(name).then((queues) =>
      queues.process.after(0, () => {
        void work(queues).finally(() => this.#calls--);
      }),
    );
  }

  #enqueue({ client, uri, number, what, way, notifies, canaryKey, model }: EnqueueStep): void {
    const world = this.#world;
    if (model === undefined) world.history.canaries.keys.set(number, canaryKey ?? uri);
    const name = `client ${client}`;
    this.#call(name, async ({ process, ...queues }) => {
      const identity = process.uuid();
      const fact: EnqueueFact = {
        uri,
        number,
        kind: what,
        way,
        client: name,
        calledMs: world.nowMs,
        identity,
        endedMs: undefined,
        isAccepted: false,
        notifies,
        model,
      };
      world.history.enqueues.push(fact);
      const kind =
        what === 'good'
          ? ''
          : `, which ${what === 'slow' ? 'is slow' : what === 'endless' ? 'never ends' : what}`;
      world.tell(
        name,
        way === 'sqs' ? 'SQS' : 'Lambda',
        `${name} enqueues record ${number}${forModel(model)} under ${uri} over ${way.toUpperCase()}${kind}.`,
        [uri],
      );
      const x = { data: Float32Array.of(number, KINDS.indexOf(what)), shape: [2] };
      const queue = way === 'sqs' ? queues.sqs : queues.https;
      try {
        await queue.enqueue(
          uri,
          { x },
          {
            identity,
            canaryKey,
            model,
            ...(notifies ? { notify: TARGET } : {}),
          },
        );
        fact.isAccepted = true;
      } catch (error) {
        world.tell(
          name,
          name,
          `${name}'s enqueue of record ${number} fails: ${ServingError.from(error).code}.`,
          [uri],
        );
      }
      fact.endedMs = world.nowMs;
    });
  }

  #xadd({ uri, number, what }: EnqueueStep): void {
    const world = this.#world;
    world.history.canaries.keys.set(number, uri);
    this.#stream ??= this.#openStream();
    this.#calls++;
    this.#inOldClient(async (redis) => {
      const fact: EnqueueFact = {
        uri,
        number,
        kind: what,
        way: 'stream',
        client: 'old client',
        calledMs: world.nowMs,
        identity: undefined,
        endedMs: undefined,
        isAccepted: false,
        notifies: false,
        model: undefined,
      };
      world.history.enqueues.push(fact);
      world.tell('old client', 'Redis', `The old client adds record ${number} under ${uri} to the stream.`, [
        uri,
      ]);
      const data = JSON.stringify({ instances: [{ x: [number, KINDS.indexOf(what)] }] });
      try {
        const id = await redis.xadd(JOB, '*', 'uri', uri, 'data', data, 'serde', 'stream');
        const [ms = '', sequence = ''] = id.split('-');
        fact.identity = `stream-${ms.padStart(13, '0')}-${sequence.padStart(6, '0')}`;
        fact.isAccepted = true;
      } catch {
        world.tell(
          'old client',
          'old client',
          `The old client does not know whether record ${number} was added.`,
          [uri],
        );
      }
      fact.endedMs = world.nowMs;
      this.#calls--;
    });
  }

  #inOldClient(work: (redis: { xadd(...args: string[]): Promise<string> }) => Promise<void>): void {
    void this.#stream?.then((redis) => this.#oldClient?.after(0, () => void work(redis)));
  }

  #openStream(): Promise<{ xadd(...args: string[]): Promise<string> }> {
    const process = this.#process('old client');
    this.#oldClient = process;
    this.#startBridge();
    return new Promise((resolve) => {
      process.after(0, () => {
        void (async () => {
          const {
            Redis,
          }: {
            Redis: new (
              url: string,
              options: object,
            ) => { xadd(...args: string[]): Promise<string>; on(name: string, listener: () => void): void };
          } = Object(await process.programs['client']?.());
          const redis = new Redis(REDIS_URL, {
            maxRetriesPerRequest: 0,
            commandTimeout: 3_000,
            retryStrategy: () => 500,
          });
          redis.on('error', () => undefined);
          resolve(redis);
        })();
      });
    });
  }

  #startBridge(): void {
    const name = `bridge-${++this.#bridges}`;
    const world = this.#world;
    const process = this.#process(name);
    this.#bridge = process;
    world.tell(name, 'Redis', `${name} starts.`, []);
    process.after(0, () => {
      void (async () => {
        const {
          startBridge,
          Queue,
        }: {
          startBridge: (options: object) => Promise<{ ended: Promise<unknown> }>;
          Queue: new (
            job: string,
            options: object,
          ) => { send(record: object, signal: AbortSignal): Promise<void> };
        } = Object(await process.programs['bridge']?.());
        const queue = new Queue(JOB, {
          queueUrl: QUEUE_URL,
          bucket: BUCKET,
          redisUrl: REDIS_URL,
          region: 'eu-west-1',
        });
        const never = new AbortController().signal;
        const options = {
          redisUrl: REDIS_URL,
          stream: JOB,
          send: (record: object) => queue.send(record, never),
          warn: (text: string) => world.tell(name, name, `${name} warns: ${text}`, []),
        };
        // Who runs it starts it again.
        for (;;) {
          const bridge = await startBridge(options).catch((error: unknown) => asError(error));
          if (!(bridge instanceof Error)) return void (await bridge.ended.catch(() => undefined));
          await new Promise((resolve) => process.clock.setTimeout(resolve, 1_000));
        }
      })();
    });
  }

  #queueOf({ redis, web }: Queues, isHttps: boolean): OutputQueue {
    return isHttps ? web : redis;
  }

  /** The latest enqueue of the uri that a client knows to be accepted. */
  #latest(uri: string): string | undefined {
    return this.#world.history.enqueues.findLast((one) => one.uri === uri && one.isAccepted)?.identity;
  }

  #read({ kind, client, uri, isOwn, isHttps }: ReadStep): void {
    const name = `client ${client}`;
    this.#call(name, async (queues) => {
      const identity = isOwn ? this.#latest(uri) : undefined;
      const queue = this.#queueOf(queues, isHttps);
      const options = identity === undefined ? {} : { identity };
      await this.#note(name, kind, uri, identity, () => {
        if (kind === 'query') return queue.query(uri, options);
        return kind === 'take'
          ? queue.queryAndDelete(uri, options)
          : queue.wait(uri, { ...options, timeoutMs: 20_000 });
      });
    });
  }

  async #note(
    client: string,
    how: ReadFact['how'],
    uri: string,
    asked: string | undefined,
    work: () => Promise<Result | undefined>,
  ): Promise<void> {
    const { history } = this.#world;
    const calledMs = this.#world.nowMs;
    let got: ReadFact['got'];
    try {
      const result = await work();
      got = result ? gotOf(result) : { kind: 'nothing' };
    } catch (error) {
      const { code, uri: ofRecord } = ServingError.from(error);
      got = {
        kind: 'error',
        code: codeOf(error) ?? code,
        isOfRecord: uriOfError(error) !== undefined || ofRecord !== undefined,
      };
    }
    history.reads.push({ client, how, uri, asked, calledMs, endedMs: this.#world.nowMs, got });
    this.#world.tell(client, 'Redis', `${client} asks for ${uri} (${how}) and gets ${textOf(got)}.`, [uri]);
  }

  #status({ client, uri, isHttps }: AskStep): void {
    this.#call(`client ${client}`, async (queues) => {
      const identity = this.#latest(uri);
      const status = await this.#queueOf(queues, isHttps)
        .status(uri, identity === undefined ? {} : { identity })
        .catch((error: unknown) => `the error ${codeOf(error)}`);
      this.#world.tell(
        `client ${client}`,
        'Redis',
        `client ${client} asks for the status of ${uri} and gets ${status}.`,
        [uri],
      );
    });
  }

  #cancel({ client, uri, isHttps }: AskStep): void {
    const { history } = this.#world;
    this.#call(`client ${client}`, async (queues) => {
      const calledMs = this.#world.nowMs;
      const answer = await this.#queueOf(queues, isHttps)
        .cancel(uri)
        .then(String, (error: unknown) => `the error ${codeOf(error)}`);
      history.cancels.push({ uri, answer, calledMs, endedMs: this.#world.nowMs });
      this.#world.tell(`client ${client}`, 'Redis', `client ${client} cancels ${uri} and gets ${answer}.`, [
        uri,
      ]);
    });
  }

  #dequeue({ client, isHttps }: AskStep): void {
    const { history } = this.#world;
    const name = `client ${client}`;
    this.#call(name, async (queues) => {
      const calledMs = this.#world.nowMs;
      const all = await this.#queueOf(queues, isHttps)
        .dequeue({ timeoutMs: 20_000 })
        .catch(() => undefined);
      for (const [uri, result] of all ?? []) {
        const got: ReadFact['got'] =
          codeOf(result) === undefined && isResult(result)
            ? gotOf(result)
            : { kind: 'error', code: codeOf(result) ?? 'unknown', isOfRecord: true };
        history.reads.push({
          client: name,
          how: 'dequeue',
          uri,
          asked: undefined,
          calledMs,
          endedMs: this.#world.nowMs,
          got,
        });
        this.#world.tell(name, 'Redis', `${name} dequeues ${uri} and gets ${textOf(got)}.`, [uri]);
      }
    });
  }

  #predict({ client, number, canaryKey, model }: PredictStep): void {
    const world = this.#world;
    if (canaryKey !== undefined) world.history.canaries.keys.set(number, canaryKey);
    const name = `client ${client}`;
    this.#call(name, async ({ https }) => {
      const calledMs = world.nowMs;
      let failed: string | undefined;
      try {
        const x = { data: Float32Array.of(number, 0), shape: [2] };
        const [prediction] = await https.predict([{ x }], { canaryKey, model });
        if (prediction) {
          const answer = answerOf(prediction);
          world.history.predictions.push({
            client: name,
            number,
            calledMs,
            endedMs: world.nowMs,
            named: model,
            model: prediction.model,
            answer,
          });
          world.tell(
            name,
            'Lambda',
            `${name} predicts record ${number}${forModel(model)} and gets ${answerText(answer)}.`,
            [],
          );
        }
      } catch (error) {
        failed = codeOf(error) ?? 'unknown';
        world.tell(name, 'Lambda', `${name}'s prediction${forModel(model)} fails: ${failed}.`, []);
      }
      if (model !== undefined)
        world.history.named.requests.push({ model, number, calledMs, endedMs: world.nowMs, error: failed });
    });
  }

  /** The first version is there before anything else. */
  publishFirst(): void {
    this.#publish(1);
  }

  #inOperator(
    what: string,
    work: (
      program: Readonly<Record<string, unknown>>,
      s3: unknown,
      process: SimulatedProcess,
    ) => Promise<unknown>,
  ): void {
    const process = (this.#operator ??= this.#process('operator'));
    process.after(0, () => {
      void (async () => {
        const program = await process.programs['operator']?.();
        const open = Object(program).openS3 as (options: object) => unknown;
        await work(Object(program), open({}), process).catch((error: unknown) =>
          this.#world.tell('operator', 'S3', `${what} fails: ${asError(error).message}`),
        );
      })();
    });
  }

  #publish(version: number): void {
    this.#inOperator(`The push of version ${version}`, async (program, s3, process) => {
      const directory = `/models/${version}`;
      process.disk.write(`${directory}/model.onnx`, modelFile(version));
      const publish = program['publishModel'] as (...args: unknown[]) => Promise<unknown>;
      await publish(s3, { bucket: BUCKET, prefix: `models/${JOB}/` }, directory, {
        now: () => process.clock.wallMs(),
      });
    });
  }

  #rollBack(): void {
    this.#inOperator('The rollback', async (program, s3, process) => {
      const rollBack = program['rollBack'] as (...args: unknown[]) => Promise<unknown>;
      await rollBack(s3, { bucket: BUCKET, prefix: `models/${JOB}/` }, undefined, {
        now: () => process.clock.wallMs(),
      });
    });
  }

  killBridge(downMs: number): void {
    const bridge = this.#bridge;
    if (!bridge) return;
    this.#world.tell(
      'outside',
      bridge.name,
      `${bridge.name} is killed, and another one starts after ${(downMs / 1000).toFixed(1)} s.`,
    );
    bridge.end('SIGKILL');
    this.#bridge = undefined;
    this.#world.scheduler.after(downMs, undefined, () => this.#bridge ?? this.#startBridge());
  }

  /** The bridge runs, if there is one, and each further model opens. */
  calm(): void {
    this.#named.mend();
    if (this.#stream && !this.#bridge) this.#startBridge();
  }

  /** At the end, a client that nothing disturbs asks for every uri. */
  readAll(): void {
    const uris = [...new Set(this.#world.history.enqueues.map(({ uri }) => uri))].sort();
    this.#call('reader', async ({ redis }) => {
      for (const uri of uris) await this.#note('reader', 'final', uri, undefined, () => redis.query(uri));
    });
  }
}

function gotOf(result: Result): ReadFact['got'] {
  return { kind: 'result', identity: result.identity, model: result.model, answer: answerOf(result) };
}

function isResult(value: unknown): value is Result {
  return typeof value === 'object' && value !== null && 'outputs' in value;
}

/** Errors are of the class of their process, which is another one than here. */
function codeOf(error: unknown): string | undefined {
  const { code }: { code?: unknown } = Object(error);
  return typeof code === 'string' ? code : undefined;
}

function uriOfError(error: unknown): unknown {
  return Reflect.get(Object(error), 'uri');
}

function textOf(got: ReadFact['got']): string {
  if (got.kind === 'nothing') return 'nothing';
  if (got.kind === 'error') return `the error ${got.code}`;
  return `the answer ${answerText(got.answer)}`;
}

function forModel(model: string | undefined): string {
  return model === undefined ? '' : ` for ${model}`;
}
