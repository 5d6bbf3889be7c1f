/**
 * `cluster-serving stop`. In: a data folder. Out: nothing runs on it any more; the data stay.
 * Trap: a process that ignores SIGTERM is killed in the end, and a process that has only the same number is not.
 */
import { resolve } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import { DEFAULT_DATA_DIR, dropRecord, findRunning, type Running } from '../../local/data-folder.ts';
import { isAlive, untilGone } from '../../local/process.ts';
import { COMMON_HELP, defineCommand, wholeNumber } from '../command.ts';
import { EXIT, type Output } from '../output.ts';

const HELP = `Usage: cluster-serving stop [options]

Stops the service of a data folder and waits until it is gone. Nothing to stop is no error. The data stay.

      --data-dir <dir>    folder of the service (default .cluster-serving)
      --timeout <s>       how long it may take before it is killed (default 30)
${COMMON_HELP}`;

const DEFAULT_TIMEOUT_SECONDS = 30;
const KILL_LIMIT_MS = 5_000;

export const stop = defineCommand({
  name: 'stop',
  help: HELP,
  options: { 'data-dir': { type: 'string' }, timeout: { type: 'string' } },
  async run(values, output) {
    const dataDir = resolve(values['data-dir'] ?? DEFAULT_DATA_DIR);
    const stopped = await stopService(dataDir, stopTimeoutMs(values.timeout), output);
    if (stopped) output.answer({ stopped: true, ...stopped }, `stopped process ${stopped.pid}`);
    else output.answer({ stopped: false }, `nothing runs on ${dataDir}`);
    return EXIT.ok;
  },
});

export function stopTimeoutMs(timeout: string | undefined): number {
  return wholeNumber('--timeout', timeout, { otherwise: DEFAULT_TIMEOUT_SECONDS, most: 3_600 }) * 1000;
}

export interface Stopped {
  readonly pid: number;
  /** It did not end by itself in time. */
  readonly killed: boolean;
  /** Undefined when it was not ready yet. */
  readonly startedWith: NonNullable<Running['record']>['startedWith'] | undefined;
}

/** @returns undefined when nothing ran. @throws bad_config for a process of another user */
export async function stopService(
  dataDir: string,
  timeoutMs: number,
  output: Output,
): Promise<Stopped | undefined> {
  const running = await findRunning(dataDir);
  if (!running) {
    await dropRecord(dataDir);
    return undefined;
  }
  const { process: found, record } = running;
  await signal(running, 'SIGTERM');
  const killed = !(await untilGone(found, timeoutMs));
  if (killed) {
    output.note(`warning: process ${found.pid} did not end in ${timeoutMs / 1000} s and is killed`);
    await signal(running, 'SIGKILL');
    if (!(await untilGone(found, KILL_LIMIT_MS))) {
      throw new ServingError('internal', `process ${found.pid} is still there after SIGKILL`);
    }
    await dropRecord(dataDir);
  }
  return { pid: found.pid, killed, startedWith: record?.startedWith };
}

async function signal({ process: found }: Running, name: NodeJS.Signals): Promise<void> {
  // Asked again just before: it may have ended, and its number may be another's.
  if (!(await isAlive(found))) return;
  try {
    process.kill(found.pid, name);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ESRCH') return;
    throw new ServingError('bad_config', `process ${found.pid} cannot be stopped: ${message}`, {
      cause: error,
    });
  }
}
