/**
 * Stands for Lambda's runtime: loads the folder of a packaged function, reports "ready" when INIT is over, then
 * answers events within their time. It imports nothing but the bundle.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder] = process.argv.slice(2);
const { handler } = await import(pathToFileURL(join(folder, 'index.mjs')).href);

process.on('message', ({ event, timeoutMs }) => {
  const endAt = Date.now() + timeoutMs;
  handler(event, { getRemainingTimeInMillis: () => Math.max(0, endAt - Date.now()) }).then(
    (answer) => process.send({ answer }),
    (error) => process.send({ error: String(error?.stack ?? error) }),
  );
});
process.send({ ready: true });
