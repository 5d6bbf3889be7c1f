/** Outcomes that end tasks of Step Functions: from the record to the call that ends the task, with a real store and signatures. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { enqueueOf, newAttributes, replayAttributes } from '../../../lib/codecs/attributes.ts';
import { decodeDeadLetter, encodeDeadLetter, replayOf } from '../../../lib/codecs/dead-letter.ts';
import { stateMachineOf } from '../../../lib/contract/aws-address.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { assertTarget, isNotice, type Notice, type Targets } from '../../../lib/contract/notice.ts';
import { present } from '../../../lib/contract/present.ts';
import type { Outcome } from '../../../lib/contract/values.ts';
import { awsSender } from '../../../lib/notify/aws.ts';
import { deliverer } from '../../../lib/notify/deliver.ts';
import { notifyTargets } from '../../../lib/notify/notifier.ts';
import { encodeParcel, readParcels } from '../../../lib/notify/parcels.ts';
import { announceOutcomes } from '../../../lib/results/announce.ts';
import { resultSink } from '../../../lib/results/sink.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { KEYS, SIGNED_REGION } from '../../support/signed-api.ts';
import { STATE_MACHINE, startStepFunctions, type Tasks } from '../../support/step-functions.ts';

const TARGETS: Targets = { flow: { stepFunctions: STATE_MACHINE } };
const FLOW = present(stateMachineOf(STATE_MACHINE), 'state machine');
const { accessKeyId, secretAccessKey, sessionToken } = KEYS;

function senderTo({ url }: Pick<Tasks, 'url'>) {
  const place = {
    region: SIGNED_REGION,
    credentials: { accessKeyId, secretAccessKey, sessionToken },
    endpoint: url,
  };
  return awsSender({ place: () => place });
}

/** The notices of outcomes that are stored now. */
async function noticesOf(records: readonly (readonly [uri: string, token: string, outcome: Outcome])[]) {
  const put: Notice[] = [];
  const announce = announceOutcomes({
    targets: TARGETS,
    results: { get: async () => undefined },
    put: async (notices) => void put.push(...notices),
    job: 'job',
    place: 'bucket',
  });
  const sink = resultSink({ save: async (all) => all.length }, { announce });
  const finished = records.map(([uri, taskToken, outcome]) => ({
    id: uri,
    uri,
    enqueue: { identity: 'i', sentAt: 1, replays: 0, notify: 'flow', taskToken },
    outcome,
  }));
  assert.deepEqual(await sink.save(finished, 'v1'), []);
  return put;
}

const good = (length: number): Outcome => ({
  ok: true,
  outputs: [
    { name: 'y', dtype: 'float32', shape: [length], data: new Float32Array(length).fill(0.123_456_79) },
  ],
});
const bad = (code: 'bad_input' | 'record_expired' | 'max_receives_exceeded', message: string): Outcome => ({
  ok: false,
  error: new ServingError(code, message),
});

test('a task ends with the result as its output, or with the code of the error and the outcome as the cause', async (t) => {
  const tokens = ['good', 'bad', 'old', 'dead', 'verbose'];
  const flow = await startStepFunctions(t, tokens);
  const send = senderTo(flow);
  const notices = await noticesOf([
    ['a', 'good', good(2)],
    ['b', 'bad', bad('bad_input', 'no such input')],
    ['c', 'old', bad('record_expired', 'too old')],
    ['d', 'dead', bad('max_receives_exceeded', 'too often')],
    ['e', 'verbose', bad('bad_input', 'ü'.repeat(40_000))],
  ]);
  for (const notice of notices) assert.deepEqual(await send(notice, FLOW), { ok: true });
  const output: Ended = JSON.parse(flow.tasks.get('good')?.output ?? '');
  assert.deepEqual(
    [output.uri, output.status, output.version, output.identity, output.result?.uri],
    ['a', 'succeeded', 'v1', 'i', 'a'],
  );
  const ends = tokens.slice(1).map((token) => flow.tasks.get(token));
  assert.deepEqual(
    ends.map((end) => end?.error),
    ['bad_input', 'record_expired', 'max_receives_exceeded', 'bad_input'],
  );
  const cause: Ended = JSON.parse(ends[0]?.cause ?? '');
  assert.deepEqual(
    [cause.uri, cause.status, cause.error],
    ['b', 'failed', { code: 'bad_input', message: 'no such input' }],
  );
  assert.ok((ends[3]?.cause ?? '').length > 1_000);
});

