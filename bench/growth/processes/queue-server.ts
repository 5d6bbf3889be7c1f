/**
 * In: bodies of messages. Out: an SQS (emulated) with queues that hold them, in a process of its own.
 * Trap: the emulator keeps messages in memory; in the process of the poller they would count as the poller's.
 */
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { type LocalAws, startAws } from '../../../local/aws/aws.ts';
import { serveParent } from '../../processes/child.ts';
import { QUIET } from '../../quiet.ts';

export interface QueueServerQuestion {
  /** Of the queue; each has to be new. */
  readonly name: string;
  readonly messages: number;
  /** The body of every message; `{n}` in it becomes the message's number. */
  readonly body: string;
}

export interface QueueServerAnswer {
  readonly queueUrl: string;
  readonly endpoint: string;
  readonly region: string;
}

const SEND_ENTRIES = 10;
const SENDERS = 4;
const VISIBILITY_SECONDS = 120;

async function fill(
  aws: LocalAws,
  { name, messages, body }: QueueServerQuestion,
): Promise<QueueServerAnswer> {
  const { url } = await aws.createQueue({ name, visibilitySeconds: VISIBILITY_SECONDS });
  let next = 0;
  const send = async () => {
    while (next < messages) {
      const first = next;
      next = Math.min(messages, first + SEND_ENTRIES);
      const Entries = Array.from({ length: next - first }, (_, i) => ({
        Id: String(i),
        MessageBody: body.replace('{n}', String(first + i)),
      }));
      const { Failed = [] } = await aws.sqs.send(new SendMessageBatchCommand({ QueueUrl: url, Entries }));
      if (Failed.length > 0) throw new Error(`${Failed.length} messages were refused: ${Failed[0]?.Message}`);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, send));
  return { queueUrl: url, endpoint: aws.url, region: aws.region };
}

if (process.send) {
  let aws: Promise<LocalAws> | undefined;
  serveParent(
    async (asked): Promise<QueueServerAnswer> => {
      aws ??= startAws({ port: 0, region: 'local', log: QUIET });
      return fill(await aws, asked as QueueServerQuestion);
    },
    async () => (await aws)?.close(),
  );
}
