/**
 * F4: partial failure, with random masks over ten messages. The response names exactly the messages to redeliver, and
 * every other uri has its outcome. Of four kinds of bad messages only two go back: a record that can never work fails
 * at once.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SQSRecord } from 'aws-lambda';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { payloadPrefix } from '../../../lib/contract/names.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { sqsRecord } from '../../support/faults/events.ts';
import { History, type Stored } from '../../support/faults/history.ts';
import { s3Error, startHttpProxy } from '../../support/faults/http-proxy.ts';
import { lineOf, mismatched, poison, record } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { pick, seeded } from '../../support/faults/seeds.ts';
import { JOB, lineRunner, openWorker, startQueue } from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';

const SIZE = 10;

const KINDS = ['mismatched', 'poison', 'nobody', 'no payload', 'payload away'] as const;
type Kind = (typeof KINDS)[number] | 'good';

/** What becomes of a kind: its outcome, or undefined where the message goes back. */
function outcomeOf(kind: Kind, x: number): Stored | undefined {
  if (kind === 'good') return lineOf(x);
  if (kind === 'mismatched') return 'bad_input';
  if (kind === 'poison') return 'model_failed';
  return kind === 'no payload' ? 'bad_request' : undefined;
}

async function bodyOf(kind: Kind, uri: string, x: number): Promise<string> {
  if (kind === 'nobody') return `{"data": "no uri ${x}"}`;
  if (kind === 'no payload') return encodePointer(uri, `${payloadPrefix(JOB)}gone`);
  if (kind === 'payload away') return encodePointer(uri, `${payloadPrefix(JOB)}away`);
  const inputs = kind === 'mismatched' ? mismatched(x) : kind === 'poison' ? poison(x) : record(x);
  return encodeMessage(uri, await toInputs(inputs));
}

export async function everyMask(
  t: TestContext,
  { randomMasks }: { readonly randomMasks: number },
): Promise<void> {
  quietLog(t);
  const queue = await startQueue(t);
  const s3 = await startHttpProxy(t, queue.aws.url);
  s3.onRequest = ({ path }) =>
    path.includes('/away') ? { kind: 'answer', answer: s3Error(403, 'AccessDenied') } : { kind: 'pass' };
  const url = await redisUrl(t);
  const worker = await openWorker(t, { redisUrl: url, runner: await lineRunner(t), s3Endpoint: s3.url });
  const random = seeded(4);
  const masks = [
    ...Array.from({ length: SIZE }, (_, k) => 2 ** (k + 1) - 1),
    ...Array.from({ length: randomMasks }, () => Math.floor(random() * 2 ** SIZE)),
  ];
  const history = new History();
  await history.listen(t, url, JOB);
  for (const [number, mask] of masks.entries()) {
    const records: SQSRecord[] = [];
    const goesBack: string[] = [];
    for (let i = 0; i < SIZE; i++) {
      const kind = mask & (1 << i) ? pick(random, KINDS) : 'good';
      const uri = `m${number}-${i}`;
      const told = outcomeOf(kind, number * SIZE + i);
      if (told === undefined) goesBack.push(uri);
      else history.enqueued(uri, told);
      records.push(sqsRecord(uri, await bodyOf(kind, uri, number * SIZE + i)));
    }
    const { batchItemFailures } = await worker({ Records: records });
    assert.deepEqual(
      batchItemFailures.map(({ itemIdentifier }) => itemIdentifier).sort(),
      goesBack.sort(),
      `mask ${number}: ${mask.toString(2).padStart(SIZE, '0')}`,
    );
  }
  await history.assertClean(url, JOB);
}
