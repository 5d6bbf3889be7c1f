/** Facts that a worker's settings are compared with before any process starts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openBatches } from '../../../lib/compose/worker.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('a device that is not there is refused, of the first processes and, where there may be more, of those', async (t) => {
  const folder = await temporaryFolder(t);
  const code = { version: 'v', directory: folder, modelDir: folder };
  const worker = { ...DEFAULT_JOB.worker, class: 'server.Worker', numWorker: 1 };
  // The next thing that is missing is the code.
  const noCode = /^worker\.class: there is no /;
  for (const [deviceMap, numWorkerExpanded, deviceToExpand, message] of [
    [[-1, 4_711], 1, -1, /no GPU 4711/],
    [[-1], 2, 4_712, /no GPU 4712/],
    [[-1], 1, 4_712, noCode],
    [[-1], 0, 4_712, noCode],
    [[-1], 2, -1, noCode],
  ] as const) {
    const job = {
      batchSize: 1,
      worker: { ...worker, deviceMap: [...deviceMap], numWorkerExpanded, deviceToExpand },
    };
    await assert.rejects(openBatches(job, code), { code: 'bad_config', message });
  }
});
