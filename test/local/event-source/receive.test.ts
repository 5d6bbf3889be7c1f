import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { type Message, SQSClient } from '@aws-sdk/client-sqs';
import { Deleter } from '../../../local/event-source/delete.ts';
import { backoffMs, Receiver } from '../../../local/event-source/receive.ts';

const warnings: string[] = [];
const errors: string[] = [];
const log = {
  info: () => undefined,
  warn: (message: string) => warnings.push(message),
  error: (message: string) => errors.push(message),
};

interface Call {
  readonly input: {
    MaxNumberOfMessages?: number;
    Entries?: readonly { Id: string; ReceiptHandle: string }[];
  };
  readonly signal: AbortSignal | undefined;
}
let calls: Call[] = [];
let received: Message[] = [];

/** The real client with its network replaced by `answer`. */
function clientOf(answer: (call: Call) => unknown): SQSClient {
  const sqs = new SQSClient({ region: 'us-east-1' });
  const send = async (command: { input: Call['input'] }, options?: { abortSignal?: AbortSignal }) => {
    const call = { input: command.input, signal: options?.abortSignal };
    calls.push(call);
    return answer(call);
  };
  return Object.assign(sqs, { send });
}

function receiverOf(answer: (call: Call) => unknown, room: () => number): Receiver {
  return new Receiver({
    sqs: clientOf(answer),
    queueUrl: 'http://127.0.0.1/q',
    waitSeconds: 20,
    log,
    clock: () => 0,
    random: () => 1,
    room,
    onMessages: (messages) => received.push(...messages),
  });
}

/** Lets everything that needs no timer happen. */
const settle = async () => {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
};
const tick = async (ms: number) => {
  mock.timers.tick(ms);
  await settle();
};
const untilAborted = (call: Call) =>
  new Promise<never>((_resolve, reject) => {
    call.signal?.addEventListener('abort', () => reject(new Error('aborted')));
  });
const messagesFor = (call: Call) =>
  Array.from({ length: call.input.MaxNumberOfMessages ?? 0 }, (_, index) => ({ MessageId: String(index) }));

beforeEach(() => {
  calls = [];
  received = [];
  warnings.length = 0;
  errors.length = 0;
  mock.timers.enable({ apis: ['setTimeout'] });
});
afterEach(() => mock.timers.reset());

