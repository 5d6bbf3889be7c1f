/**
 * Stands for Lambda's runtime: loads the folder of a packaged function, reports "ready", answers events from the
 * parent one by one, and a "pong" for each "ping". It imports nothing but the bundle. A ping without a pong means
 * that the thread is inside the model.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, timeoutMs] = process.argv.slice(2);
const { handler } = await import(pathToFileURL(join(folder, 'index.mjs')).href);

/** The clock of an invocation, as in Lambda's runtime. */
const context = () => {
  const endAt = Date.now() + Number(timeoutMs);
  return { getRemainingTimeInMillis: () => endAt - Date.now() };
};

process.on('message', (message) => {
  if (message === 'ping') return process.send('pong');
  handler(message.event, context()).then(
    (answer) => process.send({ answer }),
    (error) => process.send({ error: String(error?.stack ?? error) }),
  );
});
process.send({ ready: true });
