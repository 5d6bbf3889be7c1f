/**
 * In: the folder of an unzipped archive and a handler as in the template, then events one by one from the parent.
 * Out: "ready" when the module has loaded, and each event's answer.
 * Trap: it stands for Lambda's runtime, so it imports nothing but the artifact.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, handlerName] = process.argv.slice(2);
const dot = handlerName.lastIndexOf('.');
const module_ = await import(pathToFileURL(join(folder, `${handlerName.slice(0, dot)}.mjs`)).href);
const handler = module_[handlerName.slice(dot + 1)];

/** A function does not cross to another process: the clock of the invocation is made here, as Lambda's runtime does. */
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
