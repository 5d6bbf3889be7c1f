/**
 * Starts a process and waits for its first answer: a function's bundle under AWS's own runtime client, or onnxruntime alone
 * (cold-raw.mjs). The Runtime API answers from this very process.
 */
import { fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { variables } from '../../lib/contract/variables.ts';
import { startRuntime } from '../../test/support/runtime-api.ts';
import { INSTALLED } from '../peers/installed.ts';

export interface Cold {
  readonly ms: number;
  /** Processor time of all threads; undefined where the system does not count it. */
  readonly cpuMs: number | undefined;
  readonly answer: unknown;
}

interface Start {
  /** The package aws-lambda-ric. */
  readonly client: string;
  /** With index.mjs. */
  readonly bundle: string;
  /** Where its temporary files go. */
  readonly folder: string;
  readonly event: unknown;
  readonly environment: Readonly<Record<string, string>>;
}

const ANSWER_LIMIT_MS = 30_000;
const RUNTIME_CLIENT = join(INSTALLED, 'aws-lambda-ric');

export const NO_CLIENT =
  'no aws-lambda-ric at AWS_LAMBDA_RIC or in bench/peers/.installed; npm install --prefix bench/peers/.installed/aws-lambda-ric aws-lambda-ric@4.0.2 compiles it in 3 minutes';

/** The package aws-lambda-ric. */
export function runtimeClient(): string | undefined {
  const places = [variables['AWS_LAMBDA_RIC'], join(RUNTIME_CLIENT, 'node_modules', 'aws-lambda-ric')];
  return places.find((place) => place !== undefined && existsSync(join(place, 'index.mjs')));
}

export async function startFunction({ client, bundle, folder, event, environment }: Start): Promise<Cold> {
  // A Lambda environment starts with an empty /tmp.
  const TMPDIR = await mkdtemp(join(folder, 'tmp-'));
  const named = { AWS_LAMBDA_FUNCTION_NAME: 'bench', AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769', TMPDIR };
  const runtime = await startRuntime({
    client,
    folder: bundle,
    handler: 'index.handler',
    environment: { ...named, ...environment },
  });
  try {
    const answer = await runtime.invoke(event, ANSWER_LIMIT_MS);
    const took = { ms: performance.now() - runtime.spawnedAt, cpuMs: processorMs(runtime.pid) };
    if (answer.kind === 'response') return { ...took, answer: answer.value };
    throw new Error(`no answer: ${JSON.stringify(answer)}\n${runtime.output()}`);
  } finally {
    await runtime.close();
    await rm(TMPDIR, { recursive: true, force: true });
  }
}

export function startRaw(args: readonly string[]): Promise<Cold> {
  const { PATH = '' } = variables;
  const begin = performance.now();
  const child = fork(fileURLToPath(new URL('cold-raw.mjs', import.meta.url)), args, {
    execArgv: [],
    env: { PATH },
    timeout: ANSWER_LIMIT_MS,
  });
  return new Promise((resolve, reject) => {
    let took: Cold | undefined;
    child.once('message', (answer) => {
      took = { ms: performance.now() - begin, cpuMs: processorMs(child.pid ?? 0), answer };
      child.kill();
    });
    child.once('error', reject);
    child.once('exit', (code) =>
      took ? resolve(took) : reject(new Error(`cold-raw.mjs ended with ${code} and without an answer`)),
    );
  });
}

function processorMs(pid: number): number | undefined {
  const folder = `/proc/${pid}/task`;
  try {
    const threads = readdirSync(folder).map((id) => readFileSync(join(folder, id, 'schedstat'), 'utf8'));
    return threads.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1e6;
  } catch {
    return undefined;
  }
}
