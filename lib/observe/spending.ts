/**
 * What an environment does, in dollars: of a deployed function each call with its billed time; of a single machine what the
 * same requests and records would cost on AWS, with the times of this machine.
 */
import type { Reached } from '../contract/budget.ts';
import type { ServingError } from '../contract/errors.ts';
import { billedMs, callCost, type FunctionSize, queueCost, requestCost, timeCost } from '../metrics/cost.ts';
import type { Fact, Observer } from '../pipeline/observer.ts';
import type { Budget } from './budget.ts';

interface DeployedOptions {
  readonly size: FunctionSize;
  /** True if the INIT of the environment was paid for by the hour. */
  readonly isProvisioned: boolean;
  /** True if X-Ray records the running call. */
  readonly isTraced: () => boolean;
  /** Ms since the process began. */
  readonly now: () => number;
  /** An event of the queue is served over the budget. */
  readonly onOver: (reached: Reached) => void;
  /** A request or an event comes while the sums are away. */
  readonly onUnknown: (error: ServingError) => void;
}

export function deployedSpending(budget: Budget, options: DeployedOptions): Observer {
  const { size, isProvisioned, isTraced, now, onOver, onUnknown } = options;
  let openedMs: number | undefined;
  let isFirst = !isProvisioned;
  /** The running call, and the ms of it that are counted. */
  let call: { readonly startedMs: number; counted: number } | undefined;
  const countTime = () => {
    if (!call) return;
    const ms = billedMs(now() - call.startedMs);
    budget.spend(timeCost(ms - call.counted, size));
    call.counted = ms;
  };
  return {
    functionOpened: () => void (openedMs ??= now()),
    functionCalled({ messages, isScheduled, bytes }) {
      const startedMs = now();
      // An opening that goes on in the first call is part of it.
      if (isFirst) budget.spend(timeCost(billedMs(openedMs ?? startedMs), size));
      isFirst = false;
      call = { startedMs, counted: 0 };
      budget.spend(callCost(isTraced()));
      if (isScheduled) return;
      if (budget.away) onUnknown(budget.away);
      const reached = budget.reached();
      if (messages === undefined) budget.spend(requestCost(bytes()));
      else if (reached) onOver(reached);
    },
    eventServed: (event) => budget.spend(eventCost(event)),
    functionAnswered() {
      countTime();
      call = undefined;
    },
    flush() {
      // The time after it is delivered with the next call.
      countTime();
      return budget.flush();
    },
  };
}

/** Memory of the functions that run no model, in serverless.yml. */
const OTHER_MB = 512;

/** @param size of the functions that run a model */
export function machineSpending(budget: Budget, size: FunctionSize): Observer {
  const small = { ...size, memoryMB: OTHER_MB };
  return {
    // Beyond the first unit of a request: its size is not known when it is answered.
    requestAccepted: ({ bytes }) => budget.spend(requestCost(bytes) - requestCost(0)),
    requestAnswered({ functionName, tookMs }: Fact<'requestAnswered'>) {
      if (functionName === undefined) return;
      const time = timeCost(billedMs(tookMs), functionName === 'predict' ? size : small);
      budget.spend(time + callCost(false) + requestCost(0));
    },
    recordsRan({ source, tookMs }) {
      if (source === 'queue') budget.spend(timeCost(billedMs(tookMs), size));
    },
    eventServed: (event) => budget.spend(callCost(false) + eventCost(event)),
    flush: () => budget.flush(),
  };
}

/** The price of the messages of an event in SQS. */
function eventCost(event: unknown): number {
  const { Records = [] }: { readonly Records?: readonly { readonly body?: unknown }[] } = Object(event);
  let bytes = 0;
  for (const { body } of Records) if (typeof body === 'string') bytes += Buffer.byteLength(body);
  return queueCost(Records.length, bytes);
}
