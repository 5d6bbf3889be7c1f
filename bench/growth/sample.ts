/**
 * In: a point's work. Out: its time, its processor time, the most memory it took and what of it stays.
 * Trap: the first call of a size is slower (memory is fresh, code is compiled) and is the one whose memory is looked
 * at; the timed ones come after it, without a look at anything.
 */
import { quantile } from '../measure.ts';
import type { Work } from './curve.ts';
import { heldBytes, peakBytes, resetPeak } from './memory.ts';
import type { Sample } from './point.ts';

const WARM_UP_MS = 150;
const MIN_WARM_UP_CALLS = 3;
const MIN_CALLS = 3;
const MAX_CALLS = 200;
/** A call of this length is warm in itself, and long enough not to be repeated for its time's sake. */
const LONG_CALL_MS = 2_000;

interface Timed {
  readonly ms: number;
  readonly cpuMs: number;
}

export async function samplePoint(work: Work, timedMs: number): Promise<Sample> {
  await warmUp(work);
  const before = heldBytes();
  const hasPeak = resetPeak();
  await work.prepare?.();
  const first = await timed(work);
  const peak = hasPeak ? Math.max(0, peakBytes() - before.rssBytes) : Number.NaN;
  await work.verify?.();
  work.release?.();
  const retainedBytes = Math.max(0, heldBytes().liveBytes - before.liveBytes);
  const calls = work.once || first.ms > LONG_CALL_MS ? [first] : await repeat(work, timedMs);
  const median = (of: (call: Timed) => number) => quantile(Float64Array.from(calls, of).sort(), 0.5);
  return {
    ms: median(({ ms }) => ms),
    cpuMs: median(({ cpuMs }) => cpuMs),
    peakBytes: peak,
    retainedBytes,
    ...(await work.facts?.()),
  };
}

async function warmUp({ warmUp: call }: Work): Promise<void> {
  if (!call) return;
  const begin = performance.now();
  for (let calls = 0; calls < MIN_WARM_UP_CALLS || performance.now() - begin < WARM_UP_MS; calls++)
    await call();
}

async function timed(work: Work): Promise<Timed> {
  const cpuBegin = process.cpuUsage();
  const begin = performance.now();
  await work.call();
  const ms = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpuBegin);
  return { ms, cpuMs: (user + system) / 1000 };
}

async function repeat(work: Work, timedMs: number): Promise<Timed[]> {
  const calls: Timed[] = [];
  let spentMs = 0;
  while (calls.length < MIN_CALLS || (spentMs < timedMs && calls.length < MAX_CALLS)) {
    await work.prepare?.();
    const call = await timed(work);
    spentMs += call.ms;
    calls.push(call);
    work.release?.();
    if (spentMs > LONG_CALL_MS) break;
  }
  return calls;
}
