/**
 * In: the stores of fauxqs and a command of the SQS SDK. Out: what the command's call over HTTP would have answered.
 * For whoever stands in for AWS itself, as the poller does: Lambda's event source mapping is on SQS's side of the
 * network. Three quarters of the local stack's time for a small record went into HTTP, signatures and JSON that nobody
 * outside ever saw. Clients have the server.
 * Trap: nothing here waits for a socket, so each call lets the event loop turn once, or a long queue would be drained
 * while nobody else is heard. And what the calls of one turn write is one transaction: a statement alone costs SQLite
 * 25 us, a transaction of ten messages 300.
 */
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { ServingError } from '../../lib/contract/errors.ts';
import { part, type Storage, type Stores } from './storage.ts';

/** The calls of an SQS client, wherever they go. */
export type SqsCalls = Pick<SQSClient, 'send'>;

/** In: a command's fields, which are the body of its call. */
type Action = (body: object, store: Stores['sqsStore']) => unknown;

interface SentCommand {
  readonly input: { readonly QueueUrl?: string };
}

/** As JSON carries them. */
interface Received {
  readonly Messages?: readonly {
    readonly MessageAttributes?: Readonly<Record<string, { readonly BinaryValue?: string }>>;
  }[];
}

/** @returns a client for the four commands of a poller */
export async function directSqs(storage: Storage): Promise<SqsCalls> {
  const { sqsStore } = storage.stores;
  const [receive, remove, change, describe] = await Promise.all([
    part<{ receiveMessage: Action }>('sqs/actions/receiveMessage.js'),
    part<{ deleteMessageBatch: Action }>('sqs/actions/deleteMessageBatch.js'),
    part<{ changeMessageVisibilityBatch: Action }>('sqs/actions/changeMessageVisibilityBatch.js'),
    part<{ getQueueAttributes: Action }>('sqs/actions/getQueueAttributes.js'),
  ]);
  const actions = new Map<unknown, Action>([
    [ReceiveMessageCommand, receive.receiveMessage],
    [DeleteMessageBatchCommand, remove.deleteMessageBatch],
    [ChangeMessageVisibilityBatchCommand, change.changeMessageVisibilityBatch],
    [GetQueueAttributesCommand, describe.getQueueAttributes],
  ]);
  const turn = new Turn(storage);
  const send = async (command: SentCommand, { abortSignal }: { abortSignal?: AbortSignal } = {}) => {
    const { input } = command;
    const action = actions.get(command.constructor);
    if (!action) throw new ServingError('internal', `${command.constructor.name} goes over HTTP`);
    // Ends the wait of a long poll; it answers with nothing, or with what came at this moment.
    const leave = () => sqsStore.getQueue(input.QueueUrl ?? '')?.cancelWaiters();
    abortSignal?.addEventListener('abort', leave, { once: true });
    try {
      const answer = await turn.run(() => {
        abortSignal?.throwIfAborted();
        return action(input, sqsStore);
      });
      return action === receive.receiveMessage ? withBytes(answer as Received) : answer;
    } finally {
      abortSignal?.removeEventListener('abort', leave);
    }
  };
  // The SDK's `send` has a type for each of its commands.
  return { send } as unknown as SqsCalls;
}

interface Call {
  readonly action: () => unknown;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Runs what is asked for in one turn of the event loop at the next one, in one transaction. */
class Turn {
  readonly #storage: Storage;
  #calls: Call[] = [];

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** @throws what the action throws, or that the transaction could not be committed; then no call is answered */
  run(action: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#calls.push({ action, resolve, reject });
      if (this.#calls.length === 1) setImmediate(() => this.#runAll());
    });
  }

  #runAll(): void {
    const calls = this.#calls;
    this.#calls = [];
    try {
      // Of an asynchronous action: what it does before its first wait.
      const answers = this.#storage.transaction(() => calls.map(({ action }) => attempt(action)));
      for (const [i, { resolve }] of calls.entries()) resolve(answers[i]);
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }
}

/** One call that is refused is no other's fault. */
function attempt(action: () => unknown): Promise<unknown> {
  const answer = (async () => action())();
  // Nobody hears of it when the transaction fails too.
  answer.catch(() => undefined);
  return answer;
}

/** The SDK gives the bytes of an attribute where JSON has base64. */
function withBytes({ Messages, ...rest }: Received): object {
  return { ...rest, Messages: Messages?.map((message) => ({ ...message, ...bytesOf(message) })) };
}

function bytesOf({ MessageAttributes }: NonNullable<Received['Messages']>[number]): object {
  if (!MessageAttributes) return {};
  const attributes = Object.entries(MessageAttributes).map(([name, value]) => {
    const { BinaryValue, ...others } = value;
    if (BinaryValue === undefined) return [name, others];
    return [name, { ...others, BinaryValue: Uint8Array.from(Buffer.from(BinaryValue, 'base64')) }];
  });
  return { MessageAttributes: Object.fromEntries(attributes) as Record<string, MessageAttributeValue> };
}