describe('receiving', () => {
  it('keeps one long poll open while it is quiet', async () => {
    const receiver = receiverOf(untilAborted, () => 1000);
    receiver.pump();
    receiver.pump();
    await settle();
    assert.equal(calls.length, 1);
    assert.equal(calls[0]?.input.MaxNumberOfMessages, 10);
    await receiver.stop();
    assert.deepEqual(warnings, []);
  });

  it('polls with up to five calls at once under load, and with one again when the queue is empty', async () => {
    let load = true;
    let open: ((reply: object) => void)[] = [];
    const receiver = receiverOf(
      (call) =>
        new Promise((resolve) => open.push(() => resolve(load ? { Messages: messagesFor(call) } : {}))),
      () => 1_000_000,
    );
    const answerAll = async () => {
      const now = open;
      open = [];
      for (const answer of now) answer({});
      await settle();
    };
    receiver.pump();
    for (const expected of [2, 5, 5]) {
      await answerAll();
      assert.equal(open.length, expected);
    }
    load = false;
    await answerAll();
    await tick(200);
    assert.equal(open.length, 1);
    const stopped = receiver.stop();
    await answerAll();
    await stopped;
  });

  it('polls with one call less after each answer that is not full, down to one', async () => {
    let open: ((count: number) => void)[] = [];
    const receiver = receiverOf(
      (call) =>
        new Promise((resolve) =>
          open.push((count) => resolve({ Messages: messagesFor(call).slice(0, count) })),
        ),
      () => 1_000_000,
    );
    receiver.pump();
    for (const [counts, expected] of [
      [[9], 1],
      [[10], 2],
      [[10, 10], 5],
      [[9, 9, 10, 10, 10], 5],
      [[9, 9, 9, 9, 9], 1],
      [[1], 1],
      [[0], 1],
    ] as const) {
      const now = open;
      open = [];
      for (const [index, answer] of now.entries()) answer(counts[index] ?? 0);
      await settle();
      assert.equal(open.length, expected, String(counts));
    }
    const stopped = receiver.stop();
    for (const answer of open) answer(0);
    await stopped;
  });

  it('asks for no more messages than there is room for, calls under way included', async () => {
    let room = 14;
    let answered = 0;
    const receiver = receiverOf(
      (call) => {
        answered += 1;
        return answered === 1 ? { Messages: messagesFor(call) } : untilAborted(call);
      },
      () => room - received.length,
    );
    receiver.pump();
    await settle();
    assert.deepEqual(
      calls.map((call) => call.input.MaxNumberOfMessages),
      [10, 4],
    );
    room = 0;
    receiver.pump();
    assert.equal(calls.length, 2);
    await receiver.stop();
  });

  it('does not spin when empty answers come at once', async () => {
    const receiver = receiverOf(
      () => ({}),
      () => 10,
    );
    receiver.pump();
    await settle();
    assert.equal(calls.length, 3);
    await tick(7);
    assert.equal(calls.length, 3);
    await tick(1);
    assert.equal(calls.length, 4);
    for (let second = 0; second < 10; second += 1) await tick(1000);
    const total: number = calls.length;
    assert.ok(total < 60, `${total} calls`);
    await receiver.stop();
  });

  it('waits longer after each error, up to 10 s, and recovers', async () => {
    let broken = true;
    const receiver = receiverOf(
      (call) => (broken ? Promise.reject(new Error('SQS is down')) : untilAborted(call)),
      () => 10,
    );
    receiver.pump();
    await settle();
    for (const [tries, pauseMs] of [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000].entries()) {
      assert.equal(calls.length, tries + 1);
      await tick(pauseMs - 1);
      assert.equal(calls.length, tries + 1);
      await tick(1);
    }
    assert.equal(receiver.errors, 10);
    assert.equal(warnings.length, 10);
    assert.match(warnings[1] ?? '', /receiving failed, next try in 200 ms/);
    broken = false;
    await tick(10_000);
    assert.equal(calls.length, 11);
    await receiver.stop();
    assert.equal(receiver.errors, 10);
  });

  it('waits as after a first error once a call was answered, and after a stop for nothing', async () => {
    const answers = ['fails', 'fails', 'answers', 'fails'];
    const receiver = receiverOf(
      (call) => {
        const next = answers.shift();
        if (next === 'fails') return Promise.reject(new Error('SQS is down'));
        return next ? { Messages: messagesFor(call).slice(1) } : untilAborted(call);
      },
      () => 10,
    );
    receiver.pump();
    await settle();
    await tick(100);
    await tick(200);
    assert.deepEqual(
      warnings.map((warning) => warning.replace(/^.* in /, '')),
      ['100 ms', '200 ms', '100 ms'],
    );
    await receiver.stop();
    receiver.rest(1);
    await tick(10_000);
    assert.equal(calls.length, 4);
  });

  it('does not pause after an empty answer that had waited', async () => {
    let [nowMs, waits] = [0, true];
    const receiver = new Receiver({
      sqs: clientOf((call) => {
        nowMs += 100;
        if (calls.length > 8) waits = false;
        return waits ? {} : untilAborted(call);
      }),
      queueUrl: 'http://127.0.0.1/q',
      waitSeconds: 20,
      log,
      clock: () => nowMs,
      random: () => 1,
      room: () => 10,
      onMessages: () => undefined,
    });
    receiver.pump();
    await settle();
    assert.equal(calls.length, 9);
    await receiver.stop();
  });

  it('leaves no timer of a call that was answered, or of a pause', async (t) => {
    const stops = t.mock.method(globalThis, 'clearTimeout');
    const starts = t.mock.method(globalThis, 'setTimeout');
    let answered = 0;
    const receiver = receiverOf(
      () => (answered++ === 0 ? {} : Promise.reject(new Error('SQS is down'))),
      () => 10,
    );
    receiver.pump();
    await settle();
    await receiver.stop();
    const stopped = new Set(stops.mock.calls.map(({ arguments: [timer] }) => timer));
    const started = starts.mock.calls.map(({ result }) => result);
    // Before the mocked timers end, or these would be put back after them.
    stops.mock.restore();
    starts.mock.restore();
    assert.ok(started.length > 0);
    for (const timer of started) assert.ok(stopped.has(timer));
  });

  it('gives up a long poll that is never answered', async () => {
    const receiver = receiverOf(untilAborted, () => 10);
    receiver.pump();
    await tick(29_999);
    assert.equal(calls[0]?.signal?.aborted, false);
    await tick(1);
    assert.equal(calls[0]?.signal?.aborted, true);
    await receiver.stop();
  });

  it('hands on what a call still brings after stop', async () => {
    const receiver = receiverOf(
      (call) =>
        new Promise((resolve) =>
          call.signal?.addEventListener('abort', () => resolve({ Messages: messagesFor(call) })),
        ),
      () => 3,
    );
    receiver.pump();
    await receiver.stop();
    assert.equal(received.length, 3);
    assert.equal(calls.length, 1);
  });

  it('takes a random half of each wait', () => {
    assert.equal(
      backoffMs(0, () => 0),
      50,
    );
    assert.equal(
      backoffMs(0, () => 1),
      100,
    );
    assert.equal(
      backoffMs(1000, () => 1),
      10_000,
    );
  });
});

