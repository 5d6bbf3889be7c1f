/**
 * In: the folder of a packaged function, then events one by one from the parent. Out: "ready" when the module has
 * loaded, each event's answer, and a "pong" for each "ping".
 * Trap: it stands for Lambda's runtime and imports nothing but the bundle; a ping that has no pong is a thread that
 * is inside the model.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, timeoutMs] = process.argv.slice(2);
const { handler } = await import(pathToFileURL(join(folder, 'index.mjs')).href);

/** The clock of an invocation, as Lambda's runtime makes it. */
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
