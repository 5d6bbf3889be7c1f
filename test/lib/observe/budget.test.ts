/** Costs that an environment counts, when it delivers them, and when it refuses requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Spent } from '../../../lib/contract/budget.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { Budget } from '../../../lib/observe/budget.ts';
import { deployedSpending, machineSpending } from '../../../lib/observe/spending.ts';

const NOON = Date.parse('2026-11-29T12:00:00Z');
const DAY_MS = 86_400_000;
const SIZE = { memoryMB: 1_024, arch: 'x86_64' } as const;
/** Dollars of a ms of 1 GB, of an invocation with its log, of a request at the API with its log. */
const MS = 0.000_016_666_7 / 1_000;
const CALL = 0.2e-6 + 0.45e-6;
const REQUEST = 1e-6 + 0.2e-6;
const SQS = 0.4e-6;

/** One day's limit, on a store that other environments may add to. */
function environment({ perDay = 5, perMonth = 0 } = {}) {
  const clock = { ms: 0, date: NOON };
  const store = { isAway: false, added: 0, sums: new Map<string, number>() };
  const said = { unknown: 0, refused: 0, over: 0, reached: [] as Spent[] };
  const budget = new Budget({
    limits: { perDay, perMonth },
    async add(month, dollars) {
      if (store.isAway) throw new ServingError('results_unavailable', 'away');
      store.added++;
      for (const [name, amount] of dollars)
        store.sums.set(`${month} ${name}`, (store.sums.get(`${month} ${name}`) ?? 0) + amount);
      return new Map([...dollars.keys()].map((name) => [name, store.sums.get(`${month} ${name}`) ?? 0]));
    },
    now: () => clock.ms,
    date: () => clock.date,
    onRefused: () => void said.refused++,
  });
  budget.onReached = async (spent) => void said.reached.push(spent);
  const deployed = deployedSpending(budget, {
    size: SIZE,
    isProvisioned: false,
    isTraced: () => false,
    now: () => clock.ms,
    onOver: () => void said.over++,
    onUnknown: () => void said.unknown++,
  });
  const others = (dollars: number, day = '29', month = '2026-11') => {
    for (const name of [day, 'month'])
      store.sums.set(`${month} ${name}`, (store.sums.get(`${month} ${name}`) ?? 0) + dollars);
  };
  const sum = (name = '29') => store.sums.get(`2026-11 ${name}`) ?? 0;
  return { clock, store, said, budget, deployed, others, sum };
}

const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) < 1e-15, `${actual} is not ${expected}`);

type Observed = ReturnType<typeof environment>;

/** A call of a function that takes so many ms, with the delivery 2 ms before its end. */
async function call({ clock, deployed }: Observed, ms: number, bytes?: number, event?: object) {
  const messages = event && 1;
  deployed.functionCalled?.({ ids: {}, messages, bytes: () => bytes ?? 0 });
  clock.ms += ms - 2;
  if (event) deployed.eventServed?.(event);
  await deployed.flush?.({ leftMs: () => 2_000 });
  clock.ms += 2;
  deployed.functionAnswered?.(undefined);
}

const message = (body: string) => ({ Records: [{ messageId: 'a', body }] });

test('a request costs its opening, its billed time, its invocation and its unit of the API', async () => {
  const all = environment();
  all.clock.ms = 800.2;
  all.deployed.functionOpened?.({ tookMs: 300 });
  await call(all, 12.5, 600 * 1_024);
  // The time after the delivery is delivered with the next call.
  const second = REQUEST + 1e-6;
  near(all.sum(), 801 * MS + 11 * MS + CALL + second);
  await all.budget.read();
  near(all.sum(), 801 * MS + 13 * MS + CALL + second);
  near(all.sum('month'), all.sum());
});

test('an opening that goes on in the first call is counted once, and one that was provisioned not at all', async () => {
  const late = environment();
  late.clock.ms = 10_000;
  late.deployed.functionCalled?.({ ids: {}, messages: undefined, bytes: () => 0 });
  late.clock.ms += 500;
  late.deployed.functionOpened?.({ tookMs: 10_500 });
  late.deployed.functionAnswered?.(undefined);
  await late.budget.read();
  near(late.sum(), 10_500 * MS + CALL + REQUEST);
  const { budget, clock, sum } = environment();
  const isProvisioned = true;
  const options = {
    size: SIZE,
    isProvisioned,
    isTraced: () => true,
    now: () => clock.ms,
    onOver: () => undefined,
    onUnknown: () => undefined,
  };
  const deployed = deployedSpending(budget, options);
  clock.ms = 3_600_000;
  deployed.functionOpened?.({ tookMs: 500 });
  deployed.functionCalled?.({ ids: {}, messages: undefined, isScheduled: true, bytes: () => 0 });
  clock.ms += 7;
  deployed.functionAnswered?.(undefined);
  await budget.read();
  near(sum(), 7 * MS + CALL + 5e-6);
});

test('an event of the queue costs its messages and its time, and nothing of the API', async () => {
  const all = environment();
  await call(all, 40, 0, message('x'.repeat(100)));
  await all.budget.read();
  near(all.sum(), 40 * MS + CALL + 3 * SQS);
});

