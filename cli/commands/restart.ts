/**
 * `cluster-serving restart`. In: options of a start, all of which may be left out. Out: a service started anew.
 * Trap: what is not said stays as it was at the start before, the config's path included, from whatever folder, and
 * also when that service was stopped, has crashed, or did not come up again.
 */
import { resolve } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import { DEFAULT_DATA_DIR, findRunning, lastOptions } from '../../local/data-folder.ts';
import { servedModel } from '../../local/model.ts';
import { readSettings, START_OPTIONS, START_OPTIONS_HELP } from '../../local/start-options.ts';
import { COMMON_HELP, defineCommand } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { startAndTell, startTimeoutMs } from './start.ts';
import { stopService, stopTimeoutMs } from './stop.ts';

const { once: _, ...OPTIONS } = START_OPTIONS;

const HELP = `Usage: cluster-serving restart [options]

Stops the service of a data folder, if one runs, and starts it in the background with the options it was started
with before; options given here take their place. Ports that were 0 are chosen anew.

      --timeout <s>       how long the start may take (default 120)
${START_OPTIONS_HELP.split('\n')
  .filter((line) => !line.includes('--once'))
  .join('\n')}
${COMMON_HELP}`;

export const restart = defineCommand({
  name: 'restart',
  help: HELP,
  options: { ...OPTIONS, timeout: { type: 'string' } },
  async run({ timeout, ...values }, output) {
    const timeoutMs = startTimeoutMs(timeout);
    const dataDir = resolve(values['data-dir'] ?? DEFAULT_DATA_DIR);
    const before = await lastOptions(dataDir);
    const running = await findRunning(dataDir);
    if (running && !running.record) return notYet(running.process.pid, output);
    // Read and imported before the stop: a broken config or model must not cost the service that runs.
    const settings = readSettings({ ...before, ...values });
    for (const { job, modelDirectory } of settings.jobs) await servedModel(job, modelDirectory, dataDir);
    const stopped = await stopService(dataDir, stopTimeoutMs(undefined), output);
    if (stopped) output.note(`stopped process ${stopped.pid}`);
    await startAndTell(settings, timeoutMs, output);
    return EXIT.ok;
  },
});

/** How it was started is written down when it is ready; before, a restart would start something else. */
function notYet(pid: number, output: Output): number {
  const message = `process ${pid} is still starting, or stopping; try again, or stop it and start it`;
  output.failure(new ServingError('model_unavailable', message));
  return EXIT.notReady;
}
