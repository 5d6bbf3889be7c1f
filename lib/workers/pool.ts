/**
 * Processes that each run one batch at a time. One that ends is started again after a pause; one that leaves, because the
 * pool shrinks or it has run its number of batches, finishes its batch first.
 */
import { modelUnavailable } from '../contract/errors.ts';
import type { Clock } from '../pipeline/batch/batcher.ts';
import { afterAwake } from './awake.ts';

/** A process of the pool. */
export interface Pooled {
  /** How it ended. Never rejects. */
  readonly ended: Promise<string>;
  retire(limitMs: number): Promise<void>;
  kill(why: string): void;
}

export interface PoolOptions<P extends Pooled> {
  readonly size: number;
  /** Starts the process of a place. */
  readonly start: (place: number) => P;
  /** Resolves when the process can run. @throws the reason why it never will */
  readonly ready: (process: P, place: number) => Promise<void>;
  /** How long a process may take to get ready, in ms. */
  readonly startTimeoutMs: number;
  /** Batches after which a process is replaced; 0: never. */
  readonly maxBatches: number;
  readonly clock: Clock;
  /** Called for each process that ended by itself or did not start. */
  readonly onCrash: (reason: string, place: number) => void;
}

type State = 'starting' | 'idle' | 'busy' | 'retiring' | 'paused';

interface Place<P> {
  readonly number: number;
  state: State;
  process: P | undefined;
  batches: number;
  /** Ends in a row without a completed batch. */
  failures: number;
  /** Retires after its batch and is not started again. */
  isLeaving: boolean;
  stopPause: (() => void) | undefined;
}

/** Work that waits for a process. */
interface Waiting<P> {
  readonly take: (place: Place<P>) => void;
  readonly refuse: (error: Error) => void;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 30_000;
const RETIRE_MS = 5_000;

/** The pause before the next start, after `failures` ends in a row. */
export function pauseMs(failures: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1));
}

export class Pool<P extends Pooled> {
  readonly #options: PoolOptions<P>;
  readonly #places: Place<P>[] = [];
  readonly #waiting: Waiting<P>[] = [];
  readonly #retiring = new Set<Promise<void>>();
  #closed = false;
  #busySinceMs: number;
  #busyMs = 0;
  #busy = 0;
  /** Called when a process could run a batch. */
  onFree: () => void = () => undefined;

  constructor(options: PoolOptions<P>) {
    this.#options = options;
    this.#busySinceMs = options.clock.now();
  }

