/**
 * ioredis, evaluated once: its code always runs for the process whose event is happening, and reaches that process' clocks
 * and connections.
 */
import { createRequire } from 'node:module';
import { bundleShared } from './bundle.ts';
import type { SimulatedProcess } from './process.ts';

const realRequire = createRequire(import.meta.url);
const REACHES: ReadonlySet<string> = new Set(['net', 'tls', 'dns', 'tty', 'crypto']);

export class SharedClient {
  /** The module `ioredis`. */
  readonly module: unknown;
  current: () => SimulatedProcess = () => {
    throw new Error('no process runs');
  };

  private constructor(define: (...passed: unknown[]) => unknown) {
    const clock = () => this.current().clock;
    const forward = (name: 'setTimeout' | 'setInterval' | 'setImmediate') => (call: () => void, ms: number) =>
      clock()[name](call, ms);
    const clear = (timer: { close?(): void } | undefined) => timer?.close?.();
    const performance = { now: () => clock().runningMs() };
    const dateNow = () => clock().wallMs();
    const CurrentDate = class extends Date {
      static override now = dateNow;
    };
    this.module = define(
      (name: string) => this.#require(name.replace(/^node:/, '')),
      {
        env: {},
        nextTick: (call: () => void, ...args: []) => process.nextTick(call, ...args),
        stderr: {},
        versions: process.versions,
        version: process.version,
        emitWarning: () => undefined,
      },
      CurrentDate,
      Object.assign(Object.create(Math), {
        random: () => this.current().machine.choices.next(`random ${this.current().name}`),
      }),
      performance,
      forward('setTimeout'),
      clear,
      forward('setInterval'),
      clear,
      forward('setImmediate'),
      clear,
      crypto,
      fetch,
      AbortSignal,
      console,
    );
  }

  static async open(): Promise<SharedClient> {
    return new SharedClient(await bundleShared());
  }

  #require(name: string): unknown {
    if (!REACHES.has(name)) return realRequire(`node:${name}`);
    if (name === 'tty') return { isatty: () => false };
    if (name === 'crypto') return { createHash: Reflect.get(realRequire('node:crypto'), 'createHash') };
    const forward =
      (call: string) =>
      (...args: unknown[]) =>
        Reflect.get(Object(this.current().require(name)), call)(...args);
    return {
      createConnection: forward('createConnection'),
      connect: forward('connect'),
      isIPv6: () => false,
      isIP: forward('isIP'),
    };
  }
}
