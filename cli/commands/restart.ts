/**
 * `cluster-serving restart`. Options that are not given stay as at the previous start, including the config's path,
 * even if that service was stopped, has crashed or failed to start.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import { type AccessValues, TOKEN_OPTIONS } from '../../local/machine/access.ts';
import { findRunning, lastOptions, type StartedWith } from '../../local/service/data-folder.ts';
import { modelHere, servedModel } from '../../local/service/model.ts';
import { readSettings } from '../../local/service/start-options.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../output.ts';
import { dataDirOf } from '../service.ts';
import { START_OPTIONS, startAndReport } from './start.ts';
import { STOP_TIMEOUT, stopService } from './stop.ts';

export const command = defineCommand({
  name: 'restart',
  about: `Stops the service of a data folder, if one runs, and starts it in the background with the options of the
previous start; options given here replace them. Ports that were 0 are chosen again.`,
  options: START_OPTIONS,
  async run({ timeout, ...values }, output) {
    const dataDir = dataDirOf(values);
    const before = await lastOptions(dataDir);
    const running = await findRunning(dataDir);
    if (running && !running.record) {
      // Its options are saved when it is ready; an earlier restart would use others.
      const message = `process ${running.process.pid} is still starting, or stopping; try again, or stop it and start it`;
      output.failure(new ServingError('model_unavailable', message));
      return EXIT.notReady;
    }
    // Read and imported before the stop, so that a broken config or model does not end the running service.
    const settings = readSettings({ ...keptOptions(before, values), ...values });
    for (const { job, modelDirectory } of settings.jobs) {
      const here = await modelHere(job, modelDirectory, dataDir);
      if (job.worker.class === undefined) await servedModel(job, here, dataDir);
    }
    const stopped = await stopService(dataDir, STOP_TIMEOUT.default * 1000, output);
    if (stopped) output.note(`stopped process ${stopped.pid}`);
    return startAndReport(settings, timeout * 1000, output);
  },
});

/**
 * The options of the previous start. A token that is given replaces that none was wanted, and the other way round. That golden
 * requests were dropped once must not drop later ones.
 */
function keptOptions(before: StartedWith = {}, values: AccessValues) {
  const isReplaced = TOKEN_OPTIONS.some((option) => values[option] !== undefined);
  const dropped: readonly string[] = ['drop-golden', ...(isReplaced ? TOKEN_OPTIONS : [])];
  return Object.fromEntries(Object.entries(before).filter(([name]) => !dropped.includes(name)));
}
