/** Several observers as one: what one of them does wrong costs neither the others nor what they observe. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { together } from '../../../lib/observe/together.ts';

const LIMIT = { leftMs: () => 10_000 };
const now = () => 0;

function capture(t: TestContext) {
  const lines: { readonly level: string; readonly message: string; readonly late?: number }[] = [];
  const write = process.stdout.write.bind(process.stdout);
  // The test runner speaks over it too.
  t.mock.method(process.stdout, 'write', (text: string | Uint8Array, ...rest: never[]) =>
    typeof text === 'string' && text.startsWith('{')
      ? lines.push(JSON.parse(text) as never)
      : write(text, ...rest),
  );
  return lines;
}

test('what an observer throws is logged once, and the others are still called, in their order', (t) => {
  const lines = capture(t);
  const seen: string[] = [];
  const broken = () => {
    throw new Error('broken');
  };
  const all = together(
    [
      { rowsRead: (rows) => seen.push(`first ${rows}`), modelChanged: broken },
      { rowsRead: broken, modelChanged: broken },
      { rowsRead: (rows) => seen.push(`last ${rows}`) },
    ],
    now,
  );
  for (const rows of [1, 2]) all.rowsRead?.(rows);
  all.modelChanged?.('v');
  t.mock.restoreAll();
  assert.deepEqual(seen, ['first 1', 'last 1', 'first 2', 'last 2']);
  assert.deepEqual(
    lines.map(({ level, message }) => [level, message]),
    [
      ['error', 'broken'],
      ['error', 'broken'],
    ],
    'once for each observer',
  );
});

test('each fact reaches the observers that ask for it', () => {
  const names =
    'requestArrived requestAccepted requestAnswered recordsArrived recordsRan runEnded recordsStored functionOpened functionCalled functionAnswered rowsRead inferenceEnded stepEnded requestServed messageSent resultRefused messageArchived noticeDropped capturesLost canaryRolledBack shadowAsked chunkServed eventFailed eventServed eventReturned modelChanged'.split(
      ' ',
    );
  for (const name of names) {
    const seen: unknown[] = [];
    const all = together([{ [name]: (fact: unknown) => seen.push(fact) }, {}], now);
    (all as unknown as Record<string, (fact: unknown) => void>)[name]?.(name);
    assert.deepEqual(seen, [name]);
  }
});

test('what no observer asks for costs nothing, and a step is timed by the clock of the path', () => {
  const none = together([{}], now);
  assert.deepEqual(Object.keys(none).sort(), ['now', 'start']);
  let ms = 5;
  const steps: unknown[] = [];
  const one = together([{ stepEnded: (step) => steps.push(step) }], () => ms);
  const stop = one.start('run');
  ms = 12;
  stop();
  assert.deepEqual(steps, [{ step: 'run', tookMs: 7 }]);
});

test('an answer waits for what is due, and not where nothing is', async () => {
  const ended: string[] = [];
  const slow = async (name: string) => {
    await new Promise((resolve) => setImmediate(resolve));
    ended.push(name);
  };
  const all = together(
    [{ flush: () => slow('a') }, { flush: () => undefined }, { flush: () => slow('b') }],
    now,
  );
  await all.flush?.(LIMIT);
  assert.deepEqual(ended, ['a', 'b']);
  assert.equal(together([{ flush: () => undefined }], now).flush?.(LIMIT), undefined);
});

test('a flush that fails, at once or later, fails nothing', async (t) => {
  const lines = capture(t);
  const all = together(
    [
      {
        flush() {
          throw new Error('at once');
        },
      },
      { flush: () => Promise.reject(new Error('later')) },
    ],
    now,
  );
  await all.flush?.(LIMIT);
  t.mock.restoreAll();
  assert.deepEqual(
    lines.map(({ message }) => message),
    ['at once', 'later'],
  );
});

test('what takes longer than an answer may wait is left and counted, and logged at 1, 2, 4, 8', async (t) => {
  const lines = capture(t);
  const all = together([{ flush: () => new Promise(() => undefined) }], now);
  for (let i = 0; i < 5; i++) await all.flush?.({ leftMs: () => 1 });
  t.mock.restoreAll();
  assert.deepEqual(
    lines.map(({ level, late }) => [level, late]),
    [
      ['warn', 1],
      ['warn', 2],
      ['warn', 4],
    ],
  );
});
