/** `npm start`. Half of a start is reading the service's own sources, so the cache of compiled code is opened before them. */
import { existsSync } from 'node:fs';
import { enableCompileCache } from 'node:module';

// Writing the cache takes a second when the process ends, which a single run does not earn.
if (!process.argv.includes('--once')) {
  const { directory } = enableCompileCache();
  // The processes that it starts find the cache by the variable.
  if (directory !== undefined) process.env['NODE_COMPILE_CACHE'] ??= directory;
}
// Most of a first start is loading code: this process does its own, and the two that verify and run the model do theirs meanwhile.
if (!existsSync('.cluster-serving')) {
  const [{ prepareModels }, { prepareIsolated }] = await Promise.all([
    import('../release/model-process.ts'),
    import('../lib/inference/isolated-runner.ts'),
  ]);
  prepareModels();
  prepareIsolated();
}
const { main } = await import('./service/main.ts');
await main();
