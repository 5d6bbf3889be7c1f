/** Several observers as one. None of them can fail what it observes, or hold it up for longer than it allows. */
import { logError, logWarning } from '../contract/log.ts';
import type { FlushLimit, Observer, Observers } from '../pipeline/observer.ts';

type Fact = Exclude<keyof Observer, 'flush'>;

/** The methods of an observer. The type demands every name; the values are unused. */
const FACTS: Readonly<Record<Fact, null>> = {
  requestArrived: null,
  requestAccepted: null,
  requestAnswered: null,
  recordsArrived: null,
  recordsRan: null,
  recordsAnswered: null,
  runEnded: null,
  recordsStored: null,
  functionOpened: null,
  functionCalled: null,
  functionAnswered: null,
  rowsRead: null,
  inferenceEnded: null,
  stepEnded: null,
  requestServed: null,
  messageSent: null,
  resultRefused: null,
  messageArchived: null,
  noticeDropped: null,
  capturesLost: null,
  budgetExceeded: null,
  budgetUnknown: null,
  canaryRolledBack: null,
  shadowAsked: null,
  chunkServed: null,
  eventFailed: null,
  eventServed: null,
  eventReturned: null,
  modelChanged: null,
};

/** @param list told in this order. @param now a clock in ms that never goes back */
export function together(list: readonly Observer[], now: () => number): Observers {
  const failed = new Set<Observer>();
  const drop = (observer: Observer, error: unknown) => {
    if (failed.has(observer)) return;
    failed.add(observer);
    logError(error, { phase: 'observer' });
  };
  const told: Partial<Record<Fact, (fact: unknown) => void>> = {};
  for (const name of Object.keys(FACTS) as Fact[]) {
    const those = list.filter((one) => one[name]) as Record<Fact, (fact: unknown) => void>[];
    if (those.length === 0) continue;
    told[name] = (fact) => {
      for (const one of those) {
        try {
          one[name](fact);
        } catch (error) {
          drop(one, error);
        }
      }
    };
  }
  const flushing = list.filter((one) => 'flush' in one);
  let late = 0;
  return {
    ...told,
    now,
    start(step) {
      const end = told.stepEnded;
      if (!end) return () => undefined;
      const startedMs = now();
      return () => end({ step, tookMs: now() - startedMs });
    },
    ...(flushing.length > 0 && {
      flush(limit: FlushLimit) {
        const works: Promise<unknown>[] = [];
        for (const one of flushing) {
          const work = flushed(one, limit, (error) => drop(one, error));
          if (work) works.push(work);
        }
        if (works.length === 0) return undefined;
        return within(limit.leftMs(), Promise.all(works), () => {
          late++;
          // At 1, 2, 4, 8 …
          if ((late & (late - 1)) === 0) logWarning('observers took too long, and were left', { late });
        });
      },
    }),
  };
}

function flushed(observer: Observer, limit: FlushLimit, drop: (error: unknown) => void) {
  try {
    return observer.flush?.(limit)?.catch(drop);
  } catch (error) {
    drop(error);
    return undefined;
  }
}

async function within(limitMs: number, work: Promise<unknown>, onLate: () => void): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      onLate();
      resolve();
    }, limitMs);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
