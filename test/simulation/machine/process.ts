/**
 * A process: its own modules, clocks, randomness, disk and connections, and everything that it can reach. It can be stopped
 * and continued, and ended at any moment between two of its events.
 */
import crypto from 'node:crypto';
import { EventEmitter } from 'node:events';
import { createRequire } from 'node:module';
import type { Evaluate, Programs } from './bundle.ts';
import { abortSignals, ProcessClock, type WallClock } from './clock.ts';
import type { Disk } from './disk.ts';
import type { Network } from './network.ts';
import type { Choices } from './random.ts';
import type { Event, Owner, Scheduler } from './scheduler.ts';

export interface Machine {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly choices: Choices;
  /** The modules that stand for what is modelled, by name, for this process. */
  readonly modules: (process: SimulatedProcess) => Readonly<Record<string, () => unknown>>;
  /** `fetch` of this process. */
  readonly fetchOf: (process: SimulatedProcess) => typeof fetch;
  /** A line that it prints. */
  readonly onLine: (process: SimulatedProcess, line: string) => void;
}

export interface ProcessOptions {
  readonly name: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly disk: Disk;
  readonly wall: WallClock;
  readonly pid: number;
  readonly parent?: SimulatedProcess;
  /** False: its clocks stand still while it is stopped. */
  readonly ticksWhileStopped?: boolean;
  /** Its intervals are so many times longer: what a server does over and over for itself would be most of a history's events. */
  readonly intervalFactor?: number;
}

const realRequire = createRequire(import.meta.url);
/** Modules of Node that reach nothing outside: a program has the real ones. */
const PURE: ReadonlySet<string> = new Set([
  'assert',
  'async_hooks',
  'buffer',
  'diagnostics_channel',
  'events',
  'module',
  'path',
  'querystring',
  'readline',
  'stream',
  'stream/promises',
  'string_decoder',
  'url',
  'util',
  'zlib',
]);

export class SimulatedProcess implements Owner {
  readonly name: string;
  readonly pid: number;
  readonly machine: Machine;
  readonly clock: ProcessClock;
  readonly disk: Disk;
  readonly options: ProcessOptions;
  /** Its code, which its children have too. */
  readonly evaluate: Evaluate;
  readonly kept: Event[] = [];
  state: 'runs' | 'stopped' | 'ended' = 'runs';
  busyUntil = 0;
  /** Calls to services without an answer, by what they are. */
  readonly asked = new Set<string>();
  askedCount = 0;
  readonly children = new Set<SimulatedProcess>();
  readonly onEnd: ((how: string) => void)[] = [];
  readonly process: EventEmitter;
  /** How often it was stopped. */
  stops = 0;
  readonly programs: Programs;
  readonly require: (name: string) => unknown;
  #stoppedAt = 0;
  #uuids = 0;

