/** Every command of examples/README.md, run against one started service. None of them touches a result of somebody else. */
import { test } from 'node:test';
import { temporaryFolder } from '../support/runner.ts';
import { startExamples, testCommands } from './commands.ts';

test('every example prints what its README says, and leaves the results of others alone', async (t) => {
  const { addresses, testOf } = await startExamples(t, await temporaryFolder(t));
  await testCommands('', () => ({ CLUSTER_SERVING_URL: addresses.http }), testOf);
});
