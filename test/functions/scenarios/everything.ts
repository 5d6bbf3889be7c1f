/** All that a deployment can do beside its answers: what was captured and who was told must fit what was enqueued. */
import assert from 'node:assert/strict';
import { readLine } from '../../../lib/codecs/capture/read.ts';
import { CaptureReader } from '../../../lib/s3/capture-reader.ts';
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
  const outbox = new OutboxReader(aws.s3, BUCKET, JOB);
  let notices = 0;
  for await (const page of outbox.pages())
    for (const { key } of page)
      for (const { id, body } of (await outbox.read(key ?? '')) ?? []) {
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
  return { notices, captured: await assertCaptured(aws.s3) };
}

async function assertCaptured(s3: Queue['aws']['s3']): Promise<number> {
  const reader = new CaptureReader(s3, BUCKET, { job: JOB });
  let captured = 0;
  for await (const page of reader.pages())
    for (const object of page)
      for await (const line of reader.lines(object)) {
        if ('problem' in line) assert.fail(`${object.key}: ${line.problem}`);
        if (line.number === 1) continue;
        for (const { inputs, outputs } of readLine(line.text).records) {
          const x = inputs.get('x');
          captured++;
          if (!outputs) continue;
          assert.ok(x?.kind === 'tensor', line.text);
          assert.equal(outputs[0]?.data[0], lineOf(Number(x.tensor.data[0])), line.text);
        }
      }
  return captured;
}
