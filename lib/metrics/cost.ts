/**
 * Dollars of what a function does, by lib/contract/prices.ts. What is billed by the hour or the month, used or not, is not
 * among it: Redis, alarms, metrics, stored bytes.
 */
import {
  API_UNIT_BYTES,
  type Architecture,
  PRICES,
  QUEUE_UNIT_BYTES,
  USE_PRICES,
} from '../contract/prices.ts';

/** Decides the price of a function's time. */
export interface FunctionSize {
  readonly memoryMB: number;
  readonly arch: Architecture;
}

const MILLION = 1e6;
const GB = 1e9;
/** Bytes of logs: of a call, ours and Lambda's, and of the access log of a request. */
export const CALL_LOG_BYTES = 900;
export const ACCESS_LOG_BYTES = 400;
/** Messages of one call of SQS. */
const TOGETHER = 10;

/** Lambda bills whole milliseconds, rounded up. */
export function billedMs(ms: number): number {
  // Ignores rounding errors: 4.000000000001 is 4.
  return Math.ceil(Number(ms.toFixed(6)));
}

/** The GB-seconds of these calls. */
export function gigabyteSeconds(calls: number, ms: number, memoryMB: number): number {
  return calls * (ms / 1000) * (memoryMB / 1024);
}

/** @param ms as they are billed */
export function timeCost(ms: number, { memoryMB, arch }: FunctionSize): number {
  return gigabyteSeconds(1, ms, memoryMB) * PRICES.perGBSecond[arch];
}

/** A call without its time: the invocation and its log, and its trace where X-Ray records it. */
export function callCost(isTraced: boolean): number {
  const traces = isTraced ? USE_PRICES.tracesPerMillion : 0;
  return (PRICES.invocationsPerMillion + traces) / MILLION + logCost(CALL_LOG_BYTES);
}

/** A request at the HTTP API, and its access log. @param bytes of its body */
export function requestCost(bytes: number): number {
  const units = Math.max(1, Math.ceil(bytes / API_UNIT_BYTES));
  return (units * PRICES.apiRequestsPerMillion) / MILLION + logCost(ACCESS_LOG_BYTES);
}

/** The messages of an event, sent and received together, and deleted. @param bytes of all of them */
export function queueCost(messages: number, bytes: number): number {
  const calls = Math.ceil(messages / TOGETHER);
  const moved = Math.max(calls, Math.ceil(bytes / QUEUE_UNIT_BYTES));
  return ((2 * moved + calls) * PRICES.queueRequestsPerMillion) / MILLION;
}

export function objectCost(puts: number, gets: number): number {
  return (puts * PRICES.s3PutsPerMillion + gets * PRICES.s3GetsPerMillion) / MILLION;
}

function logCost(bytes: number): number {
  return (bytes / GB) * USE_PRICES.logsPerGB;
}
