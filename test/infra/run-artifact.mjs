/**
 * Stands for Lambda's runtime: loads the handler in the folder of an unzipped archive, reports "ready", then answers
 * events from the parent one by one. It imports nothing but the artifact.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, handlerName] = process.argv.slice(2);
const dot = handlerName.lastIndexOf('.');
const module_ = await import(pathToFileURL(join(folder, `${handlerName.slice(0, dot)}.mjs`)).href);
const handler = module_[handlerName.slice(dot + 1)];

/**
 * A function cannot be sent to another process, so the clock of the invocation is created here, as in Lambda's
 * runtime.
 */
const contextWithin = (timeoutMs) => {
  const endAt = Date.now() + timeoutMs;
  return { awsRequestId: `request-${endAt}`, getRemainingTimeInMillis: () => endAt - Date.now() };
};

process.on('message', ({ event, timeoutMs }) => {
  handler(event, contextWithin(timeoutMs)).then(
    (answer) => process.send({ answer }),
    (error) => process.send({ error: String(error?.stack ?? error) }),
  );
});
process.send({ ready: true });
