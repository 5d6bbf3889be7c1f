/**
 * `cluster-serving shutdown`. In: a data folder. Out: nothing runs on it, and what the service put there is gone.
 * Trap: it cannot be undone. So it asks; without a terminal it wants --yes; and a folder that was not made by a
 * start is refused before anything is stopped.
 */
import { resolve } from 'node:path';
import { assertDeletable, DEFAULT_DATA_DIR, deleteFolder } from '../../local/data-folder.ts';
import { COMMON_HELP, defineCommand } from '../command.ts';
import { confirmed } from '../confirm.ts';
import { EXIT } from '../output.ts';
import { stopService, stopTimeoutMs } from './stop.ts';

const HELP = `Usage: cluster-serving shutdown [options]

Stops the service of a data folder and deletes its data: waiting records, results, models, log. Asks before it does.
Only a folder that a start has made is deleted, and files in it that are not the service's stay.

      --data-dir <dir>    folder of the service (default .cluster-serving)
      --timeout <s>       how long the stop may take before it is killed (default 30)
  -y, --yes               do not ask; without a terminal this is needed
${COMMON_HELP}`;

export const shutdown = defineCommand({
  name: 'shutdown',
  help: HELP,
  options: {
    'data-dir': { type: 'string' },
    timeout: { type: 'string' },
    yes: { type: 'boolean', short: 'y' },
  },
  async run(values, output) {
    const timeoutMs = stopTimeoutMs(values.timeout);
    const dataDir = resolve(values['data-dir'] ?? DEFAULT_DATA_DIR);
    if ((await assertDeletable(dataDir)) === undefined) {
      output.answer({ stopped: false, deleted: false }, `there is no folder ${dataDir}`);
      return EXIT.ok;
    }
    if (!values.yes && !(await confirmed(`stops the service and deletes all its data in ${dataDir}`))) {
      output.answer({ stopped: false, deleted: false }, 'nothing was stopped or deleted');
      return EXIT.failed;
    }
    const stopped = await stopService(dataDir, timeoutMs, output);
    const left = await deleteFolder(dataDir);
    const what = stopped ? `stopped process ${stopped.pid} and deleted` : 'deleted';
    const rest = left.length > 0 ? `, but for files that are not the service's: ${left.join(', ')}` : '';
    output.answer(
      { stopped: stopped !== undefined, deleted: true, dataDir, left },
      `${what} ${dataDir}${rest}`,
    );
    return EXIT.ok;
  },
});