interface Ended {
  readonly uri: string;
  readonly status: string;
  readonly version?: string;
  readonly identity: string;
  readonly result?: { readonly uri: string };
  readonly resultTooLarge?: boolean;
  readonly location?: string;
  readonly error?: { readonly code: string; readonly message: string };
}

test('a result of up to 256 kB is in the output, and a larger one is left out with the address where it is', async (t) => {
  const flow = await startStepFunctions(t, ['fits', 'large']);
  const send = senderTo(flow);
  const uri = 'ü'.repeat(LIMITS.uriBytes / 2);
  const notices = await noticesOf([
    ['fits', 'fits', good(20_000)],
    [uri, 'large', good(40_000)],
  ]);
  for (const notice of notices) assert.deepEqual(await send(notice, FLOW), { ok: true });
  const fits = flow.tasks.get('fits')?.output ?? '';
  assert.ok(Buffer.byteLength(fits) > 200_000);
  assert.equal((JSON.parse(fits) as Ended).resultTooLarge, undefined);
  const large: Ended = JSON.parse(flow.tasks.get('large')?.output ?? '');
  assert.deepEqual(
    [large.result, large.resultTooLarge, large.location],
    [undefined, true, `/predictions?uri=${encodeURIComponent(uri)}`],
  );
  // Each length up to the limit fits, with the notice in the queue that waits to be sent again.
  for (let length = 22_000; length < 24_500; length += 97) {
    const [notice] = await noticesOf([[uri, 't'.repeat(2_048), good(length)]]);
    const { body } = present(notice, 'notice');
    assert.ok(Buffer.byteLength(body.slice(body.indexOf('"data":') + 7, -1)) <= 262_144);
    assert.ok(
      Buffer.byteLength(encodeParcel({ notice: present(notice, 'notice'), attempt: 0 })) <= 1_048_576,
    );
  }
});

/** Sends notices as the notifier does. */
function notifier(t: TestContext, tasks: Pick<Tasks, 'url'>) {
  quietLog(t);
  const [later, given, dropped]: [string[], string[], string[]] = [[], [], []];
  const handle = notifyTargets({
    outbox: { read: async () => undefined, remove: async () => undefined, async *pages() {} },
    pauses: { isPaused: async () => false, pause: async () => assert.fail('nothing is paused') },
    deliver: deliverer({
      targets: TARGETS,
      webhooks: { send: () => assert.fail('no target is a webhook') },
      sendToAws: senderTo(tasks),
      readSecret: () => assert.fail('no target has a secret'),
      now: Date.now,
    }),
    sendLater: async (text) => void later.push(text),
    giveUp: async (text) => void given.push(text),
    onDropped: (target) => void dropped.push(target),
    now: Date.now,
    random: () => 1,
  });
  const run = (notices: readonly Notice[]) => {
    const Records = notices.map((notice, i) => ({
      messageId: `m${i}`,
      body: encodeParcel({ notice, attempt: 0 }),
      attributes: { SentTimestamp: '0' },
    }));
    return handle({ Records } as unknown as SQSEvent);
  };
  return { later, given, dropped, run };
}

