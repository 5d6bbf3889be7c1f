/**
 * Captures requests and records of the queue with their answers: a share of them, drawn by a hash of their ids, so that each is captured
 * whole or not at all. What is held is stored while a later request is served, and only the answer of that one may wait for it. What
 * cannot be stored is lost, and counted.
 */
import { createHash } from 'node:crypto';
import { captureLine } from '../codecs/capture/write.ts';
import { type CaptureForm, type CaptureSettings, MOST_LINE } from '../contract/capture.ts';
import { asError, ServingError } from '../contract/errors.ts';
import { logWarning } from '../contract/log.ts';
import type { Fact, Observer } from '../pipeline/observer.ts';

/** Lines of one version of a model. */
export interface CapturedLines {
  /** The name of a further model; undefined for the job's own. */
  readonly model: string | undefined;
  readonly version: string;
  readonly lines: readonly string[];
  /** Requests and records that were lost so far. */
  readonly lost: number;
}

interface CaptureOptions extends CaptureSettings {
  /** Stores lines. */
  readonly put: (captured: CapturedLines) => Promise<void>;
  /** Called with how many requests and records are lost now. */
  readonly onLost: (records: number) => void;
  /** Wall clock in ms. */
  readonly now: () => number;
  /** True: the process is frozen between events, and may be ended then. */
  readonly isFrozen: boolean;
}

/** The most lines that an environment loses when it ends, and the age from which they are stored. */
const MOST_LOST = 64;
const LONGEST_MS = 60_000;
/** The age where a timer runs: it is short because people of a single machine look at once. */
const TIMER_MS = 2_000;
/** Half of them, because others arrive while these are being stored. */
const DUE_LINES = MOST_LOST / 2;
/** Characters that are held. */
const MOST_HELD = 4 * MOST_LINE;
const PUTS_AT_ONCE = 8;

type HeldLines = Pick<CapturedLines, 'model' | 'version'> & { readonly lines: string[] };

export class Capture implements Observer {
  readonly #options: CaptureOptions;
  /** By model and version, the oldest first. */
  #held = new Map<string, HeldLines>();
  #lines = 0;
  #characters = 0;
  /** When the oldest of them was held. */
  #sinceMs = 0;
  #storing: Promise<void> | undefined;
  #storingLines = 0;
  #isQueue = false;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: CaptureOptions) {
    this.#options = options;
    if (!options.isFrozen) this.#timer = setInterval(() => void this.#storeIfDue(), TIMER_MS).unref();
  }

  /** @param name of the further model that answered. Default: the job's own */
  recordsAnswered(fact: Fact<'recordsAnswered'>, name?: string): void {
    const { source, model: version, traceId, policy, records, outcomes } = fact;
    const { share, failures, now } = this.#options;
    const id = fact.id();
    if (!isDrawn(id, share)) return;
    const error = outcomes instanceof ServingError ? outcomes : outcomes.find((one) => !one.ok)?.error;
    // The client left, or it comes again: neither is an answer.
    if (error && (!failures || error.retryable || error.code === 'cancelled')) return;
    const form = formOf(policy);
    const facts = { at: now(), source, id, traceId, form, error: error?.code };
    const answered = outcomes instanceof ServingError ? undefined : outcomes;
    const line = captureLine(facts, records, answered, this.#options);
    if (this.#hasRoomFor(line)) this.#hold(name, version, line);
    else this.#lose(1, 'captures are stored too slowly');
    if (!this.#options.isFrozen) void this.#storeIfDue();
  }

  functionCalled({ messages }: Fact<'functionCalled'>): void {
    this.#isQueue = messages !== undefined;
    void this.#storeIfDue();
  }

  /** Nothing is under way when a process is frozen. An event of the queue also waits for what is due after it. */
  flush(): Promise<void> | undefined {
    if (!this.#options.isFrozen) return undefined;
    return this.#isQueue ? this.#storeIfDue() : this.#storing;
  }

  /** Stores what is held. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#storing;
    await this.#store();
  }

  #hasRoomFor(line: string): boolean {
    const isLate = this.#options.isFrozen && !this.#isQueue && this.#lines + this.#storingLines >= MOST_LOST;
    return line.length <= MOST_LINE && this.#characters + line.length <= MOST_HELD && !isLate;
  }

  #hold(model: string | undefined, version: string, line: string): void {
    if (this.#lines === 0) this.#sinceMs = this.#options.now();
    const key = `${model ?? ''} ${version}`;
    const held = this.#held.get(key) ?? { model, version, lines: [] };
    held.lines.push(line);
    this.#held.set(key, held);
    this.#lines++;
    this.#characters += line.length;
  }

  /** @returns undefined when nothing is due */
  #storeIfDue(): Promise<void> | undefined {
    if (this.#storing) return this.#storing;
    const longestMs = this.#options.isFrozen ? LONGEST_MS : TIMER_MS;
    const isOld = this.#lines > 0 && this.#options.now() - this.#sinceMs >= longestMs;
    return this.#lines >= DUE_LINES || isOld ? this.#store() : undefined;
  }

  #store(): Promise<void> {
    const held = this.#held;
    this.#held = new Map();
    this.#storingLines = this.#lines;
    this.#lines = 0;
    this.#characters = 0;
    this.#storing = this.#putAll(held).finally(() => {
      this.#storing = undefined;
      this.#storingLines = 0;
    });
    return this.#storing;
  }

  /** An object each, some at a time: one after the other, those of many models would take seconds. */
  async #putAll(held: ReadonlyMap<string, HeldLines>): Promise<void> {
    const all = [...held.values()];
    while (all.length > 0) {
      const puts = all.splice(0, PUTS_AT_ONCE).map(async (each) => {
        try {
          await this.#options.put({ ...each, lost: this.#lost });
        } catch (error) {
          this.#lose(each.lines.length, asError(error).message);
        }
      });
      await Promise.all(puts);
    }
  }

  #lose(lines: number, why: string): void {
    const before = this.#lost;
    this.#lost += lines;
    this.#options.onLost(lines);
    // At 1, 2, 4, 8 …
    if (Math.floor(Math.log2(this.#lost)) !== Math.floor(Math.log2(before)))
      logWarning(`requests and records were not captured: ${why}`, { lost: this.#lost });
  }
}

/** True for the same share of ids wherever they are asked. */
export function isDrawn(id: string, share: number): boolean {
  if (share >= 1) return true;
  return createHash('sha256').update(id).digest().readUInt32BE(0) / 2 ** 32 < share;
}

function formOf({ exactSignature, isRow }: Fact<'recordsAnswered'>['policy']): CaptureForm | undefined {
  if (exactSignature) return 'exact';
  return isRow ? 'row' : undefined;
}
