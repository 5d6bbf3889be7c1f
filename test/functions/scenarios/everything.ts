/** All that a deployment can do beside its answers: what was captured and who was told must fit what was enqueued. */
import assert from 'node:assert/strict';
import { readLine } from '../../../lib/codecs/capture/read.ts';
import { type CapturedObject, CaptureReader } from '../../../lib/s3/capture-reader.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { OutboxReader } from '../../../lib/s3/outbox-reader.ts';
import type { History } from '../../support/faults/history.ts';
import { lineOf } from '../../support/faults/model.ts';
import { BUCKET, JOB, type Queue } from '../../support/faults/service.ts';

/** Settings. Nothing is sent to the target: the notices stay in the outbox. */
export const EVERYTHING = {
  capture: { share: 1 },
  notify: { shop: { url: 'https://shop.example/hooks' } },
  budget: { perDay: 1_000_000 },
};
export const NOTIFIED = { notify: 'shop' };

interface Told {
  readonly data: {
    readonly uri: string;
    readonly status: string;
    readonly error?: { readonly code: string };
  };
}

/** Each record has one notice, said once or again, with its outcome; and no capture holds a wrong answer. */
export async function assertAllTold(
  { aws }: Queue,
  history: History,
): Promise<{ readonly notices: number; readonly captured: number }> {
  const ids = new Map<string, string>();
  let notices = 0;
  for await (const { id, body } of noticesIn(aws.s3)) {
    const { uri, status, error }: Told['data'] = (JSON.parse(body) as Told).data;
    const allowed = history.allowed(uri) ?? assert.fail(`${uri} was not enqueued`);
    const fits = allowed.some((one) =>
      typeof one === 'number' ? status === 'succeeded' : one === error?.code,
    );
    assert.ok(fits, `${uri}: ${body}`);
    assert.equal(ids.get(uri) ?? id, id, `${uri} has one notice`);
    ids.set(uri, id);
    notices++;
  }
  assert.equal(ids.size, history.size, 'each record has a notice');
  let captured = 0;
  for await (const { inputs, outputs } of capturedIn(aws.s3)) {
    captured++;
    if (!outputs) continue;
    const x = inputs.get('x');
    assert.ok(x?.kind === 'tensor');
    assert.equal(outputs[0]?.data[0], lineOf(Number(x.tensor.data[0])));
  }
  return { notices, captured };
}

async function* noticesIn(s3: S3Client) {
  const outbox = new OutboxReader(s3, BUCKET, JOB);
  for await (const page of outbox.pages()) for (const { key } of page) yield* (await outbox.read(key)) ?? [];
}

async function* capturedIn(s3: S3Client) {
  const reader = new CaptureReader(s3, BUCKET, { job: JOB });
  for await (const page of reader.pages()) for (const object of page) yield* recordsOf(reader, object);
}

async function* recordsOf(reader: CaptureReader, object: CapturedObject) {
  for await (const line of reader.lines(object)) {
    if ('problem' in line) assert.fail(`${object.key}: ${line.problem}`);
    if (line.number > 1) yield* readLine(line.text).records;
  }
}
