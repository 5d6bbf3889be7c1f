/** Serves the page of a deployment on loopback: its requests go on to the API, and S3 is read from here. */
import { jsonText, respond } from '../../lib/http/response.ts';
import { consoleRoutes, OWNER } from '../../local/console/routes.ts';
import { type Gateway, startGateway } from '../../local/gateway/gateway.ts';
import type { GatewayRoute } from '../../local/gateway/routes.ts';
import { authorizedFetch } from '../../sdk/access.ts';
import { type Fetch, requestBytes } from '../../sdk/fetch.ts';
import { wrongUse } from '../command.ts';
import { type DlqPlace, type DlqValues, openDlq } from '../dlq/place.ts';
import { findService, useAccount, withServedJob } from '../service.ts';
import { remoteConsole } from './source.ts';

/** As the API waits. */
const PASSED_MS = 30_000;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

export type RemoteValues = DlqValues & { readonly port: number };

/** @param token what the page must send. @throws as findService */
export async function openRemote(
  values: RemoteValues,
  token: string,
): Promise<{ readonly gateway: Gateway; readonly close: () => Promise<void> }> {
  const found = await findService(values);
  const http = found?.http;
  if (found === undefined || http === undefined) throw wrongUse('console of what? Pass --stack or --url');
  const service = await withServedJob(found, values);
  const { job, bucket, region } = service;
  // Where the bucket is.
  useAccount({ region });
  const send = authorizedFetch(http, service.access);
  const place: DlqPlace | undefined =
    bucket === undefined
      ? undefined
      : await openDlq({ ...values, job, bucket, stack: undefined, url: undefined });
  const source = remoteConsole({ service: { ...service, http }, stack: values.stack, place, send });
  const absent: GatewayRoute['handler'] = async () => ({ statusCode: 404 });
  const gateway = await startGateway({
    port: values.port,
    token,
    log: { info: ignore, warn: ignore, error: ignore },
    routes: [
      ...consoleRoutes({ source, allowedHosts: [], isOwner: true, root: absent }),
      ...(['/predict', '/encode_json'] as const).map((path) => passed('POST', path, http, send)),
      passed('GET', '/predictions', http, send),
    ],
  });
  const close = async () => {
    await gateway.close();
    await place?.close();
  };
  return { gateway, close };
}

function ignore(): void {
  // The page shows what goes wrong to the one who asked.
}

/** A route that the API of the deployment answers. */
function passed(method: 'GET' | 'POST', path: string, http: string, send: Fetch): GatewayRoute {
  return {
    method,
    path,
    handler: ({ rawQueryString, body, isBase64Encoded }) =>
      respond(
        async () => {
          const query = rawQueryString === '' ? '' : `?${rawQueryString}`;
          const init: RequestInit = { method, redirect: 'manual' };
          if (body !== undefined) {
            init.body = isBase64Encoded ? Buffer.from(body, 'base64') : body;
            init.headers = { 'content-type': 'application/json' };
          }
          const options = { timeoutMs: PASSED_MS, send, maxBytes: MAX_ANSWER_BYTES };
          const { status, bytes } = await requestBytes(`${http}${path}${query}`, init, options);
          return jsonText(status, Buffer.from(bytes).toString());
        },
        ...OWNER,
      ),
  };
}
