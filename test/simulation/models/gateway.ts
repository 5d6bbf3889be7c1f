/** API Gateway: `fetch` of a client becomes the event of a function, and its answer a response, or a loss on the way. */
import type { SimulatedProcess } from '../machine/process.ts';
import type { Fate } from './aws.ts';
import type { FunctionModel, Invoked } from './lambda.ts';

export interface GatewayOptions {
  /** The function of a request. */
  readonly route: (method: string, path: string) => FunctionModel;
  readonly fate: (process: SimulatedProcess) => Fate;
}

/** Its limit of an answer. */
const ANSWER_MS = 30_000;

export function gatewayFetch(process: SimulatedProcess, { route, fate }: GatewayOptions): typeof fetch {
  return (given, init = {}) => {
    const url = new URL(given instanceof Request ? given.url : given);
    const { method = 'GET', signal } = init;
    const { scheduler } = process.machine;
    return new Promise<Response>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      const { thereMs, backMs, what } = fate(process);
      const failed = () => reject(new TypeError('fetch failed', { cause: new Error('read ECONNRESET') }));
      if (what === 'refused') return void process.after(thereMs + backMs, failed);
      if (what === 'lost') return;
      let isAnswered = false;
      const answer = (status: number, body: string, headers: Readonly<Record<string, string>> = {}) => {
        if (isAnswered) return;
        isAnswered = true;
        if (what === 'unanswered') return void process.after(backMs, failed);
        process.after(backMs, () => resolve(new Response(body === '' ? null : body, { status, headers })));
      };
      scheduler.after(thereMs, undefined, () => {
        scheduler.after(ANSWER_MS, undefined, () => answer(503, '{"message":"Service Unavailable"}'));
        route(method, url.pathname).invoke(eventOf(url, init, process), (invoked) => pass(invoked, answer));
      });
    });
  };
}

function pass(
  invoked: Invoked,
  answer: (status: number, body: string, headers?: Readonly<Record<string, string>>) => void,
): void {
  if (invoked.kind === 'throttled') return answer(503, '{"message":"Service Unavailable"}');
  if (invoked.kind !== 'answered') return answer(500, '{"message":"Internal Server Error"}');
  const {
    statusCode = 200,
    body = '',
    headers = {},
  }: {
    statusCode?: number;
    body?: string;
    headers?: Readonly<Record<string, string>>;
  } = Object(invoked.answer);
  answer(statusCode, body, headers);
}

function eventOf(
  url: URL,
  { method = 'GET', headers, body }: RequestInit,
  process: SimulatedProcess,
): object {
  const path = decodeURIComponent(url.pathname);
  const routeKey = `${method} ${path}`;
  return {
    version: '2.0',
    routeKey,
    rawPath: path,
    rawQueryString: url.search.slice(1),
    headers: { host: url.host, ...Object.fromEntries(new Headers(headers)) },
    requestContext: {
      accountId: '1',
      apiId: 'simulated',
      domainName: url.host,
      domainPrefix: 'simulated',
      http: { method, path, protocol: 'HTTP/1.1', sourceIp: '10.1.0.1', userAgent: 'simulated' },
      requestId: process.uuid(),
      routeKey,
      stage: '$default',
      time: '',
      timeEpoch: process.clock.wallMs(),
    },
    ...(url.search === '' ? {} : { queryStringParameters: Object.fromEntries(url.searchParams) }),
    ...(typeof body === 'string' ? { body } : {}),
    isBase64Encoded: false,
  };
}
