/** The place of what captures requests and records (capture.ts), which only functions that run a model load and fill. */
import { leave } from '../contract/under-way.ts';
import type { Capture } from '../observe/capture.ts';
import type { Fact, Observer } from '../pipeline/observer.ts';

/** Passes events on once it is filled: the first ones are not captured. */
export class CaptureSlot implements Observer {
  opening: Promise<Capture> | undefined;
  #opened: Capture | undefined;

  /** Loads the code, beside what else opens. */
  fill(opening: Promise<Capture>): void {
    this.opening = opening;
    leave(opening.then((opened) => (this.#opened = opened)));
  }

  recordsAnswered(answered: Fact<'recordsAnswered'>, model?: string): void {
    this.#opened?.recordsAnswered(answered, model);
  }

  /** Captures the answers of a further model. The slot itself observes calls and flushes. */
  ofModel(name: string): Observer {
    return { recordsAnswered: (answered) => this.recordsAnswered(answered, name) };
  }

  functionCalled(call: Fact<'functionCalled'>): void {
    this.#opened?.functionCalled(call);
  }

  flush(): Promise<void> | undefined {
    return this.#opened?.flush();
  }

  /** Stores what is held. */
  async close(): Promise<void> {
    await (await this.opening)?.close();
  }
}

export function captureSlot(): CaptureSlot {
  return new CaptureSlot();
}
