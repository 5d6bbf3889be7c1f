/**
 * Sends notices to their targets. An event holds messages of S3, each of which names an object of the outbox, and notices that
 * come again. What cannot be delivered is sent to the queue again, with a delay, for a day; then to its dead-letter queue. An
 * object of the outbox is removed when each of its notices was delivered or is in a queue, so a crash repeats notices and loses none.
 */
import type { SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { logError, logLine, logWarning } from '../contract/log.ts';
import type { Notice } from '../contract/notice.ts';
import { elementAt } from '../contract/present.ts';
import { deadlineOf, type InvocationClock } from '../pipeline/deadline.ts';
import { encodeObjectEvent, encodeParcel, type Parcel, readParcels } from './parcels.ts';
import type { Delivery } from './webhook.ts';

export interface Outbox {
  /** @returns undefined for an object that is gone: its notices were sent. */
  read(key: string): Promise<readonly Notice[] | undefined>;
  remove(keys: readonly string[]): Promise<void>;
  /** Its objects. */
  pages(): AsyncIterable<readonly WaitingObject[]>;
}

interface WaitingObject {
  readonly key: string;
  /** In ms since 1970. */
  readonly modifiedAt: number;
}

/** Targets that asked to be called no more. */
export interface Pauses {
  isPaused(target: string): Promise<boolean>;
  pause(target: string, reason: string): Promise<void>;
}

export interface NotifierDeps {
  readonly outbox: Outbox;
  readonly pauses: Pauses;
  /** Sends one notice to its target. Never throws. */
  readonly deliver: (notice: Notice) => Promise<Delivery>;
  /** Puts a message into the notifier's own queue. */
  readonly sendLater: (message: string, delaySeconds: number) => Promise<void>;
  /** Puts a message into the dead-letter queue of that queue. */
  readonly giveUp: (message: string) => Promise<void>;
  /** Called for a notice whose task has ended. */
  readonly onDropped?: ((target: string) => void) | undefined;
  /** Wall clock, in ms. */
  readonly now: () => number;
  /** From 0 to 1. */
  readonly random: () => number;
}

/** Calls at the same time. */
const TOGETHER = 16;
/** A call, and what follows it. */
const CALL_MS = 10_000;
/** Failures of one target in a row after which the rest of its notices wait without a call. */
const MOST_AWAY = 5;
/** An object that is still there then is put into the queue again. */
const FORGOTTEN_MS = 600_000;
/** In one look; the next one is after 15 minutes. */
const MOST_FORGOTTEN = 1_000;
const GIVE_UP_MS = 86_400_000;
const FIRST_DELAY_SECONDS = 5;
/** The maximum of SQS. */
const MAX_DELAY_SECONDS = 900;

export const notifyTargets =
  (deps: NotifierDeps) =>
  async ({ Records }: SQSEvent, clock?: InvocationClock): Promise<SQSBatchResponse> => {
    const round = new Round(deps, deadlineOf(clock).remainingMs);
    const failed = await Promise.all(Records.map((record) => isFailed(record, round, deps)));
    const again = Records.filter((_, i) => elementAt(failed, i, 'failed'));
    return { batchItemFailures: again.map(({ messageId }) => ({ itemIdentifier: messageId })) };
  };

/** SQS delivers a message that fails again, and moves it to the dead-letter queue after some deliveries. */
async function isFailed({ messageId, body, attributes }: SQSRecord, round: Round, deps: NotifierDeps) {
  const { outbox } = deps;
  try {
    const { isLook, keys, parcels } = await readParcels(body, (key) => outbox.read(key));
    if (isLook) await reportForgotten(Number(attributes.SentTimestamp), deps);
    await Promise.all(parcels.map((parcel) => round.settle(parcel)));
    // If this fails, the notices are sent again, which receivers see by their ids.
    if (keys.length > 0) await outbox.remove(keys);
    return false;
  } catch (error) {
    logError(error, { messageId });
    return true;
  }
}

/**
 * Puts objects into the queue whose event was lost, or whose message was. What only waits in the queue is there twice then, and is
 * sent once, because the object is gone afterwards. @throws queue_unavailable, errors of S3
 */
async function reportForgotten(sentAt: number, { outbox, sendLater, now }: NotifierDeps): Promise<void> {
  // When messages have waited, each of the rule would report the same objects.
  if (now() - sentAt > FORGOTTEN_MS) return;
  let reported = 0;
  for await (const page of outbox.pages()) {
    const forgotten = page.filter(({ modifiedAt }) => now() - modifiedAt > FORGOTTEN_MS);
    const some = forgotten.slice(0, MOST_FORGOTTEN - reported);
    for (let i = 0; i < some.length; i += TOGETHER)
      await Promise.all(some.slice(i, i + TOGETHER).map(({ key }) => sendLater(encodeObjectEvent(key), 0)));
    reported += some.length;
    if (reported >= MOST_FORGOTTEN) break;
  }
  if (reported > 0) logWarning(`${reported} objects of the outbox waited for over 10 minutes`, {});
}

/** The calls of one event. */
class Round {
  readonly #deps: NotifierDeps;
  readonly #leftMs: () => number;
  readonly #waiting: (() => void)[] = [];
  readonly #awayInARow = new Map<string, number>();
  #running = 0;

  constructor(deps: NotifierDeps, leftMs: () => number) {
    this.#deps = deps;
    this.#leftMs = leftMs;
  }

  /** Delivers a notice, or puts it where it is not lost. @throws queue_unavailable */
  async settle(parcel: Parcel): Promise<void> {
    const { notice } = parcel;
    await this.#turn();
    try {
      // Sent on as it is: the time is over, and it is not to blame.
      if (this.#leftMs() < CALL_MS) return await this.#deps.sendLater(encodeParcel(parcel), 0);
      if (await this.#deps.pauses.isPaused(notice.target))
        return await this.#giveUp(parcel, 'the target is paused');
      const delivery = await this.#deliver(notice);
      if (!delivery.ok) await this.#fail(parcel, delivery);
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  async #turn(): Promise<void> {
    if (this.#running >= TOGETHER) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running++;
  }

  async #deliver(notice: Notice): Promise<Delivery> {
    const { target } = notice;
    const before = this.#awayInARow.get(target) ?? 0;
    if (before >= MOST_AWAY)
      return { ok: false, reason: 'the target did not answer the last calls', isAway: true };
    const delivery = await this.#deps.deliver(notice);
    const isAway = !delivery.ok && delivery.isAway === true;
    this.#awayInARow.set(target, isAway ? (this.#awayInARow.get(target) ?? 0) + 1 : 0);
    return delivery;
  }

  async #fail(parcel: Parcel, failure: Extract<Delivery, { ok: false }>): Promise<void> {
    const { notice, attempt, since = this.#deps.now() } = parcel;
    const { target, id } = notice;
    const { reason, isGone = false, isFinal = isGone, retryAfterSeconds = 0 } = failure;
    if (failure.isOver === true) {
      logWarning(`a notice was dropped: ${reason}`, { target, notice: id });
      return this.#deps.onDropped?.(target);
    }
    if (isGone) await this.#deps.pauses.pause(target, reason);
    if (isFinal || this.#deps.now() - since >= GIVE_UP_MS)
      return this.#giveUp({ ...parcel, since, attempt: attempt + 1 }, reason);
    logWarning(`a notice was not delivered: ${reason}`, { target, notice: id, attempt });
    const delay = Math.max(retryAfterSeconds, this.#backOffSeconds(attempt));
    const seconds = Math.min(MAX_DELAY_SECONDS, Math.ceil(delay));
    await this.#deps.sendLater(encodeParcel({ notice, attempt: attempt + 1, since }), seconds);
  }

  #backOffSeconds(attempt: number): number {
    const seconds = Math.min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 3 ** Math.min(attempt, 10));
    return seconds * (0.8 + 0.2 * this.#deps.random());
  }

  async #giveUp(parcel: Parcel, reason: string): Promise<void> {
    const { target, id } = parcel.notice;
    logLine('error', `a notice was given up: ${reason}`, { target, notice: id });
    await this.#deps.giveUp(encodeParcel({ ...parcel, reason }));
  }
}