test('a single machine counts what the same would cost on AWS', async () => {
  const { budget, sum } = environment();
  const machine = machineSpending(budget, SIZE);
  const route = { method: 'POST', route: '/predict' };
  machine.requestAccepted?.({ ...route, functionName: 'predict', client: 'a', bytes: 600 * 1_024 });
  machine.requestAnswered?.({ ...route, functionName: 'predict', status: 200, tookMs: 4.2 });
  machine.requestAnswered?.({ ...route, functionName: 'status', status: 200, tookMs: 2 });
  machine.requestAnswered?.({ ...route, functionName: undefined, status: 404, tookMs: 1 });
  machine.recordsRan?.({ source: 'request', outcomes: [], tookMs: 4 });
  machine.recordsRan?.({ source: 'queue', outcomes: [], tookMs: 30 });
  machine.eventServed?.(message('x'));
  budget.spendObjects(1, 1);
  await machine.flush?.({ leftMs: () => 2_000 });
  const requests = 5 * MS + 2 * (MS / 2) + 2 * (CALL + REQUEST) + 1e-6;
  near(sum(), requests + 30 * MS + CALL + 3 * SQS + 5.4e-6);
});

test('an environment delivers with its first answer, then every five seconds', async () => {
  const all = environment();
  await all.budget.open();
  all.store.added = 0;
  await call(all, 10);
  assert.equal(all.store.added, 1);
  for (let i = 0; i < 99; i++) await call(all, 50);
  assert.equal(all.store.added, 1);
  await call(all, 60);
  assert.equal(all.store.added, 2);
});

test('requests are answered up to the limit of all environments together, and then refused until the day is over', async () => {
  const all = environment();
  const acquired: string[] = [];
  const limiter = all.budget.before({ acquire: async () => void acquired.push('token') });
  const acquire = async () => limiter.acquire();
  await all.budget.open();
  await acquire();
  all.others(5);
  await acquire();
  await call(all, 10);
  await assert.rejects(acquire(), ({ code, message: text, retryAfterSeconds }: ServingError) => {
    assert.deepEqual([code, retryAfterSeconds], ['rate_limited', 3_600]);
    assert.match(text, /budget\.perDay.*2026-11-30T00:00:00\.000Z/);
    assert.doesNotMatch(text, /5/, 'a caller need not know the amounts');
    return true;
  });
  assert.deepEqual([acquired.length, all.said.refused], [2, 1]);
  all.clock.date += DAY_MS / 2;
  await acquire();
  assert.equal(acquired.length, 3);
});

test('the limit of a month is kept through its days', async () => {
  const all = environment({ perDay: 0, perMonth: 10 });
  all.others(10, '28');
  await all.budget.open();
  const acquire = async () => all.budget.before(undefined).acquire();
  await assert.rejects(acquire(), /budget\.perMonth/);
  all.clock.date += DAY_MS;
  await assert.rejects(acquire(), /budget\.perMonth.*2026-12-01/);
  all.clock.date += DAY_MS;
  await acquire();
});

test('while the sums are away requests go on, and what was not delivered is delivered later', async () => {
  const all = environment();
  all.store.isAway = true;
  const acquire = async () => all.budget.before(undefined).acquire();
  await all.budget.open();
  await acquire();
  await call(all, 10);
  all.clock.ms += 30_000;
  await call(all, 10);
  assert.equal(all.said.unknown, 2);
  all.store.isAway = false;
  all.clock.ms += 30_000;
  await call(all, 10);
  await all.budget.read();
  await call(all, 10);
  assert.equal(all.said.unknown, 3, 'not while they answer');
  await all.budget.read();
  near(all.sum(), 4 * (10 * MS + CALL + REQUEST));
});

test('a limit that is known to be reached is kept while the sums are away', async () => {
  const all = environment();
  all.others(5);
  await all.budget.open();
  all.store.isAway = true;
  all.clock.ms += 60_000;
  await call(all, 10);
  await assert.rejects(all.budget.before(undefined).acquire(), { code: 'rate_limited' });
});

test('a limit that is reached is reported once a day, and again where that failed', async () => {
  const all = environment();
  all.others(5);
  await all.budget.open();
  assert.deepEqual(all.said.reached, [{ date: '2026-11-29', day: 5, month: 5 }]);
  await all.budget.read();
  assert.equal(all.said.reached.length, 1);
  all.clock.date += DAY_MS;
  await all.budget.read();
  assert.equal(all.said.reached.length, 1);
  let fails = true;
  all.budget.onReached = async (spent) => {
    if (fails) throw new Error('S3 is away');
    all.said.reached.push(spent);
  };
  all.others(5, '30');
  await all.budget.read();
  fails = false;
  await all.budget.read();
  assert.deepEqual(all.said.reached[1], { date: '2026-11-30', day: 5, month: 10 });
});

test('events of the queue that are served over the budget are said, others are not', async () => {
  const all = environment();
  await call(all, 10, 0, message('x'));
  assert.equal(all.said.over, 0);
  all.others(5);
  await all.budget.read();
  await call(all, 10, 0, message('x'));
  await call(all, 10);
  assert.equal(all.said.over, 1);
});