describe('deleting', () => {
  const deleterOf = (answer: (call: Call) => unknown) =>
    new Deleter({ sqs: clientOf(answer), queueUrl: 'http://127.0.0.1/q', log, random: () => 1 });
  const handles = (count: number) => Array.from({ length: count }, (_, index) => `h${index}`);
  const sent = (call: Call | undefined) => call?.input.Entries?.map((entry) => entry.ReceiptHandle);

  it('sends ten to a call and four calls at once', async () => {
    let answer: (() => void)[] = [];
    const deleter = deleterOf(() => new Promise((resolve) => answer.push(() => resolve({}))));
    const done = deleter.delete(handles(45));
    await settle();
    assert.equal(calls.length, 4);
    while (deleter.deleted < 45) {
      const now = answer;
      answer = [];
      for (const one of now) one();
      await settle();
    }
    await done;
    assert.deepEqual(calls.flatMap(sent), handles(45));
    assert.deepEqual(
      calls.map((call) => call.input.Entries?.length),
      [10, 10, 10, 10, 5],
    );
  });

  it('tries again what SQS failed to delete, and only that', async () => {
    const deleter = deleterOf(() =>
      calls.length === 1 ? { Failed: [{ Id: '1', Code: 'InternalError', SenderFault: false }] } : {},
    );
    const done = deleter.delete(handles(3));
    await settle();
    await tick(100);
    await done;
    assert.deepEqual(calls.map(sent), [handles(3), ['h1']]);
    assert.equal(deleter.deleted, 3);
  });

  it('tries a failed call again, and gives up after five tries', async () => {
    const deleter = deleterOf(() => Promise.reject(new Error('down')));
    const done = deleter.delete(handles(2));
    for (let second = 0; second < 20; second += 1) await tick(1000);
    await done;
    assert.equal(calls.length, 5);
    assert.equal(deleter.failed, 2);
    assert.equal(errors.length, 2);
  });

  it('does not try an expired receipt handle again', async () => {
    const failure = { Id: '0', Code: 'ReceiptHandleIsInvalid', SenderFault: true };
    const deleter = deleterOf(() => ({ Failed: [failure] }));
    await deleter.delete(handles(2));
    assert.equal(calls.length, 1);
    assert.equal(deleter.failed, 1);
    assert.equal(deleter.deleted, 1);
  });
});
