/**
 * A message may say where in S3 its record lies. Any sender to the queue can write it, so it leads to this job's
 * payloads and to nothing else: any other key is never asked for.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { PayloadStore } from '../../../lib/s3/payloads.ts';
import { BUCKET, openBucket, putObject } from '../../support/quiet-aws.ts';

const JOB = 'job';
const OURS = `payloads/${JOB}/`;
const ID = 'a1b2c3d4';

/** Keys that exist, and that a pointer must not lead to. */
const FOREIGN = [
  'models/job/current.json',
  'models/job/versions/v1/model.onnx',
  'dead-letters/job/1.json',
  `payloads/other/${ID}`,
  `payloads/job2/${ID}`,
  `payloads/jo/${ID}`,
  `payloads/${ID}`,
  `${OURS}deeper/${ID}`,
  `${OURS}..`,
  `${OURS}../other/${ID}`,
  `${OURS}../../models/job/current.json`,
  `${OURS}%2e%2e%2fother%2f${ID}`,
  `${OURS}..%2Fother`,
  `${OURS}a.b`,
  `/${OURS}${ID}`,
  `./${OURS}${ID}`,
  `${OURS}/${ID}`,
  OURS.toUpperCase() + ID,
  `${OURS}${ID}?versionId=1`,
  `${OURS}${ID}#x`,
  `${OURS}${ID}\n`,
  `${OURS}${ID}\0`,
  ` ${OURS}${ID}`,
];

const NAMES = [
  OURS,
  `s3://other-bucket/${OURS}${ID}`,
  `s3://${BUCKET}/${OURS}${ID}`,
  `https://${BUCKET}.s3.amazonaws.com/${OURS}${ID}`,
  `arn:aws:s3:::${BUCKET}/${OURS}${ID}`,
  `file:///etc/passwd`,
  `${OURS}${'a'.repeat(81)}`,
  '',
];

test('a pointer to anything but a payload of this job is never asked for', async (t) => {
  const s3 = await openBucket(t);
  const asked: string[] = [];
  s3.middlewareStack.add(
    (next, context) => (args) => {
      asked.push(`${context.commandName} ${JSON.stringify(args.input)}`);
      return next(args);
    },
    { step: 'initialize' },
  );
  const store = new PayloadStore(s3, BUCKET, JOB);
  const bodies = [...FOREIGN, ...NAMES].map((key) => encodePointer('u', key));
  const more = [
    JSON.stringify({ uri: 'u', pointer: [`${OURS}${ID}`] }),
    JSON.stringify({ uri: 'u', pointer: { key: `${OURS}${ID}` } }),
    JSON.stringify({ uri: 'u', pointer: 'models/job/current.json', bucket: 'other', Bucket: 'other' }),
    JSON.stringify({ uri: '', pointer: `${OURS}${ID}` }),
    JSON.stringify({ pointer: `${OURS}${ID}` }),
    `[{"uri":"u","pointer":"${OURS}${ID}"}]`,
    `{"__proto__":{"uri":"u","pointer":"${OURS}${ID}"}}`,
  ];
  // As they came: what is no pointer is a record that cannot be read.
  assert.deepEqual(await store.resolve([...bodies, ...more]), [...bodies, ...more]);
  assert.deepEqual(asked, []);
});

test('a payload of this job is read from this bucket, whatever else the message says', async (t) => {
  const s3 = await openBucket(t);
  await putObject(s3, OURS + ID, 'the record');
  const store = new PayloadStore(s3, BUCKET, JOB);
  const body = JSON.stringify({
    uri: 'u',
    pointer: OURS + ID,
    bucket: 'other',
    Bucket: 'other',
    region: 'x',
  });
  assert.deepEqual(await store.resolve([body]), ['the record']);
});

test('a payload that is a pointer itself leads nowhere', async (t) => {
  const s3 = await openBucket(t);
  const second = encodePointer('u', `${OURS}second`);
  await putObject(s3, `${OURS}first`, second);
  await putObject(s3, `${OURS}second`, 'the record');
  const store = new PayloadStore(s3, BUCKET, JOB);
  assert.deepEqual(await store.resolve([encodePointer('u', `${OURS}first`)]), [second]);
});

test('where a payload lies cannot be guessed, and is a pointer of this job only', async (t) => {
  const s3 = await openBucket(t);
  const store = new PayloadStore(s3, BUCKET, JOB);
  const key = await store.put('the record');
  assert.match(key, /^payloads\/job\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  const body = encodePointer('u', key);
  assert.deepEqual(await store.resolve([body]), ['the record']);
  assert.deepEqual(await new PayloadStore(s3, BUCKET, 'other').resolve([body]), [body]);
});

test('a payload that is not there is a failure of its record, and names no other place', async (t) => {
  const s3 = await openBucket(t);
  const [answer] = await new PayloadStore(s3, BUCKET, JOB).resolve([encodePointer('u', OURS + randomUUID())]);
  assert.ok(answer instanceof ServingError);
  assert.deepEqual([answer.code, answer.uri], ['bad_request', 'u']);
  assert.ok(!answer.message.includes(BUCKET));
});
