/** A point while it is measured: its process, and what its turns have shown so far. */
import { neededMB } from '../../convert/lambda-fit.ts';
import { isErrorCode, ServingError } from '../../lib/contract/errors.ts';
import type { ChildAnswer } from './child.ts';
import { type Block, type MeasuredPoint, type Point, timesOf } from './points.ts';
import { TuneProcess } from './process.ts';

export interface Running {
  readonly point: Point;
  /** Undefined once it was ended to make room. */
  process: TuneProcess | undefined;
  readonly blocks: Block[];
  callMs: number;
  peakBytes: number;
  residentBytes: number;
}

export function startRunning(point: Point): Running {
  return {
    point,
    process: new TuneProcess(),
    blocks: [],
    callMs: 0,
    peakBytes: 0,
    residentBytes: 0,
  };
}

/** The error of an answer that is not what was asked for. */
export function failureOf(told: ChildAnswer): ServingError {
  if (!('failed' in told))
    return new ServingError('internal', 'the process that measures answered out of turn');
  const { code, message } = told.failed;
  return new ServingError(isErrorCode(code) ? code : 'internal', message);
}

export function measuredPoint({ point, blocks, peakBytes }: Running): MeasuredPoint {
  const calls = blocks.reduce((sum, { callMs }) => sum + callMs.length, 0);
  const perCall = (number: (block: Block) => number) =>
    blocks.reduce((sum, block) => sum + number(block), 0) / calls;
  return {
    ...point,
    cpuMs: perCall(({ cpuMs }) => cpuMs),
    meanMs: perCall(({ wallMs }) => wallMs),
    model: timesOf(blocks.map(({ modelMs }) => modelMs)),
    call: timesOf(blocks.map(({ callMs }) => callMs)),
    blocks: blocks.length,
    peakBytes,
    neededMB: neededMB({ points: [{ rows: 1, peakBytes }] }, 1),
  };
}
