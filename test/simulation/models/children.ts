/** `child_process.fork`: the isolated process of a model, with the four messages that its parent and it exchange. */
import { EventEmitter } from 'node:events';
import { type Machine, SimulatedProcess } from '../machine/process.ts';

/** Ms for one message. */
const MESSAGE_MS = 0.2;

class ChildHandle extends EventEmitter {
  readonly #parent: SimulatedProcess;
  readonly #child: SimulatedProcess;
  connected = true;
  exitCode: number | null = null;
  signalCode: string | null = null;
  readonly channel = { ref: () => undefined, unref: () => undefined };

  constructor(parent: SimulatedProcess, child: SimulatedProcess) {
    super();
    this.#parent = parent;
    this.#child = child;
    child.onEnd.push((how) => parent.after(MESSAGE_MS, () => this.#ended(how)));
  }

  get pid(): number {
    return this.#child.pid;
  }

  ref(): void {}

  unref(): void {}

  send(message: unknown, done?: (error: Error | null) => void): boolean {
    const copy = structuredClone(message);
    this.#child.after(MESSAGE_MS, () => this.#child.process.emit('message', copy));
    if (done) this.#parent.after(0, () => done(null));
    return true;
  }

  kill(signal = 'SIGTERM'): boolean {
    this.#parent.machine.scheduler.after(MESSAGE_MS, undefined, () => this.#child.end(signal));
    return true;
  }

  #ended(how: string): void {
    this.connected = false;
    const [, code] = /^exit code (\d+)$/.exec(how) ?? [];
    if (code === undefined) this.signalCode = how;
    else this.exitCode = Number(code);
    this.emit('exit', this.exitCode, this.signalCode);
  }
}

export interface ChildOptions {
  readonly machine: Machine;
  /** Ms until a process listens. */
  readonly startMs: (parent: SimulatedProcess) => number;
}

/** The module `child_process`. */
export function childModule(parent: SimulatedProcess, { machine, startMs }: ChildOptions) {
  let count = 0;
  return {
    fork() {
      const child = new SimulatedProcess(machine, parent.evaluate, {
        ...parent.options,
        name: `${parent.name}/isolated-${++count}`,
        pid: parent.pid * 100 + count,
        parent,
      });
      child.block(startMs(parent));
      const send = (message: unknown) => {
        const copy = structuredClone(message);
        parent.after(MESSAGE_MS, () => handle.emit('message', copy));
        return true;
      };
      Object.assign(child.process, { send });
      const handle = new ChildHandle(parent, child);
      child.after(0, () => void child.programs['isolated']?.());
      return handle;
    },
  };
}
