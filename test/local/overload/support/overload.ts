/**
 * F13: runs a service under ten times its capacity and returns the outcome of every request and record, with its
 * state before and after. The capacity is measured first, because a number from another machine would be no overload
 * here, or far too much.
 */
import { InputQueue } from '../../../../sdk/input-queue.ts';
import { OutputQueue } from '../../../../sdk/output-queue.ts';
import { until } from '../../../support/until.ts';
import { type LoadReport, makeLoad } from './load.ts';
import { JOB, type Service } from './service.ts';

export interface OverloadPlan {
  /** How long one request keeps the model busy. */
  readonly rounds: number;
  readonly measureSeconds: number;
  readonly overloadSeconds: number;
  readonly times: number;
  /** Records a second into the queue meanwhile. */
  readonly recordsPerSecond: number;
  /** The load of POST /predict is ten times this where the job has a limit of its own. */
  readonly limitPerSecond?: number;
}

export interface OverloadReport {
  /** Answers of POST /predict a second, eight callers one after the other. */
  readonly capacityPerSecond: number;
  readonly unloaded: LoadReport;
  readonly overloaded: LoadReport;
  readonly overloadMs: number;
  readonly records: LoadReport;
  /** Records that were accepted and have no result in the end, or another than the model's. */
  readonly lost: readonly string[];
  readonly drainMs: number;
  readonly memoryBeforeMb: number;
  readonly memoryAfterMb: number;
}

const CALLERS = 8;
const QUIET_ANSWERS = 20;
/** An event that fails comes again after its 180 s: late is not lost. */
const RESULT_WITHIN_MS = 600_000;

export async function overload(service: Service, plan: OverloadPlan): Promise<OverloadReport> {
  const { rounds, times, measureSeconds } = plan;
  const predict = { url: service.url, endpoint: 'predict' as const, rounds };
  // Where there is a limit per second, eight callers would only find that.
  const capacityPerSecond = plan.limitPerSecond ?? (await capacity(service, rounds, measureSeconds));
  const unloaded = await makeLoad({
    ...predict,
    name: 'calm',
    requestsPerSecond: Math.max(2, capacityPerSecond / 10),
    seconds: measureSeconds,
  });
  const memoryBeforeMb = await service.memoryMb();
  const startedMs = performance.now();
  const [overloaded, records] = await Promise.all([
    makeLoad({
      ...predict,
      name: 'over',
      requestsPerSecond: capacityPerSecond * times,
      seconds: plan.overloadSeconds,
    }),
    makeLoad({
      ...predict,
      name: 'record',
      endpoint: 'queue',
      requestsPerSecond: plan.recordsPerSecond,
      seconds: plan.overloadSeconds,
    }),
  ]);
  const overloadMs = performance.now() - startedMs;
  const lost = await drained(service, records.uris, rounds);
  const drainMs = performance.now() - startedMs - overloadMs;
  // Slower than the limit, if there is one: who asks faster is refused at any time.
  await servesAgain(service, rounds, plan.limitPerSecond ? 1_500 / plan.limitPerSecond : 0);
  const memoryAfterMb = await service.memoryMb();
  return {
    capacityPerSecond,
    unloaded,
    overloaded,
    overloadMs,
    records,
    lost,
    drainMs,
    memoryBeforeMb,
    memoryAfterMb,
  };
}

async function ask(service: Service, rounds: number): Promise<number> {
  const response = await fetch(`${service.url}/predict`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ instances: [{ rounds }] }),
  });
  await response.arrayBuffer();
  return response.status;
}

async function capacity(service: Service, rounds: number, seconds: number): Promise<number> {
  const startedMs = performance.now();
  let answers = 0;
  const caller = async () => {
    while (performance.now() - startedMs < seconds * 1000)
      if ((await ask(service, rounds)) === 200) answers++;
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return answers / seconds;
}

/** Waits for every record. @returns those without a result, or with a wrong one */
async function drained(service: Service, uris: readonly string[], rounds: number): Promise<string[]> {
  const results = new OutputQueue({ url: service.redisUrl, name: JOB });
  const lost: string[] = [];
  try {
    // Few at a time: each that is not there yet is waited for.
    const left = [...uris];
    const reader = async () => {
      for (let uri = left.shift(); uri !== undefined; uri = left.shift()) {
        const value = await results.wait(uri, { timeoutMs: RESULT_WITHIN_MS }).then(
          ({ outputs }) => Number(outputs[0]?.data[0]),
          (error: Error) => error.message,
        );
        if (value !== rounds) lost.push(`${uri}: ${value}`);
      }
    };
    await Promise.all(Array.from({ length: 32 }, reader));
  } finally {
    await results.close();
  }
  return lost;
}

/** One caller after the other is served, through both endpoints. */
async function servesAgain(service: Service, rounds: number, pauseMs: number): Promise<void> {
  let inRow = 0;
  await until(async () => {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    inRow = (await ask(service, rounds)) === 200 ? inRow + 1 : 0;
    return inRow === QUIET_ANSWERS;
  });
  const queue = new InputQueue({ frontendUrl: service.url, name: JOB });
  const results = new OutputQueue({ url: service.redisUrl, name: JOB });
  try {
    await queue.enqueue('afterwards', { rounds: 1 });
    await results.wait('afterwards');
  } finally {
    await queue.close();
    await results.close();
  }
}
