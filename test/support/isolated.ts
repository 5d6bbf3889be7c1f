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
export async function isolatedPids(): Promise<number[]> {
  const tasks = await readdir('/proc/self/task');
  const texts = await Promise.all(
    tasks.map((task) => readFile(`/proc/self/task/${task}/children`, 'utf8').catch(() => '')),
  );
  const pids = texts.join(' ').split(/\s+/).filter(Boolean).map(Number);
  const commands = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  );
  return pids.filter((_, i) => commands[i]?.includes('isolated-process'));
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

/**
 * How long a function must have for three records of which the second never ends. The third gets an eighth of it, and
 * needs a process of its own.
 */
export function timeForThreeMs({ tookMs }: IsolatedCost, leastMs: number): number {
  return Math.max(leastMs, Math.ceil(24 * tookMs));
}
