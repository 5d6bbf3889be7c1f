/**
 * The child process of function-environment.ts: receives events, calls handlers and sends their answers back. It imports
 * only the files named by its parent, so that it can run the functions of any version.
 */
import { pathToFileURL } from 'node:url';

type Handler = (event: unknown, context: unknown) => Promise<unknown>;

export interface Invocation {
  readonly id: number;
  /** The function's module. */
  readonly file: string;
  readonly event: unknown;
}

export type Reply =
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly error: string };

const [timeoutMs = '30000', ...files] = process.argv.slice(2);
const handlers = new Map<string, Promise<Handler>>();

function handlerOf(file: string): Promise<Handler> {
  let handler = handlers.get(file);
  if (!handler) {
    handler = import(pathToFileURL(file).href).then((module: { handler: Handler }) => module.handler);
    // Reported by the invocation that awaits it.
    handler.catch(() => undefined);
    handlers.set(file, handler);
  }
  return handler;
}

/** The clock of an invocation, as Lambda's runtime gives it. */
function context() {
  const endAt = Date.now() + Number(timeoutMs);
  return { awsRequestId: 'upgrade', getRemainingTimeInMillis: () => endAt - Date.now() };
}

async function invoke({ id, file, event }: Invocation): Promise<Reply> {
  try {
    return { id, answer: await (await handlerOf(file))(event, context()) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

process.on('message', (invocation: Invocation) => {
  void invoke(invocation).then((reply) => process.send?.(reply));
});
process.on('disconnect', () => process.exit());
for (const file of files) void handlerOf(file);
