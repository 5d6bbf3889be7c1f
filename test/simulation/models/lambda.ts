/**
 * A function on Lambda: environments that start cold, run one invocation at a time, are stopped after each answer, and end
 * at a time limit or at any moment. The disk of an environment outlives its process.
 */
import type { Evaluate } from '../machine/bundle.ts';
import type { WallClock } from '../machine/clock.ts';
import { Disk } from '../machine/disk.ts';
import { type Machine, SimulatedProcess } from '../machine/process.ts';

export type Invoked =
  | { readonly kind: 'answered'; readonly answer: unknown }
  /** The handler threw. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** Its process ended: a time limit, a crash, a kill. */
  | { readonly kind: 'ended'; readonly how: string }
  /** No environment was free. */
  | { readonly kind: 'throttled' };

/** Code and settings of the environments that start from now on. */
export interface Release {
  readonly evaluate: Evaluate;
  readonly variables: Readonly<Record<string, string>>;
}

export interface FunctionOptions {
  readonly name: string;
  readonly program: string;
  readonly release: Release;
  readonly timeoutMs: number;
  /** Environments at the same time. */
  readonly most: number;
  /** The size of its disk. Default: Lambda's least. */
  readonly diskBytes?: number | undefined;
}

export interface LambdaHooks {
  readonly onInvoke: (environment: Environment) => void;
  readonly onStart: (environment: Environment) => void;
  /** The answer has left. Called before the environment is stopped. */
  readonly onAnswer: (environment: Environment, invocation: Invocation) => void;
  readonly onEnd: (environment: Environment, how: string, invocation: Invocation | undefined) => void;
}

type Handler = (event: unknown, context: object) => Promise<unknown>;
type Done = (invoked: Invoked) => void;

export interface Invocation {
  readonly id: string;
  readonly event: unknown;
  readonly startedMs: number;
  readonly endsMs: number;
  readonly done: Done;
  isOver: boolean;
}

/** Lambda's limit of INIT. */
const INIT_MS = 10_000;
/** Between an answer and the stop of its process. */
const STOPS_AFTER_MS = 0.5;

export class Environment {
  readonly name: string;
  readonly of: FunctionModel;
  readonly disk: Disk;
  readonly wall: WallClock;
  readonly release: Release;
  process: SimulatedProcess | undefined;
  handler: Handler | undefined;
  invocation: Invocation | undefined;
  isGone = false;
  usedMs = 0;
  #starts = 0;

  constructor(of: FunctionModel, name: string, wall: WallClock, release: Release) {
    this.of = of;
    this.disk = new Disk(of.options.diskBytes);
    this.name = name;
    this.wall = wall;
    this.release = release;
  }

  start(): void {
    const { machine, options, choices } = this.of;
    const about = `lambda ${this.name}`;
    const process = new SimulatedProcess(machine, this.release.evaluate, {
      name: `${this.name}.${++this.#starts}`,
      variables: this.release.variables,
      disk: this.disk,
      wall: this.wall,
      pid: choices.pick(about, [8, 8, 9]),
      ticksWhileStopped: choices.chance(about, 0.5),
    });
    this.process = process;
    this.handler = undefined;
    process.block(choices.between(about, 150, 400));
    process.onEnd.push((how) => this.#ended(process, how));
    process.after(0, () => {
      const loaded = process.programs[options.program]?.();
      void Promise.resolve(loaded)
        .then((module) => module?.['handler'])
        .then(
          (handler) => this.#isReady(handler),
          (error) => process.end(`failed INIT: ${String(error)}`),
        );
    });
    machine.scheduler.after(INIT_MS, undefined, () => {
      if (this.process === process && !this.handler) process.end('INIT took longer than 10 s');
    });
  }

  #isReady(handler: unknown): void {
    if (typeof handler !== 'function') throw new Error('the program has no handler');
    this.handler = (event, context) => handler(event, context);
    this.of.onReady(this);
  }

  run(invocation: Invocation): void {
    const { process, handler } = this;
    if (!process || !handler) return;
    this.invocation = invocation;
    this.usedMs = this.of.machine.scheduler.nowMs;
    process.continue();
    this.of.hooks.onInvoke(this);
    process.after(0.5, () => {
      const endsAt = process.clock.wallMs() + this.of.options.timeoutMs;
      const context = {
        awsRequestId: invocation.id,
        functionName: this.of.options.name,
        getRemainingTimeInMillis: () => Math.max(0, endsAt - process.clock.wallMs()),
      };
      void Promise.resolve()
        .then(() => handler(structuredClone(invocation.event), context))
        .then(
          (answer) =>
            this.#answered(process, invocation, { kind: 'answered', answer: structuredClone(answer) }),
          (error) => this.#answered(process, invocation, { kind: 'failed', error }),
        );
    });
    this.of.machine.scheduler.after(this.of.options.timeoutMs, undefined, () => {
      if (!invocation.isOver) process.end('Task timed out');
    });
  }

