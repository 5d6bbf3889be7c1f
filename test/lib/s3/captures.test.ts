/** Which objects a reader of captures finds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CaptureHeader } from '../../../lib/contract/capture.ts';
import { CaptureReader, capturedModels } from '../../../lib/s3/capture-reader.ts';
import { CaptureWriter } from '../../../lib/s3/captures.ts';
import { putText } from '../../../lib/s3/objects.ts';
import { readAll } from '../../../lib/s3/pages.ts';
import { LOCATION, modelBucket } from '../../local/swap/models.ts';

const { bucket } = LOCATION;
const HEADER: Omit<CaptureHeader, 'version'> = {
  capture: 1,
  job: 'job',
  settings: {},
  runtime: { onnxruntime: '1', architecture: 'x64', features: [], threads: 1 },
  lost: 0,
};
/** More than a page of a listing. */
const MANY = 1_100;

test('captures of the job’s own model are found before and behind thousands of those of further models, and alone', async (t) => {
  const s3 = await modelBucket(t);
  const writer = new CaptureWriter(s3, { bucket, now: () => 1e12, id: 'me' });
  // One sorts before the folder of further models, and one behind it.
  for (const version of ['aaa', 'zzz']) await writer.put({ ...HEADER, version }, []);
  for (const model of ['fraud', '2026-11-28']) await writer.put({ ...HEADER, model, version: 'aaa' }, []);
  const keys = Array.from(
    { length: MANY },
    (_, i) => `captures/job/named/many/v/2026-11-28/${String(i).padStart(9, '0')}-id-0.ndjson.gz`,
  );
  await readAll(keys, (key) => putText(s3, { bucket, key }, 'x'));

  const found = async (model?: string, version?: string) => {
    const all: string[] = [];
    const reader = new CaptureReader(s3, bucket, { job: 'job', model });
    for await (const page of reader.pages({ version })) all.push(...page.map((object) => object.version));
    return all;
  };
  assert.deepEqual(await found(), ['aaa', 'zzz']);
  assert.deepEqual(await found(undefined, 'zzz'), ['zzz']);
  assert.deepEqual(await found(undefined, 'named'), []);
  assert.deepEqual(await found('fraud'), ['aaa']);
  assert.deepEqual(await found('2026-11-28'), ['aaa']);
  assert.equal((await found('many')).length, MANY);
  assert.deepEqual(await found('none'), []);
  assert.deepEqual(await capturedModels(s3, bucket, 'job'), ['2026-11-28', 'fraud', 'many']);
});

test('an object that an earlier release has written is one of the job’s own model', async (t) => {
  const s3 = await modelBucket(t);
  const writer = new CaptureWriter(s3, { bucket, now: () => 1e12, id: 'me' });
  const { capture, job, settings, runtime, lost } = HEADER;
  await writer.put({ capture, job, version: 'v1', settings, runtime, lost }, ['{}']);
  const reader = new CaptureReader(s3, bucket, { job: 'job' });
  const keys: string[] = [];
  for await (const page of reader.pages()) keys.push(...page.map(({ key }) => key));
  assert.deepEqual(keys, ['captures/job/v1/2001-09-09/014640000-me-0.ndjson.gz']);
});
