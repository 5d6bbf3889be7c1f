/**
 * Starts a process and waits for its first answer: a function under a client of Lambda's Runtime API, or onnxruntime alone
 * (cold-raw.mjs). The Runtime API answers from this very process.
 */
import { fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { variables } from '../../lib/contract/variables.ts';
import { type RuntimeOptions, startRuntime } from '../../test/support/runtime-api.ts';
import { spreadOf } from '../measure.ts';
import { INSTALLED } from '../peers/installed.ts';

/** Measurements of one process, by the names of the rows; NaN if the system does not count one. */
export interface Cold {
  readonly ms: number;
  /** Processor time of all threads until the first answer. */
  readonly cpuMs: number;
  readonly answer: unknown;
  /** INIT, and the first event until the next is asked for. */
  readonly initMs: number;
  readonly firstMs: number;
  /** Medians of the later events: until the answer, and until the next event is asked for. */
  readonly warmMs: number;
  readonly billedMs: number;
  /** The most that was resident. */
  readonly peakMB: number;
}

export interface Start extends Pick<RuntimeOptions, 'client' | 'folder' | 'environment'> {
  readonly handler?: string;
  readonly event: () => unknown;
  /** Events after the first. */
  readonly calls: number;
}

const ANSWER_LIMIT_MS = 30_000;
/** The rest of the calls warms the code. */
const TIMED_SHARE = 0.5;

/** The package aws-lambda-ric. */
export function runtimeClient(): string | undefined {
  const installed = join(INSTALLED, 'aws-lambda-ric', 'node_modules', 'aws-lambda-ric');
  return [variables['AWS_LAMBDA_RIC'], installed].find(
    (place) => place !== undefined && existsSync(join(place, 'index.mjs')),
  );
}

export async function startFunction(start: Start, temporary: string): Promise<Cold> {
  // A Lambda environment starts with an empty /tmp.
  const TMPDIR = await mkdtemp(join(temporary, 'tmp-'));
  const named = { AWS_LAMBDA_FUNCTION_NAME: 'bench', AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769', TMPDIR };
  const environment = { ...named, ...start.environment };
  const runtime = await startRuntime({ handler: 'index.handler', ...start, environment });
  const ask = async () => {
    const answer = await runtime.invoke(start.event(), ANSWER_LIMIT_MS);
    if (answer.kind === 'response') return answer.value;
    throw new Error(`no answer: ${JSON.stringify(answer)}\n${runtime.output()}`);
  };
  try {
    const first = await ask();
    const took = { ms: performance.now() - runtime.spawnedAt, cpuMs: processorMs(runtime.pid) };
    let answer = first;
    for (let call = 0; call < start.calls; call++) answer = await ask();
    const { initMs, answered, billed } = runtime.times;
    const late = (times: readonly number[]) =>
      start.calls === 0 ? Number.NaN : spreadOf(times.slice(-start.calls * TIMED_SHARE)).median;
    const warm = { warmMs: late(answered), billedMs: late(billed), peakMB: peakMB(runtime.pid) };
    return { ...took, answer, initMs, firstMs: billed[0] ?? Number.NaN, ...warm };
  } finally {
    await runtime.close();
    await rm(TMPDIR, { recursive: true, force: true });
  }
}

export function startRaw(args: readonly string[]): Promise<Partial<Cold>> {
  const { PATH = '' } = variables;
  const begin = performance.now();
  const child = fork(fileURLToPath(new URL('cold-raw.mjs', import.meta.url)), args, {
    execArgv: [],
    env: { PATH },
    timeout: ANSWER_LIMIT_MS,
  });
  return new Promise((resolve, reject) => {
    let took: Partial<Cold> | undefined;
    child.once('message', (answer) => {
      const { pid = 0 } = child;
      took = { ms: performance.now() - begin, cpuMs: processorMs(pid), answer, peakMB: peakMB(pid) };
      child.kill();
    });
    child.once('error', reject);
    child.once('exit', (code) =>
      took ? resolve(took) : reject(new Error(`cold-raw.mjs ended with ${code} and without an answer`)),
    );
  });
}

function processorMs(pid: number): number {
  const folder = `/proc/${pid}/task`;
  try {
    const threads = readdirSync(folder).map((id) => readFileSync(join(folder, id, 'schedstat'), 'utf8'));
    return threads.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1e6;
  } catch {
    return Number.NaN;
  }
}

function peakMB(pid: number): number {
  try {
    const [, kB] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kB) / 1024;
  } catch {
    return Number.NaN;
  }
}