  #answered(process: SimulatedProcess, invocation: Invocation, invoked: Invoked): void {
    if (invocation.isOver) return;
    invocation.isOver = true;
    this.of.machine.scheduler.after(STOPS_AFTER_MS, undefined, () => {
      if (process.state === 'ended') return;
      this.of.hooks.onAnswer(this, invocation);
      process.stop();
      this.invocation = undefined;
      this.usedMs = this.of.machine.scheduler.nowMs;
      this.of.onIdle(this);
    });
    this.of.machine.scheduler.after(STOPS_AFTER_MS, undefined, () => invocation.done(invoked));
  }

  #ended(process: SimulatedProcess, how: string): void {
    if (this.process !== process) return;
    const { invocation } = this;
    this.of.hooks.onEnd(this, how, invocation);
    this.process = undefined;
    this.handler = undefined;
    this.invocation = undefined;
    if (invocation && !invocation.isOver) {
      invocation.isOver = true;
      this.of.machine.scheduler.after(1, undefined, () => invocation.done({ kind: 'ended', how }));
    }
    this.of.onProcessEnd(this);
  }
}

export class FunctionModel {
  readonly machine: Machine;
  readonly options: FunctionOptions;
  readonly hooks: LambdaHooks;
  environments: Environment[] = [];
  release: Release;
  readonly #waiting: Invocation[] = [];
  #started = 0;
  #invoked = 0;

  constructor(machine: Machine, options: FunctionOptions, hooks: LambdaHooks) {
    this.machine = machine;
    this.options = options;
    this.hooks = hooks;
    this.release = options.release;
  }

  get choices() {
    return this.machine.choices;
  }

  /** Invocations that run or wait for their environment. */
  get running(): number {
    return this.environments.filter(({ invocation }) => invocation).length + this.#waiting.length;
  }

  get isFull(): boolean {
    return this.running >= this.options.most;
  }

  invoke(event: unknown, done: Done): void {
    if (this.isFull) {
      this.machine.scheduler.after(5, undefined, () => done({ kind: 'throttled' }));
      return;
    }
    const { nowMs } = this.machine.scheduler;
    const invocation: Invocation = {
      id: `${this.options.name}-invocation-${++this.#invoked}`,
      event,
      startedMs: nowMs,
      endsMs: nowMs + this.options.timeoutMs,
      done,
      isOver: false,
    };
    this.#waiting.push(invocation);
    const idle = this.environments.filter((one) => one.handler && !one.invocation);
    const [found] = this.choices.shuffled(`lambda ${this.options.name}`, idle);
    if (found) this.onReady(found);
    else this.#startOne();
  }

  #startOne(): void {
    const dead = this.environments.find(({ process }) => !process);
    if (dead) return dead.start();
    const starting = this.environments.filter(({ handler, process }) => process && !handler).length;
    if (starting >= this.#waiting.length) return;
    const name = `${this.options.name}-${++this.#started}`;
    const skewMs = this.choices.between(`clock ${name}`, -400, 400);
    const environment = new Environment(this, name, { offsetMs: skewMs }, this.release);
    this.environments.push(environment);
    this.hooks.onStart(environment);
    environment.start();
  }

  onReady(environment: Environment): void {
    const next = this.#waiting.shift();
    if (next) environment.run({ ...next, startedMs: this.machine.scheduler.nowMs });
    else environment.process?.stop();
  }

  onIdle(environment: Environment): void {
    if (this.#waiting.length > 0) return this.onReady(environment);
    const { usedMs } = environment;
    const idleMs = this.choices.between(`idle ${this.options.name}`, 240_000, 1_200_000);
    this.machine.scheduler.after(idleMs, undefined, () => {
      if (!environment.invocation && environment.usedMs === usedMs) this.reap(environment);
    });
  }

  /** Lambda no longer needs it. */
  reap(environment: Environment): void {
    this.environments = this.environments.filter((one) => one !== environment);
    environment.isGone = true;
    environment.process?.end('reaped');
  }

  onProcessEnd(environment: Environment): void {
    if (environment.isGone) this.environments = this.environments.filter((one) => one !== environment);
    if (this.#waiting.length > 0) this.#startOne();
  }
}
