/**
 * Finds the isolated processes, measures how much they have worked and what one needs on this machine until it has run a
 * record. Time limits of tests are multiples of it.
 */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { loopModel, QUICK } from './endless.ts';
import { openModelBytes } from './runner.ts';

/** Children of this process: they die without leaving anything. */
export function isolatedPids(): Promise<number[]> {
  return childPids('self', /isolated-process/);
}

/** Children of a process whose command line matches. Its words are separated by zero bytes. */
export async function childPids(parent: number | 'self', command: RegExp): Promise<number[]> {
  const tasks = await readdir(`/proc/${parent}/task`).catch(() => []);
  const texts = await Promise.all(
    tasks.map((task) => readFile(`/proc/${parent}/task/${task}/children`, 'utf8').catch(() => '')),
  );
  const pids = texts.join(' ').split(/\s+/).filter(Boolean).map(Number);
  const commands = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  );
  return pids.filter((_, i) => command.test(commands[i] ?? ''));
}

/** Processor time, which a process that waits does not use. */
async function processorMs(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Those that have used more processor time than that. */
export async function busyIsolated(ms: number): Promise<number[]> {
  const pids = await isolatedPids();
  const used = await Promise.all(pids.map(processorMs));
  return pids.filter((_, i) => (used[i] as number) > ms);
}

export interface IsolatedCost {
  /** From the call to the outcome: process, model and one quick record. */
  readonly tookMs: number;
  /** More than that is used only by a record that does not end. */
  readonly busyMs: number;
}

export async function isolatedCost(t: TestContext): Promise<IsolatedCost> {
  const runner = await openModelBytes(t, loopModel());
  const runIsolated = runner.runIsolated?.bind(runner);
  assert.ok(runIsolated);
  const others = new Set(await isolatedPids());
  const tensor = { dtype: 'float64' as const, shape: [], data: Float64Array.of(QUICK) };
  const startedMs = performance.now();
  const [outcome] = await runIsolated([new Map([['rounds', { kind: 'tensor', tensor }]])], 60_000);
  const tookMs = performance.now() - startedMs;
  assert.ok(outcome?.ok);
  const used = await Promise.all((await isolatedPids()).filter((pid) => !others.has(pid)).map(processorMs));
  await runner.close();
  return { tookMs, busyMs: Math.max(700, 3 * Math.max(0, ...used)) };
}

/** Enough time for three records of which the second never ends: the third gets an eighth of it and a fresh process. */
function timeForThreeMs({ tookMs }: IsolatedCost, leastMs: number): number {
  return Math.max(leastMs, Math.ceil(24 * tookMs));
}

/**
 * Delivers records of which one never ends until only that one returns, as the queue does. A busy machine may leave a
 * neighbor no turn in one delivery, so the next delivery has twice the time.
 * @param deliver returns the uris that return to the queue
 * @returns what returned at last
 */
export async function deliverToNeighbors<T>(
  t: TestContext,
  records: Readonly<Record<string, T>>,
  leastMs: number,
  deliver: (records: Readonly<Record<string, T>>, timeoutMs: number) => Promise<string[]>,
): Promise<string[]> {
  const timeoutMs = timeForThreeMs(await isolatedCost(t), leastMs);
  let returned = Object.keys(records);
  for (let turn = 0; turn < 3 && returned.length > 1; turn++) {
    const again = Object.fromEntries(returned.map((uri) => [uri, records[uri] as T]));
    returned = await deliver(again, timeoutMs * 2 ** turn);
  }
  return returned;
}
