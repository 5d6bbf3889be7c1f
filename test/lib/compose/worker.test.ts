/** Facts that a worker's settings are compared with before any process starts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { worker } from '../../../lib/compose/deployed-worker.ts';
import { Scope } from '../../../lib/compose/scope.ts';
import { openBatches } from '../../../lib/compose/worker.ts';
import { readEnvironment } from '../../../lib/config/environment.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { useAws } from '../../support/environment.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('a device that is not there is refused, of the first processes and, where there may be more, of those', async (t) => {
  const folder = await temporaryFolder(t);
  const code = { version: 'v', directory: folder, modelDir: folder };
  const settings = { ...DEFAULT_JOB.worker, class: 'server.Worker', numWorker: 1 };
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
      worker: { ...settings, deviceMap: [...deviceMap], numWorkerExpanded, deviceToExpand },
    };
    await assert.rejects(openBatches(job, code), { code: 'bad_config', message });
  }
});

test('a deployed worker looks for its version in the bucket of its environment', async () => {
  useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', AWS_REGION: 'local' });
  // Nothing listens there.
  const variables = { AWS_ENDPOINT_URL: 'http://127.0.0.1:9', CLUSTER_SERVING_BUCKET: 'models' };
  const config = JSON.stringify({ jobName: 'job', worker: { class: 'server.Worker' } });
  const host = new Scope(readEnvironment({ ...variables, CLUSTER_SERVING_CONFIG: config })).get(worker);
  await assert.rejects(host.ready(), { code: 'model_unavailable', message: /s3:\/\/models\/models\/job\// });
});