  /**
   * Starts the processes. @throws the reason of the first that does not get ready; all have ended then
   * @param oneFirst whether the others wait for the first, so that a reason that all have is reported once
   */
  async open(oneFirst = false): Promise<void> {
    try {
      if (oneFirst) await this.#add();
      if (this.#closed) throw modelUnavailable('the workers are stopping');
      const rest = this.#options.size - this.#places.length;
      await Promise.all(Array.from({ length: rest }, () => this.#add()));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** Batches that could start now. */
  get free(): number {
    return this.#closed ? 0 : this.#count('idle');
  }

  /** Processes that are ready. */
  get ready(): number {
    return this.#count('idle') + this.#count('busy');
  }

  get size(): number {
    return this.#places.filter(({ isLeaving }) => !isLeaving).length;
  }

  /** The time that all processes together have worked, in ms. */
  get busyMs(): number {
    return this.#busyMs + this.#busy * (this.#options.clock.now() - this.#busySinceMs);
  }

  /** Runs work in a process that is free, or gets free or ready later. @throws model_unavailable when the pool closes */
  async use<T>(work: (process: P) => Promise<T>): Promise<T> {
    const place = await this.#take();
    const process = place.process as P;
    try {
      const result = await work(process);
      place.failures = 0;
      return result;
    } finally {
      this.#release(place);
    }
  }

  /** Ends the processes that run a batch. */
  endBusy(why: string): void {
    for (const { state, process } of this.#places) if (state === 'busy') process?.kill(why);
  }

  /** Grows at once; shrinks when processes have finished their batches. */
  resize(size: number): void {
    while (this.size < size) this.#add().catch(() => undefined);
    const staying = this.#places.filter(({ isLeaving }) => !isLeaving);
    for (const place of staying.slice(size)) {
      place.isLeaving = true;
      if (place.state === 'idle' || place.state === 'paused') this.#leave(place);
    }
  }

  /** Ends all processes when their batches are finished, at the latest after `limitMs`. */
  async close(limitMs = LONGEST_PAUSE_MS): Promise<void> {
    this.#closed = true;
    const stop = this.#options.clock.after(limitMs, () => {
      for (const { process } of this.#places) process?.kill(`was still busy ${limitMs} ms after the stop`);
    });
    for (const { refuse } of this.#waiting.splice(0)) refuse(modelUnavailable('the workers are stopping'));
    // A copy: leaving takes a place without a process out of the list.
    for (const place of this.#places.slice()) {
      place.isLeaving = true;
      if (place.state === 'starting') place.process?.kill('it is not needed any more');
      if (place.state === 'idle' || place.state === 'paused') this.#leave(place);
    }
    while (this.#retiring.size > 0) await Promise.all(this.#retiring);
    stop();
  }

  #count(state: State): number {
    return this.#places.filter((place) => place.state === state).length;
  }

  #take(): Promise<Place<P>> {
    const idle = this.#places.find(({ state }) => state === 'idle');
    if (this.#closed) return Promise.reject(modelUnavailable('the workers are stopping'));
    if (idle) {
      this.#setState(idle, 'busy');
      return Promise.resolve(idle);
    }
    const { clock, startTimeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const stop = clock.after(startTimeoutMs, () => {
        this.#waiting.splice(this.#waiting.indexOf(entry), 1);
        reject(modelUnavailable(`no worker was ready within ${startTimeoutMs} ms`));
      });
      const entry: Waiting<P> = {
        take: (place) => {
          stop();
          resolve(place);
        },
        refuse: (error) => {
          stop();
          reject(error);
        },
      };
      this.#waiting.push(entry);
    });
  }

  #release(place: Place<P>): void {
    const { maxBatches } = this.#options;
    place.batches++;
    // It has ended meanwhile, or is being replaced.
    if (place.state !== 'busy') return;
    if (place.isLeaving) this.#leave(place);
    else if (maxBatches > 0 && place.batches >= maxBatches) this.#replace(place);
    else this.#offer(place);
  }

  #offer(place: Place<P>): void {
    const [next] = this.#waiting.splice(0, 1);
    this.#setState(place, next ? 'busy' : 'idle');
    if (next) next.take(place);
    else this.onFree();
  }

  #add(): Promise<void> {
    const used = new Set(this.#places.map(({ number }) => number));
    let number = 0;
    while (used.has(number)) number++;
    const place: Place<P> = {
      number,
      state: 'paused',
      process: undefined,
      batches: 0,
      failures: 0,
      isLeaving: false,
      stopPause: undefined,
    };
    this.#places.push(place);
    return this.#start(place);
  }

  async #start(place: Place<P>): Promise<void> {
    const { start, ready, startTimeoutMs, clock } = this.#options;
    this.#setState(place, 'starting');
    const process = start(place.number);
    place.process = process;
    place.batches = 0;
    const stop = afterAwake(clock, startTimeoutMs, () => {
      process.kill(`was not ready within ${startTimeoutMs} ms`);
    });
    const ending = process.ended.then((how) => this.#ended(place, process, how));
    this.#retiring.add(ending);
    void ending.then(() => this.#retiring.delete(ending));
    try {
      await ready(process, place.number);
    } catch (error) {
      process.kill('its start failed');
      await ending;
      throw error;
    } finally {
      stop();
    }
    if (place.process !== process) return;
    if (place.isLeaving) this.#leave(place);
    else this.#offer(place);
  }

  /** @param how in words */
  #ended(place: Place<P>, process: P, how: string): void {
    if (place.process !== process) return;
    place.process = undefined;
    if (place.isLeaving) {
      this.#setState(place, 'paused');
      this.#places.splice(this.#places.indexOf(place), 1);
      return;
    }
    place.failures++;
    this.#options.onCrash(how, place.number);
    this.#setState(place, 'paused');
    place.stopPause = this.#options.clock.after(pauseMs(place.failures), () => {
      // Its end is reported by onCrash, and the next pause is longer.
      this.#start(place).catch(() => undefined);
    });
  }

  #leave(place: Place<P>): void {
    place.stopPause?.();
    if (!place.process) {
      this.#places.splice(this.#places.indexOf(place), 1);
      return;
    }
    this.#setState(place, 'retiring');
    void place.process.retire(RETIRE_MS);
  }

  /** Lets the process retire, and starts another one in its place. */
  #replace(place: Place<P>): void {
    const { process } = place;
    place.process = undefined;
    void process?.retire(RETIRE_MS);
    this.#start(place).catch(() => undefined);
  }

  #setState(place: Place<P>, state: State): void {
    this.#busyMs = this.busyMs;
    this.#busySinceMs = this.#options.clock.now();
    if (place.state === 'busy') this.#busy--;
    if (state === 'busy') this.#busy++;
    place.state = state;
  }
}
