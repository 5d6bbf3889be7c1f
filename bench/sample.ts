/**
 * Measures time and memory of some work in this process. Memory is measured on the first call, which is slower than those
 * that follow; time on these, which are not disturbed by reading memory.
 */
import { quantile } from './measure.ts';
import { liveBytes, startPeak } from './memory.ts';

export interface Work<Input = unknown, Output = unknown> {
  /** Not timed, but its memory counts: what arrives at a call, of this size or (warm) of the smallest one. */
  readonly input: (warm: boolean) => Promise<Input>;
  readonly call: (input: Input) => Promise<Output>;
  /** Not timed. @throws when the output is wrong */
  readonly check: (output: Output, input: Input) => unknown;
  /** True: it can be done only once in a process, and the first call is the timed one. */
  readonly once?: boolean;
  readonly close: () => Promise<unknown>;
}

/** Numbers by their key. */
export type Sample = Readonly<Record<string, number>>;

const WARM_UP = { ms: 150, calls: 3 };
const TIMED_CALLS = { least: 3, most: 200 };
/** Calls that take so long together are not repeated for the sake of their time. */
const LONG_MS = 2_000;

export async function samplePoint<Input, Output>(
  work: Omit<Work<Input, Output>, 'close'>,
  timedMs: number,
): Promise<Sample> {
  const begin = performance.now();
  for (let i = 0; !work.once && (i < WARM_UP.calls || performance.now() - begin < WARM_UP.ms); i++)
    await work.call(await work.input(true));
  const liveBefore = await liveBytes();
  const peak = startPeak();
  const first = await timed(work);
  const peakBytes = peak();
  await first.check();
  const keptBytes = Math.max(0, (await liveBytes()) - liveBefore);
  const calls: Readonly<Record<'ms' | 'cpuMs', number>>[] = [];
  for (let spent = first.ms; spent < LONG_MS && !work.once && needsMore(calls.length, spent - first.ms); ) {
    const { ms, cpuMs } = await timed(work);
    calls.push({ ms, cpuMs });
    spent += ms;
  }
  const median = (key: 'ms' | 'cpuMs') =>
    quantile(Float64Array.from(calls.length > 0 ? calls : [first], (call) => call[key]).sort(), 0.5);
  return { ms: median('ms'), cpuMs: median('cpuMs'), peakBytes, keptBytes };

  function needsMore(made: number, spentMs: number): boolean {
    return made < TIMED_CALLS.least || (spentMs < timedMs && made < TIMED_CALLS.most);
  }
}

/** The returned function holds neither input nor output after their check. */
async function timed<Input, Output>(work: Omit<Work<Input, Output>, 'close'>) {
  const input = await work.input(false);
  const cpuBegin = process.cpuUsage();
  const begin = performance.now();
  const output = await work.call(input);
  const ms = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpuBegin);
  const made = [{ output, input }];
  const check = async () => {
    for (const one of made.splice(0)) await work.check(one.output, one.input);
  };
  return { ms, cpuMs: (user + system) / 1000, check };
}
