/** Lambda's calls about event sources, on this machine. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Hooks } from './runner.ts';

export interface StandInEventSources {
  readonly url: string;
  /** Concurrency by the id of the mapping; undefined: it has no limit. */
  readonly concurrency: Map<string, number | undefined>;
  /** Ids that another change is under way of. */
  readonly busy: Set<string>;
  /** The calls, as `GET id` and `PUT id`, with the service that the signature names. */
  readonly asked: string[];
}

export async function startEventSources(t: Hooks): Promise<StandInEventSources> {
  const concurrency = new Map<string, number | undefined>();
  const busy = new Set<string>();
  const asked: string[] = [];
  const answer = (method: string, path: string, authorization: string, body: string) => {
    const id = decodeURIComponent(/^\/2015-03-31\/event-source-mappings\/([^/?]+)$/.exec(path)?.[1] ?? '');
    asked.push(`${method} ${id} ${/\/(\w+)\/aws4_request/.exec(authorization)?.[1]}`);
    if (!concurrency.has(id))
      return {
        status: 404,
        answered: { Type: 'User', Message: 'The resource you requested does not exist.' },
      };
    if (method === 'PUT') {
      if (busy.has(id))
        return {
          status: 400,
          answered: {
            Type: 'User',
            Message: `Cannot update the event source mapping because it is in use.`,
          },
        };
      const { ScalingConfig }: { ScalingConfig?: { MaximumConcurrency?: number } } = JSON.parse(body);
      const most = ScalingConfig?.MaximumConcurrency;
      if (most === undefined || most < 2 || most > 1_000)
        return { status: 400, answered: { Type: 'User', Message: 'MaximumConcurrency: from 2 to 1000' } };
      concurrency.set(id, most);
    }
    const MaximumConcurrency = concurrency.get(id);
    const ScalingConfig = MaximumConcurrency === undefined ? undefined : { MaximumConcurrency };
    return { status: method === 'PUT' ? 202 : 200, answered: { UUID: id, State: 'Enabled', ScalingConfig } };
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { method = '', url = '', headers } = request;
      const { status, answered } = answer(method, url, headers.authorization ?? '', await text(request));
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answered));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, concurrency, busy, asked };
}
