import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { InputQueue, OutputQueue, type QueueRecord, type Result, ServingError } from '../../sdk/index.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const RECORDS = 500;

interface Case {
  readonly record: QueueRecord;
  /** A digit, or the code of the failure. */
  readonly expected: number | string;
}

/** Every seventh record is malformed, each time in another way. */
async function cases(): Promise<Case[]> {
  const images = await Promise.all(
    Array.from({ length: 10 }, (_, digit) => readFile(join(SAMPLE, `images/digit-${digit}.png`))),
  );
  const malformed: Case['record']['inputs'][] = [
    { image: [1, 2, 3] },
    { image: { bytes: Buffer.from('no image') } },
    { image: { bytes: (images[3] as Buffer).subarray(0, 60) } },
    { image: ['some', 'text'] },
    { image: { bytes: images[1] as Buffer }, extra: [1] },
    { image: { data: new Float32Array(8), shape: [2, 4] } },
  ];
  return Array.from({ length: RECORDS }, (_, i) => {
    const uri = `record-${i}`;
    if (i % 7 === 3)
      return { record: { uri, inputs: malformed[i % 6] as Case['record']['inputs'] }, expected: 'bad_input' };
    return { record: { uri, inputs: { image: { bytes: images[i % 10] as Buffer } } }, expected: i % 10 };
  });
}

function largest(result: Result): number {
  const data = result.outputs[0]?.data as Float32Array;
  return data.indexOf(Math.max(...data));
}

test('of 500 records, malformed ones among them, every uri gets exactly one outcome', async (t) => {
  const stack = await testStack(t);
  t.diagnostic(`Redis: ${stack.redis.kind} ${stack.redis.version}`);
  const { input, output } = clientOptions(stack);
  const inputQueue = new InputQueue(input);
  const outputQueue = new OutputQueue(output);
  t.after(() => Promise.all([inputQueue.close(), outputQueue.close()]));
  const all = await cases();

  const progress: number[] = [];
  assert.equal(
    await inputQueue.enqueueMany(
      all.map(({ record }) => record),
      (taken) => progress.push(taken),
    ),
    RECORDS,
  );
  assert.equal(progress.at(-1), RECORDS);

  const outcomes = new Map<string, Result | ServingError>();
  await until(async () => {
    for await (const item of outputQueue.drain()) {
      assert.ok(!outcomes.has(item.uri), `${item.uri} came twice`);
      outcomes.set(item.uri, 'error' in item ? item.error : item.result);
    }
    return outcomes.size === RECORDS;
  });
  for (const { record, expected } of all) {
    const outcome = outcomes.get(record.uri);
    assert.ok(outcome);
    if (outcome instanceof ServingError)
      assert.equal(outcome.code, expected, `${record.uri}: ${outcome.message}`);
    else assert.equal(largest(outcome), expected, record.uri);
  }
  // Nothing is left, and nothing comes late.
  assert.deepEqual([...(await outputQueue.dequeue())], []);
});

test('a message without a uri is archived for replay and does not hold up its neighbours', async (t) => {
  // 6 x 3 s of visibility; one try, so that the dead letters have it after that. Less than 3 s a cold run on a busy
  // machine may take, and the good one has one try too.
  const config = 'imageResize: 8,8\nfunction: {timeoutSeconds: 3}\nqueue: {maxReceiveCount: 1}';
  const stack = await testStack(t, { config });
  const { input, output } = clientOptions(stack);
  const inputQueue = new InputQueue(input);
  const outputQueue = new OutputQueue(output);
  t.after(() => Promise.all([inputQueue.close(), outputQueue.close()]));
  const bodies = ['not JSON', '{"data":"AAAA"}', '[]', JSON.stringify({ uri: '', data: 'AAAA' })];
  for (const MessageBody of bodies) {
    await stack.aws.sqs.send(new SendMessageCommand({ QueueUrl: stack.queueUrl, MessageBody }));
  }
  await inputQueue.enqueue('good', { image: { path: join(SAMPLE, 'images/digit-4.png') } });
  assert.equal(largest(await outputQueue.wait('good')), 4);
  await until(async () => {
    const listing = await stack.aws.s3.send(
      new ListObjectsV2Command({ Bucket: stack.bucket, Prefix: 'dead-letters/serving_stream/' }),
    );
    return (listing.Contents ?? []).length === bodies.length;
  });
});