  constructor(machine: Machine, evaluate: Evaluate, options: ProcessOptions) {
    this.machine = machine;
    this.evaluate = evaluate;
    this.options = options;
    this.name = options.name;
    this.pid = options.pid;
    this.disk = options.disk;
    this.clock = new ProcessClock(machine.scheduler, this, options.wall);
    this.process = this.#process();
    this.require = this.#require();
    options.parent?.children.add(this);
    this.programs = evaluate(...this.#passed());
  }

  /** Its thread does nothing else for so long. */
  block(ms: number): void {
    this.busyUntil = Math.max(this.busyUntil, this.machine.scheduler.nowMs) + ms;
  }

  /** Something that happens to it after a while. */
  after(ms: number, run: () => void): Event {
    return this.machine.scheduler.after(ms, this, run);
  }

  stop(): void {
    if (this.state !== 'runs') return;
    this.state = 'stopped';
    this.stops++;
    this.#stoppedAt = this.machine.scheduler.nowMs;
    for (const child of this.children) child.stop();
  }

  continue(): void {
    if (this.state !== 'stopped') return;
    this.state = 'runs';
    if (this.options.ticksWhileStopped === false)
      this.clock.stoodStillMs += this.machine.scheduler.nowMs - this.#stoppedAt;
    // Work of its thread stood still too.
    if (this.busyUntil > this.#stoppedAt) this.busyUntil += this.machine.scheduler.nowMs - this.#stoppedAt;
    this.machine.scheduler.release(this);
    for (const child of this.children) child.continue();
  }

  end(how: string): void {
    if (this.state === 'ended') return;
    this.state = 'ended';
    this.kept.length = 0;
    this.options.parent?.children.delete(this);
    this.machine.network.closeAll(this);
    for (const child of this.children) child.end('its parent ended');
    for (const tell of this.onEnd) tell(how);
  }

  uuid(): string {
    const hex = crypto
      .createHash('md5')
      .update(`${this.name} ${this.#uuids++} ${this.machine.choices.next(`uuid ${this.name}`)}`)
      .digest('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
  }

  #random(): number {
    return this.machine.choices.next(`random ${this.name}`);
  }

  #bytes(size: number): Buffer {
    return Buffer.from(Array.from({ length: size }, () => Math.floor(this.#random() * 256)));
  }

  #process(): EventEmitter {
    const { clock, machine } = this;
    const write = (line: unknown) => {
      machine.onLine(this, String(line).trimEnd());
      return true;
    };
    return Object.assign(new EventEmitter(), {
      env: { ...this.options.variables },
      pid: this.pid,
      ppid: this.options.parent?.pid ?? 1,
      platform: 'linux',
      arch: 'x64',
      argv: ['node', 'program'],
      execArgv: [],
      version: process.version,
      versions: process.versions,
      release: process.release,
      stdout: { write, isTTY: false },
      stderr: { write, isTTY: false },
      cwd: () => '/var/task',
      uptime: () => clock.runningMs() / 1000,
      hrtime: Object.assign(() => hrtime(clock.runningMs()), {
        bigint: () => BigInt(Math.round(clock.runningMs() * 1e6)),
      }),
      memoryUsage: Object.assign(() => ({ heapUsed: 1e7, rss: 1e8 }), { rss: () => 1e8 }),
      nextTick: (call: () => void, ...args: []) => process.nextTick(call, ...args),
      emitWarning: () => undefined,
      exit: (code = 0) => this.after(0, () => this.end(`exit code ${code}`)),
      kill: (pid: number, signal: string | number) => this.#kill(pid, signal),
    });
  }

  #kill(pid: number, signal: string | number): boolean {
    if (pid === this.pid) {
      if (signal !== 0) this.end(String(signal));
      return true;
    }
    throw Object.assign(new Error('kill ESRCH'), { code: 'ESRCH' });
  }

  #passed(): unknown[] {
    const { clock } = this;
    const math = Object.create(Math);
    math.random = () => this.#random();
    const performance = { now: () => clock.runningMs(), timeOrigin: clock.wallMs() };
    const console = {
      log: () => undefined,
      warn: () => undefined,
      error: () => undefined,
      info: () => undefined,
    };
    return [
      this.require,
      this.process,
      clock.Date,
      math,
      performance,
      clock.setTimeout,
      clock.clear,
      (call: () => void, ms = 0) => clock.setInterval(call, ms * (this.options.intervalFactor ?? 1)),
      clock.clear,
      clock.setImmediate,
      clock.clear,
      this.#webCrypto(),
      this.machine.fetchOf(this),
      abortSignals(clock),
      console,
    ];
  }

  #webCrypto() {
    return {
      randomUUID: () => this.uuid(),
      getRandomValues: (into: Uint8Array) => {
        into.set(this.#bytes(into.length));
        return into;
      },
      subtle: {
        digest: async (_name: string, bytes: Uint8Array) =>
          Uint8Array.from(crypto.createHash('sha256').update(bytes).digest()).buffer,
      },
    };
  }

  #require(): (name: string) => unknown {
    const { clock, disk } = this;
    const made = new Map<string, unknown>();
    const makers: Readonly<Record<string, () => unknown>> = {
      crypto: () => ({
        createHash: crypto.createHash,
        createHmac: crypto.createHmac,
        timingSafeEqual: crypto.timingSafeEqual,
        randomUUID: () => this.uuid(),
        randomBytes: (size: number) => this.#bytes(size),
        webcrypto: this.#webCrypto(),
      }),
      fs: () => disk.fs,
      'fs/promises': () => disk.promises,
      os: () => ({
        tmpdir: () => '/tmp',
        hostname: () => this.name,
        homedir: () => '/root',
        cpus: () => [{}],
        EOL: '\n',
      }),
      perf_hooks: () => ({ performance: { now: () => clock.runningMs() } }),
      timers: () => ({
        setTimeout: clock.setTimeout,
        setInterval: clock.setInterval,
        setImmediate: clock.setImmediate,
      }),
      'timers/promises': () => ({ setTimeout: clock.delay, setImmediate: clock.immediately }),
      worker_threads: () => ({ Worker: NoThread, isMainThread: true }),
      dns: () => ({}),
      tty: () => ({ isatty: () => false }),
      ...this.machine.modules(this),
    };
    return (given) => {
      const name = given.replace(/^node:/, '');
      const maker = makers[name];
      if (!maker && PURE.has(name)) return realRequire(`node:${name}`);
      if (!maker) throw new Error(`the simulation has no ${name}`);
      if (!made.has(name)) made.set(name, maker());
      return made.get(name);
    };
  }
}

/** The thread that watches for the end of the parent: here the parent ends its children itself. */
class NoThread {
  unref(): void {}
}

function hrtime(ms: number): [number, number] {
  return [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)];
}
