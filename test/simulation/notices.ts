/** The part of a deployment whose records name a target: the events of its outbox, the notifier with its queues, and the receiver. */
import { notifySecretVariable } from '../../lib/config/environment.ts';
import { NOTIFIER_RECEIVES, NOTIFIER_SECONDS } from '../../lib/config/job.ts';
import { outboxPrefix } from '../../lib/contract/names.ts';
import { encodeObjectEvent } from '../../lib/notify/parcels.ts';
import type { Choices } from './machine/random.ts';
import type { Scheduler } from './machine/scheduler.ts';
import type { Receiver } from './models/receiver.ts';
import { SqsQueue } from './models/sqs.ts';
import { JOB, QUEUE_URL, type Stage } from './stage.ts';

/** The target of records that name one. */
export const TARGET = 'shop';
export const NOTIFIER_MS = NOTIFIER_SECONDS * 1000;
const DAY_MS = 86_400_000;
const NOTIFY_URL = `${QUEUE_URL}-notify`;
const GIVEN_UP_URL = `${QUEUE_URL}-notify-dead-letters`;
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

export const NOTIFIER_VARIABLES: Readonly<Record<string, string>> = {
  CLUSTER_SERVING_NOTIFY_QUEUE_URL: NOTIFY_URL,
  CLUSTER_SERVING_NOTIFY_DEAD_LETTER_URL: GIVEN_UP_URL,
  [notifySecretVariable(TARGET)]: SECRET,
};

/** `notify` in config.yaml. */
export const TARGETS = { [TARGET]: { url: 'https://shop.example/hook', secret: '/shop' } };

type Surroundings = Pick<Stage, 'history' | 'tell'> & {
  readonly choices: Choices;
  readonly scheduler: Scheduler;
  readonly nowMs: number;
};

export class Notices {
  readonly queue: SqsQueue;
  readonly givenUp: SqsQueue;
  readonly receiver: Receiver;
  readonly #stage: Surroundings;
  /** The share of calls to the receiver that go wrong. */
  share: number;

  constructor(stage: Surroundings, share: number, now: () => number) {
    this.#stage = stage;
    this.share = share;
    const { choices } = stage;
    this.givenUp = new SqsQueue(
      { name: 'given-up', visibilityMs: NOTIFIER_MS, retentionMs: 14 * DAY_MS },
      choices,
      now,
    );
    const options = {
      name: 'notice',
      visibilityMs: 6 * NOTIFIER_MS,
      retentionMs: 4 * DAY_MS,
      maxReceives: NOTIFIER_RECEIVES,
      deadLetters: this.givenUp,
    };
    this.queue = new SqsQueue(options, choices, now);
    this.receiver = { share: () => this.share, take: (id, body) => this.#take(id, body) };
  }

  /** One of its queues; undefined for the queue of records. */
  queueOf(input: object): SqsQueue | undefined {
    const { QueueUrl }: { readonly QueueUrl?: string } = input;
    if (QueueUrl === NOTIFY_URL) return this.queue;
    return QueueUrl === GIVEN_UP_URL ? this.givenUp : undefined;
  }

  /** S3 sends an event about each new object at least once, and sometimes late. */
  onPut(input: object): void {
    const { Key = '' }: { readonly Key?: string } = input;
    if (!Key.startsWith(outboxPrefix(JOB))) return;
    const { choices, scheduler } = this.#stage;
    for (let count = choices.chance('s3 event', 0.1) ? 2 : 1; count > 0; count--) {
      const lateMs = choices.chance('s3 event', 0.1) ? choices.between('s3 event', 0, 60_000) : 0;
      const send = () => void this.queue.add(encodeObjectEvent(Key), {});
      scheduler.after(choices.between('s3 event', 50, 2_000) + lateMs, undefined, send);
    }
  }

  #take(id: string, body: string): void {
    const { history, nowMs } = this.#stage;
    const { data }: { data: { uri: string; identity: string; status: string } } = JSON.parse(body);
    history.notices.push({ id, ...data, atMs: nowMs });
    const number = history.enqueueOf(data.identity)?.number;
    const text = `The receiver is notified that record ${number} of ${data.uri} has ${data.status}.`;
    this.#stage.tell('notifier', 'receiver', text, [data.uri]);
  }
}
