/**
 * In: a function's bundle, an event and where its services are. Out: ms from the spawn of a process, AWS's own runtime
 * client in it, to its first answer, and the processor time that the process took.
 * Trap: Lambda's Runtime API answers from this very process.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { variables } from '../../lib/contract/variables.ts';
import { startRuntime } from '../../test/support/runtime-api.ts';

export interface Cold {
  readonly ms: number;
  /** All threads; undefined where the system does not tell. */
  readonly cpuMs: number | undefined;
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
  /** @throws when the answer is wrong */
  readonly check: (answer: unknown) => void;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const INSTALLED = 'bench/peers/.installed/aws-lambda-ric';
const ANSWER_LIMIT_MS = 30_000;

export const NO_CLIENT = `no aws-lambda-ric at AWS_LAMBDA_RIC or in ${INSTALLED}; npm install --prefix ${INSTALLED} aws-lambda-ric@4.0.2 compiles it in 3 minutes`;

/** The package aws-lambda-ric. */
export function runtimeClient(): string | undefined {
  const places = [variables['AWS_LAMBDA_RIC'], join(ROOT, INSTALLED, 'node_modules', 'aws-lambda-ric')];
  return places.find((place) => place !== undefined && existsSync(join(place, 'index.mjs')));
}

export async function startCold({ client, bundle, folder, event, environment, check }: Start): Promise<Cold> {
  // A Lambda environment starts with an empty /tmp.
  const temp = await mkdtemp(join(folder, 'tmp-'));
  const runtime = await startRuntime({
    client,
    folder: bundle,
    handler: 'index.handler',
    environment: {
      AWS_LAMBDA_FUNCTION_NAME: 'bench',
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
      TMPDIR: temp,
      ...environment,
    },
  });
  try {
    const answer = await runtime.invoke(event, ANSWER_LIMIT_MS);
    const took = { ms: performance.now() - runtime.spawnedAt, cpuMs: processorMs(runtime.pid) };
    if (answer.kind !== 'response') {
      throw new Error(`no answer: ${JSON.stringify(answer)}\n${runtime.output()}`);
    }
    check(answer.value);
    return took;
  } finally {
    await runtime.close();
    await rm(temp, { recursive: true, force: true });
  }
}

/** Of a process that lives, all its threads; Linux tells. */
export function processorMs(pid: number): number | undefined {
  const folder = `/proc/${pid}/task`;
  try {
    const threads = readdirSync(folder).map((id) => readFileSync(join(folder, id, 'schedstat'), 'utf8'));
    return threads.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1e6;
  } catch {
    return undefined;
  }
}
