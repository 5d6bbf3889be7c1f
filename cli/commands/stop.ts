/**
 * `cluster-serving stop`. A process that ignores SIGTERM is killed in the end; another process with the same pid is
 * left alone.
 */
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { isAlive, untilGone } from '../../local/machine/process.ts';
import { dropRecord, findRunning, type Running } from '../../local/service/data-folder.ts';
import { otherServices } from '../../local/service/services.ts';
import { defineCommand } from '../command.ts';
import { jobTexts } from '../others.ts';
import { EXIT, type Output } from '../output.ts';
import { DATA_DIR, dataDirOf } from '../service.ts';

export const STOP_TIMEOUT = {
  value: 's',
  range: [0, 3_600],
  default: 30,
  about: 'how long the stop may take before the process is killed',
} as const;

const KILL_LIMIT_MS = 5_000;

export const command = defineCommand({
  name: 'stop',
  about:
    'Stops the service of a data folder and waits until it has ended. Nothing to stop is not an error. The data stay.',
  options: { 'data-dir': DATA_DIR, timeout: STOP_TIMEOUT },
  async run(values, output) {
    const dataDir = dataDirOf(values);
    const stopped = await stopService(dataDir, values.timeout * 1000, output);
    if (stopped) output.answer({ stopped: true, ...stopped }, `stopped process ${stopped.pid}`);
    else output.answer({ stopped: false }, `nothing runs on ${dataDir}`);
    for (const line of (await otherServices(dataDir)).flatMap(jobTexts)) output.note(`note: ${line}`);
    return EXIT.ok;
  },
});

/** @returns undefined when nothing ran. @throws bad_config for a process of another user */
export async function stopService(dataDir: string, timeoutMs: number, output: Output) {
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
  // Until it is ready, there is no record of its options.
  return { pid: found.pid, killed, startedWith: record?.startedWith };
}

async function signal({ process: found }: Running, name: NodeJS.Signals): Promise<void> {
  // Checked again right before, because it may have ended and its pid may be reused.
  if (!(await isAlive(found))) return;
  try {
    process.kill(found.pid, name);
  } catch (error) {
    const { code, message } = asError(error);
    if (code === 'ESRCH') return;
    const text = `process ${found.pid} cannot be stopped: ${message}`;
    throw new ServingError('bad_config', text, { cause: error });
  }
}
