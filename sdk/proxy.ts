/**
 * The way through a proxy. `fetch` of Node 20 knows none, later ones on request, and the AWS SDK none either. So where
 * HTTPS_PROXY names one for a host, HTTPS goes through it by CONNECT; NODE_EXTRA_CA_CERTS holds there as everywhere.
 */
import { request as plainRequest } from 'node:http';
import { Agent, request as secureRequest } from 'node:https';
import type { Socket } from 'node:net';
import { type Duplex, Readable } from 'node:stream';
import { type ConnectionOptions, connect } from 'node:tls';
import { badConfig } from '../lib/contract/errors.ts';
import { type Variables, variables } from '../lib/contract/variables.ts';
import type { Fetch } from './fetch.ts';

const CONNECT_MS = 10_000;
/** Their answers have no body. */
const EMPTY: readonly number[] = [204, 205, 304];

/** `fetch` of Node, through the proxy of the environment where there is one for the host. */
export const nodeFetch: Fetch = (url, init) => {
  const { protocol, hostname, port } = new URL(url);
  if (protocol !== 'https:' || !proxyFor(hostname, port || '443')) return fetch(url, init);
  return fetchBy((agent ??= new ProxyAgent({ keepAlive: true })), url, init);
};
let agent: Agent | undefined;

/** For the options of a client of AWS, which closes it: what it takes as `httpsAgent`. Empty without a proxy. */
export function awsAgent(): { readonly httpsAgent?: Agent } {
  return proxyOf(variables) ? { httpsAgent: new ProxyAgent({ keepAlive: true }) } : {};
}

/** @throws bad_config for a proxy of another kind */
function proxyOf({ https_proxy: lower, HTTPS_PROXY: upper }: Variables): URL | undefined {
  const text = lower || upper;
  if (!text) return undefined;
  const proxy = URL.canParse(text) ? new URL(text) : undefined;
  if (proxy && /^https?:$/.test(proxy.protocol)) return proxy;
  throw badConfig('HTTPS_PROXY: expected http://host:port or https://host:port; other proxies are not used');
}

/** NO_PROXY has hosts, each with those below it, perhaps with a port; or `*`. Plain http is for services nearby. */
function proxyFor(host: string, port: string): URL | undefined {
  const names = (variables['no_proxy'] || variables['NO_PROXY'] || '').toLowerCase().split(/[\s,]+/);
  const isExcepted = names.some((entry) => {
    const [, name = '', only = port] = /^(?:\*?\.)?(.*?)(?::(\d+))?$/.exec(entry) ?? [];
    return entry === '*' || (name !== '' && only === port && (host === name || host.endsWith(`.${name}`)));
  });
  return isExcepted ? undefined : proxyOf(variables);
}

interface Destination {
  readonly host?: string;
  readonly port?: number | string;
}
type Connected = (error: Error | null, stream: Duplex) => void;

class ProxyAgent extends Agent {
  override createConnection(options: Destination, callback: Connected): Duplex | undefined {
    const { host = '', port = 443 } = options;
    const proxy = proxyFor(host, String(port));
    if (!proxy) return connect(options as ConnectionOptions);
    tunnel(proxy, `${host}:${port}`, (error, socket) => {
      callback(error, error ? (undefined as never) : connect({ ...options, socket } as ConnectionOptions));
    });
    return undefined;
  }
}

/** @param to host and port */
function tunnel(proxy: URL, to: string, done: (error: Error | null, socket?: Socket) => void): void {
  const secret = [proxy.username, proxy.password].map(decodeURIComponent).join(':');
  const asked = (proxy.protocol === 'https:' ? secureRequest : plainRequest)(proxy, {
    method: 'CONNECT',
    path: to,
    headers: {
      host: to,
      ...(proxy.username && { 'proxy-authorization': `Basic ${Buffer.from(secret).toString('base64')}` }),
    },
    agent: false,
    timeout: CONNECT_MS,
  });
  asked.on('connect', ({ statusCode }, socket) => {
    if (statusCode === 200) return done(null, socket);
    socket.destroy();
    done(new Error(`the proxy ${proxy.host} answered ${statusCode} to CONNECT ${to}`));
  });
  asked.on('timeout', () => asked.destroy(new Error(`it did not answer in ${CONNECT_MS} ms`)));
  asked.on('error', ({ message }) =>
    done(new Error(`the proxy ${proxy.host} cannot be reached: ${message}`)),
  );
  asked.end();
}

/** The subset of `fetch` that the client uses: a complete body, and no redirect that is followed. */
function fetchBy(
  through: Agent,
  url: string,
  { method, headers, body, signal, redirect }: RequestInit,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sent = Object.fromEntries(new Headers(headers));
    const asked = secureRequest(url, {
      method: method ?? 'GET',
      headers: sent,
      agent: through,
      ...(signal ? { signal } : {}),
    });
    asked.on('response', (answer) => {
      const { statusCode: status = 0, headersDistinct } = answer;
      if (status >= 300 && status < 400 && redirect !== 'manual') {
        answer.destroy();
        return reject(
          badConfig(`${url} redirects, which is not followed through a proxy: is it the url of the API?`),
        );
      }
      const received = Object.entries(headersDistinct).flatMap(([name, values = []]) =>
        values.map((value): [string, string] => [name, value]),
      );
      const stream = EMPTY.includes(status) ? null : (Readable.toWeb(answer) as ReadableStream<Uint8Array>);
      resolve(new Response(stream, { status, headers: received }));
    });
    // As fetch throws it when the network fails.
    asked.on('error', (error) =>
      reject(signal?.aborted ? error : new TypeError('fetch failed', { cause: error })),
    );
    asked.end(body ?? undefined);
  });
}
