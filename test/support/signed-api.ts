/**
 * API Gateway with auth=iam in front of another API, or of a function: it answers 403 to what is not signed right, and
 * passes everything else on. Its clock may differ from that of this machine.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { Hooks } from './runner.ts';
import { type Keys, type Received, refusal } from './signature-check.ts';

export const KEYS: Keys = {
  accessKeyId: 'AKIDSIGNED',
  secretAccessKey: 'made/up+secret',
  sessionToken: 'made/up=',
};
export const SIGNED_REGION = 'eu-west-1';

/** For clients that find their account in the environment. */
export const SIGNED_ENVIRONMENT = {
  AWS_ACCESS_KEY_ID: KEYS.accessKeyId,
  AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
  AWS_SESSION_TOKEN: KEYS.sessionToken as string,
  AWS_REGION: SIGNED_REGION,
  AWS_EC2_METADATA_DISABLED: 'true',
};

export interface SignedApi {
  readonly url: string;
  /** Everything that came, signed or not. */
  readonly seen: Received[];
  /** Why requests were refused. */
  readonly refused: string[];
}

export interface SignedApiOptions {
  /** The API behind it, or what answers in its place. */
  readonly behind: string | ((request: Received) => Response | Promise<Response>);
  /** Its clock minus that of this machine. */
  readonly aheadMs?: number;
  /** As signatures name it. Default: API Gateway. */
  readonly service?: string;
  /** Who may call. Default: KEYS. */
  readonly keys?: Keys;
}

export async function startSignedApi(
  t: Hooks,
  { behind, aheadMs = 0, keys = KEYS, service }: SignedApiOptions,
): Promise<SignedApi> {
  const seen: Received[] = [];
  const refused: string[] = [];
  const answer = async (request: Received): Promise<Response> => {
    seen.push(request);
    const now = Date.now() + aheadMs;
    const why = refusal(request, { keys, region: SIGNED_REGION, service, now });
    if (why !== undefined) {
      refused.push(why);
      return Response.json({ message: 'Forbidden' }, { status: 403 });
    }
    if (typeof behind !== 'string') return behind(request);
    const { method, url, headers, body } = request;
    const { host: _host, connection: _connection, 'content-length': _length, ...passed } = headers;
    return fetch(behind + url, {
      method,
      headers: passed as Record<string, string>,
      ...(body.length > 0 ? { body: new Uint8Array(body) } : {}),
      redirect: 'manual',
    });
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { method = '', url = '', headers } = request;
      try {
        const given = await answer({ method, url, headers, body: await buffer(request) });
        const {
          'content-length': _length,
          'content-encoding': _encoding,
          ...rest
        } = Object.fromEntries(given.headers);
        const date = new Date(Date.now() + aheadMs).toUTCString();
        response.writeHead(given.status, { ...rest, date });
        response.end(Buffer.from(await given.arrayBuffer()));
      } catch (error) {
        response.writeHead(502).end(String(error));
      }
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, refused };
}
