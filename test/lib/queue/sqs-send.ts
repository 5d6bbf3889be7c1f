/**
 * F9: SendMessageBatch calls of which SQS accepts only a part, for each of the 1,023 subsets of ten. Exactly the
 * refused entries reject, and the queue holds every other one once. The emulator refuses nothing, so the proxy moves
 * refused entries from the request into the answer.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { receive, remove } from '../../support/faults/events.ts';
import { type RequestFate, startHttpProxy } from '../../support/faults/http-proxy.ts';
import { startQueue } from '../../support/faults/service.ts';

const ENTRIES = 10;
const AT_ONCE = 32;

interface Entry {
  readonly Id: string;
  readonly MessageBody: string;
}

/** A call of which some entries are refused, and some are not mentioned at all. */
export function partialAnswer(options: {
  readonly refused?: readonly number[];
  readonly forgotten?: readonly number[];
  readonly senderFault?: boolean;
}): RequestFate {
  const { refused = [], forgotten = [], senderFault = false } = options;
  const gone = new Set([...refused, ...forgotten].map(String));
  return {
    kind: 'change',
    request: ({ body }) => {
      const call = JSON.parse(body.toString()) as { QueueUrl: string; Entries: Entry[] };
      const Entries = call.Entries.filter(({ Id }) => !gone.has(Id));
      return Buffer.from(JSON.stringify({ ...call, Entries }));
    },
    answer: (answer) => {
      // A real SQS answers a call of which it takes nothing; the emulator calls an empty one an error.
      const taken =
        answer.status === 200 ? (JSON.parse(answer.body.toString()) as object) : { Successful: [] };
      const Code = senderFault ? 'InvalidMessageContents' : 'ServiceUnavailable';
      const Failed = refused.map((id) => ({
        Id: String(id),
        SenderFault: senderFault,
        Code,
        Message: 'injected',
      }));
      const body = Buffer.from(JSON.stringify({ ...taken, Failed }));
      return { status: 200, headers: { ...answer.headers, 'content-length': String(body.length) }, body };
    },
  };
}

export interface SubsetCases {
  /** True: refused once, then taken. */
  readonly passing: boolean;
  /** Only each of so many subsets. Default 1. */
  readonly step?: number;
}

export async function everySubset(t: TestContext, { passing, step = 1 }: SubsetCases): Promise<void> {
  const queue = await startQueue(t);
  const proxy = await startHttpProxy(t, queue.aws.url);
  const refusedOnce = new Set<string>();
  proxy.onRequest = ({ action, body }) => {
    if (action !== 'AmazonSQS.SendMessageBatch') return { kind: 'pass' };
    const { Entries } = JSON.parse(body.toString()) as { Entries: Entry[] };
    const refused = Entries.flatMap(({ Id, MessageBody }) => {
      if (!isRefused(MessageBody) || (passing && refusedOnce.has(MessageBody))) return [];
      refusedOnce.add(MessageBody);
      return [Number(Id)];
    });
    return refused.length === 0 ? { kind: 'pass' } : partialAnswer({ refused, senderFault: !passing });
  };
  const subsets = Array.from({ length: 2 ** ENTRIES - 1 }, (_, i) => i + 1).filter(
    (subset) => subset % step === 0,
  );
  const queued: string[] = [];
  for (let i = 0; i < subsets.length; i += AT_ONCE) {
    const group = subsets.slice(i, i + AT_ONCE);
    const rejected = (
      await Promise.all(group.map((subset) => sendTen(t, proxy.url, queue.url, subset)))
    ).flat();
    const expected = passing ? [] : group.flatMap(bodiesOf).filter(isRefused);
    assert.deepEqual(rejected.sort(), expected.sort());
    const source = { sqs: queue.aws.sqs, queueUrl: queue.url };
    const records = await receive(source, AT_ONCE * ENTRIES + 1);
    queued.push(...records.map(({ body }) => body));
    await remove(source, records);
  }
  const expected = subsets.flatMap(bodiesOf).filter((body) => passing || !isRefused(body));
  assert.deepEqual(queued.sort(), expected.sort());
}

/** `12-3`: entry 3 of subset 12, refused because bit 3 of 12 is set. */
const bodiesOf = (subset: number) => Array.from({ length: ENTRIES }, (_, i) => `${subset}-${i}`);

function isRefused(body: string): boolean {
  const [subset, entry] = body.split('-').map(Number);
  return ((subset as number) & (1 << (entry as number))) !== 0;
}

/** A sender of its own, so that the ten share one call. */
async function sendTen(
  t: TestContext,
  endpoint: string,
  queueUrl: string,
  subset: number,
): Promise<string[]> {
  const sender = new QueueSender(sqsOf(t, endpoint), { queueUrl });
  const bodies = bodiesOf(subset);
  const settled = await Promise.allSettled(bodies.map((body) => sender.send(body)));
  return bodies.filter((_, i) => settled[i]?.status === 'rejected');
}

const clients = new WeakMap<TestContext, ReturnType<typeof openSqs>>();

function sqsOf(t: TestContext, endpoint: string): ReturnType<typeof openSqs> {
  const known = clients.get(t);
  if (known) return known;
  const sqs = openSqs({ endpoint, region: 'us-east-1' });
  t.after(() => sqs.destroy());
  clients.set(t, sqs);
  return sqs;
}
