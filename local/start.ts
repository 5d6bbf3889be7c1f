/** `npm start`. Half of a start is reading the service's own sources, so the cache of compiled code is opened before them. */
import { enableCompileCache } from 'node:module';

// Writing the cache takes a second when the process ends, which a single run does not earn.
if (!process.argv.includes('--once')) {
  const { directory } = enableCompileCache();
  // The processes that it starts find the cache by the variable.
  if (directory !== undefined) process.env['NODE_COMPILE_CACHE'] ??= directory;
}
const { main } = await import('./main.ts');
await main();
