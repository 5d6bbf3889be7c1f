/** Lambda's Invoke, in front of functions that run on this machine. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Hooks } from './runner.ts';

export interface StandInLambda {
  readonly url: string;
  /** The events, as text. */
  readonly asked: string[];
}

/** @param functions by name */
export async function startLambda(
  t: Hooks,
  functions: Readonly<Record<string, (event: unknown) => Promise<unknown>>>,
): Promise<StandInLambda> {
  const asked: string[] = [];
  const answer = async (path: string, event: string) => {
    const name = decodeURIComponent(/^\/2015-03-31\/functions\/([^/]+)\/invocations$/.exec(path)?.[1] ?? '');
    const invoke = functions[name];
    if (!invoke) {
      const Message = `Function not found: arn:aws:lambda:us-east-1:123456789012:function:${name}`;
      const headers = { 'x-amzn-errortype': 'ResourceNotFoundException' };
      return { status: 404, headers, body: JSON.stringify({ Message }) };
    }
    asked.push(event);
    try {
      return { status: 200, headers: {}, body: JSON.stringify(await invoke(JSON.parse(event))) };
    } catch (error) {
      const errorMessage = error instanceof Error ? error.message : String(error);
      const headers = { 'x-amz-function-error': 'Unhandled' };
      return { status: 200, headers, body: JSON.stringify({ errorType: 'Error', errorMessage }) };
    }
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { status, headers, body } = await answer(request.url ?? '', await text(request));
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(body);
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}
