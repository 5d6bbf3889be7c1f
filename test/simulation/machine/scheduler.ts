/**
 * Virtual time: one queue of events, each of one process or of the world around. After an event everything that follows
 * from it without waiting (promises, ticks) has run before the next begins, so that the order of all is that of this queue.
 */

/** A process, as far as its events go. */
export interface Owner {
  readonly name: string;
  /** `stopped` keeps its events until it continues, `ended` loses them. */
  readonly state: 'runs' | 'stopped' | 'ended';
  /** The JS thread is busy until then. */
  readonly busyUntil: number;
  /** Events that came while it was stopped. */
  readonly kept: Event[];
}

export interface Event {
  at: number;
  order: number;
  readonly owner: Owner | undefined;
  readonly run: () => void;
  isCancelled: boolean;
}

export interface SchedulerHooks {
  /** An error that nobody caught, which ends a process. */
  readonly onUncaught: (owner: Owner | undefined, error: unknown) => void;
}

const turn = setImmediate;

export class Scheduler {
  nowMs = 0;
  /** The process whose code runs now. */
  current: Owner | undefined;
  ran = 0;
  readonly #heap: Event[] = [];
  readonly #hooks: SchedulerHooks;
  #order = 0;

  constructor(hooks: SchedulerHooks) {
    this.#hooks = hooks;
  }

  /** @param isFirst before what else happens to the owner at that time */
  after(ms: number, owner: Owner | undefined, run: () => void, isFirst = false): Event {
    const order = this.#order++ - (isFirst ? 2 ** 40 : 0);
    const event: Event = { at: this.nowMs + Math.max(0, ms), order, owner, run, isCancelled: false };
    this.#push(event);
    return event;
  }

  /** The process continues: what was kept happens now, in its order. */
  release(owner: Owner): void {
    for (const event of owner.kept.splice(0)) {
      event.at = this.nowMs;
      this.#push(event);
    }
  }

  /** Runs until the time, or until `isOver` says so. */
  async run(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    const onRejection = (error: unknown) => this.#hooks.onUncaught(this.current, error);
    process.on('unhandledRejection', onRejection);
    try {
      for (let event = this.#heap[0]; event && event.at <= untilMs && !isOver(); event = this.#heap[0]) {
        this.#pop();
        if (!event.isCancelled) await this.#happen(event);
      }
      this.nowMs = Math.max(this.nowMs, untilMs);
    } finally {
      process.off('unhandledRejection', onRejection);
    }
  }

  async #happen(event: Event): Promise<void> {
    const { owner } = event;
    if (owner?.state === 'ended') return;
    if (owner?.state === 'stopped' || owner?.busyUntil === Number.POSITIVE_INFINITY) {
      owner.kept.push(event);
      return;
    }
    if (owner && owner.busyUntil > event.at) {
      event.at = owner.busyUntil;
      this.#push(event);
      return;
    }
    this.nowMs = Math.max(this.nowMs, event.at);
    this.ran++;
    this.current = owner;
    try {
      event.run();
    } catch (error) {
      this.#hooks.onUncaught(owner, error);
    }
    // Ticks and promises run before the loop's next phase, so nothing of this event is left afterwards.
    await new Promise((resolve) => turn(resolve));
    this.current = undefined;
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (!above || !isBefore(event, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const [left, right] = [heap[child], heap[child + 1]];
      if (!left) break;
      const least = right && isBefore(right, left) ? right : left;
      if (least === right) child++;
      if (!isBefore(least, last)) break;
      heap[at] = least;
      at = child;
    }
    heap[at] = last;
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
