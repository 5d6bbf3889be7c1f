/**
 * `cluster-serving shutdown`. It cannot be undone, so it asks first, and a folder that no start has created is
 * refused before anything is stopped.
 */
import { assertDeletable, deleteFolder } from '../../local/service/data-folder.ts';
import { defineCommand } from '../command.ts';
import { confirmed } from '../confirm.ts';
import { EXIT } from '../output.ts';
import { DATA_DIR, dataDirOf, YES } from '../service.ts';
import { STOP_TIMEOUT, stopService } from './stop.ts';

export const command = defineCommand({
  name: 'shutdown',
  about: `Stops the service of a data folder and deletes its data (waiting records, results, models, log) after a
confirmation. Only a folder that a start has made is deleted; files of others in it stay.`,
  options: { 'data-dir': DATA_DIR, timeout: STOP_TIMEOUT, yes: YES },
  async run({ timeout, yes, ...values }, output) {
    const dataDir = dataDirOf(values);
    if ((await assertDeletable(dataDir)) === undefined) {
      output.answer({ stopped: false, deleted: false }, `there is no folder ${dataDir}`);
      return EXIT.ok;
    }
    if (!yes && !(await confirmed(`stops the service and deletes all its data in ${dataDir}`))) {
      output.answer({ stopped: false, deleted: false }, 'nothing was stopped or deleted');
      return EXIT.failed;
    }
    const stopped = await stopService(dataDir, timeout * 1000, output);
    const left = await deleteFolder(dataDir);
    const what = stopped ? `stopped process ${stopped.pid} and deleted` : 'deleted';
    const rest = left.length > 0 ? `, but for files that are not the service's: ${left.join(', ')}` : '';
    const document = { stopped: stopped !== undefined, deleted: true, dataDir, left };
    output.answer(document, `${what} ${dataDir}${rest}`);
    return EXIT.ok;
  },
});