test('an outcome for a task that has ended is dropped and counted; one with a wrong token or without one is given up at once', async (t) => {
  const flow = await startStepFunctions(t, ['once']);
  const { later, given, dropped, run } = notifier(t, flow);
  const [once, wrong] = await noticesOf([
    ['a', 'once', good(1)],
    ['b', 'another', good(1)],
  ]);
  const { taskToken: _, ...without } = present(once, 'notice');
  await run([present(once, 'notice')]);
  const { output } = present(flow.tasks.get('once'), 'end');
  // The batch function announces an outcome again when it may not have been.
  await run([present(once, 'notice'), present(wrong, 'notice'), without]);
  assert.equal(flow.tasks.get('once')?.output, output);
  assert.deepEqual([dropped, later], [['flow'], []]);
  const reasons = given.map((text) => (JSON.parse(text) as { reason: string }).reason).toSorted();
  assert.deepEqual(reasons, [
    'InvalidToken: why',
    'the record has no token of a task: its attribute taskToken',
  ]);
});

test('a notice that waits has no character that SQS refuses, and is opened as it was', async () => {
  const notice = { id: 'msg_1', target: 'flow', body: '{"uri":"a\ufffe\uffff"}', taskToken: 't' };
  const text = encodeParcel({ notice, attempt: 0 });
  assert.doesNotMatch(text, /[\ufffe\uffff]/);
  const { parcels } = await readParcels(text, () => assert.fail('nothing is read'));
  assert.deepEqual(parcels[0]?.notice, notice);
});

test('the end of a task that could not be reported waits to be reported again, with its token', async (t) => {
  const flow = await startStepFunctions(t, ['one'], () => true);
  const { later, run } = notifier(t, flow);
  await run(await noticesOf([['a', 'one', good(1)]]));
  assert.equal((JSON.parse(later[0] ?? '') as { notice: Notice }).notice.taskToken, 'one');
});

test('a token travels with a record, with its dead letter and with the replay of that, and is dropped where it cannot be one', () => {
  const taskToken = 'AQCEAAAAKgAAAAMAAAAAAAAAAZ/+=$&'.repeat(66).slice(0, 2_048);
  const notified = { notify: 'flow', taskToken };
  const received = (attributes: ReturnType<typeof newAttributes>) =>
    enqueueOf({
      messageId: 'm',
      attributes: { SentTimestamp: '5' },
      messageAttributes: Object.fromEntries(
        Object.entries(attributes).map(([name, { StringValue }]) => [name, { stringValue: StringValue }]),
      ),
    });
  const enqueue = received(newAttributes('i', undefined, notified));
  assert.deepEqual([enqueue.notify, enqueue.taskToken], ['flow', taskToken]);
  const letter = { ...enqueue, messageId: 'm', attempts: 1, body: '{}' };
  const replayed = received(replayAttributes(replayOf(decodeDeadLetter(encodeDeadLetter(letter)))));
  assert.deepEqual([replayed.notify, replayed.taskToken, replayed.replays], ['flow', taskToken, 1]);
  for (const wrong of ['', 'a b', 'ü', 'x'.repeat(2_049)])
    assert.equal(
      received(newAttributes('i', undefined, { notify: 'flow', taskToken: wrong })).taskToken,
      undefined,
    );
  assert.equal(isNotice({ id: 'a', target: 'flow', body: '{}', taskToken: 7 }), false);
});

const REFUSED: readonly (readonly [given: object, message: RegExp])[] = [
  [{ taskToken: 't' }, /needs notify/],
  [{ notify: 'flow' }, /"flow" ends a task of Step Functions; give its token as taskToken/],
  [{ notify: 'shop', taskToken: 't' }, /the target "shop" has no stepFunctions/],
  [{ notify: 'flow', taskToken: 'x'.repeat(2_049) }, /of at most 2048 characters/],
  [{ notify: 'flow', taskToken: ['t'] }, /expected the token of a task/],
];
for (const [given, message] of REFUSED)
  test(`a record with ${JSON.stringify(given).slice(0, 60)} is refused`, () => {
    assert.throws(() => assertTarget(given, { ...TARGETS, shop: { url: 'https://shop.example/' } }), {
      code: 'bad_request',
      message,
    });
  });
