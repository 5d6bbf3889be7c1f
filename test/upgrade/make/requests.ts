/** HTTPS requests as the gateway passes them to the functions. */
import { ROUTES } from '../../../lib/http/routes.ts';
import { startGateway } from '../../../local/gateway/gateway.ts';
import type { Job } from '../jobs.ts';
import type { StoredRequest } from '../stored.ts';
import { fixedRequest } from './dump.ts';

interface Request {
  readonly name: string;
  readonly job?: Job;
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

const nested = (first: number) => [
  [
    [first, 1],
    [2, 3],
  ],
  [
    [4, 5],
    [6, 7],
  ],
  [
    [8, 9],
    [10, 11],
  ],
];

/** In the order in which they are replayed. @param png a small image */
export function requests(png: Uint8Array, strange: string): Request[] {
  const image = Buffer.from(png).toString('base64');
  const uriOf = (uri: string) => `uri=${encodeURIComponent(uri)}`;
  const post = (name: string, path: string, body: unknown, job?: Job): Request => ({
    name,
    path,
    body,
    method: 'POST',
    ...(job ? { job } : {}),
  });
  return [
    post('predict', '/predict', { instances: [{ x: nested(0) }, { x: nested(0.1) }] }),
    post('predict an image', '/predict', { instances: [{ x: image }] }),
    post('predict a bad instance', '/predict', { instances: [{ x: nested(0) }, { x: [1, 2] }] }),
    post('predict strings', '/predict', { instances: [{ s: ['grüße', 'a|b'] }] }, 'text'),
    post('limited', '/predict', { instances: [{ x: [1, 2, 3, 4] }] }, 'top'),
    post('infer', '/v2/models/line/infer', {
      id: '7',
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3, 2, 2], data: nested(0).flat(2) }],
    }),
    { name: 'model metadata', path: '/v2/models/line' },
    ...['dense', 'specials', 'dead', 'bad shape', 'cancelled', 'queued', 'never heard of', 'foreign'].map(
      (uri) => ({ name: `get ${uri}`, path: `/predictions/${encodeURIComponent(uri)}` }),
    ),
    { name: 'get a strange uri', path: `/predictions?${uriOf(strange)}` },
    { name: 'get, waiting', path: '/predictions?uri=dense', headers: { prefer: 'wait=10' } },
    { name: 'get kinds', path: '/predictions/kinds', job: 'kinds' },
    { name: 'get top', path: '/predictions/top', job: 'top' },
    { name: 'get pair', path: '/predictions/pair', job: 'top' },
    { name: 'get words', path: '/predictions/words', job: 'text' },
    ...['queued', 'running', 'dense', 'dead', 'cancelled', 'expired', 'never heard of'].map((uri) => ({
      name: `status of ${uri}`,
      path: `/status?${uriOf(uri)}`,
    })),
    post('cancel queued', '/cancel?uri=queued', ''),
    post('cancel dense', '/cancel?uri=dense', ''),
    post('submit an instance', '/predictions', { uri: 'submitted', instances: [{ x: nested(0) }] }),
    post('submit two instances', '/predictions', {
      uris: ['first', 'second'],
      instances: [{ x: nested(1) }, { x: image }],
    }),
    post('submit without instances', '/predictions', { uri: 'submitted' }),
    { name: 'delete dense', method: 'DELETE', path: '/predictions/dense' },
    { name: 'delete dense again', method: 'DELETE', path: '/predictions/dense' },
    { name: 'delete a failure', method: 'DELETE', path: `/predictions?${uriOf('bad shape')}` },
    { name: 'delete all', method: 'DELETE', path: '/predictions' },
    { name: 'delete all, again', method: 'DELETE', path: '/predictions' },
    { name: 'delete all of kinds', method: 'DELETE', path: '/predictions', job: 'kinds' },
    { name: 'welcome', path: '/' },
    { name: 'metrics', path: '/metrics' },
    { name: 'ready', path: '/ready' },
  ];
}

/** Sends requests through the gateway and records the events instead of running them. */
export async function recordRequests(wanted: readonly Request[]): Promise<StoredRequest[]> {
  const caught: Pick<StoredRequest, 'function' | 'event'>[] = [];
  const gateway = await startGateway({
    port: 0,
    log: { info: console.error, warn: console.error, error: console.error },
    routes: ROUTES.map(({ function: name, ...route }) => ({
      ...route,
      handler: async (event) => {
        caught.push({ function: name === 'submit' ? 'predictions' : name, event });
        return { statusCode: 200 };
      },
    })),
  });
  const stored: StoredRequest[] = [];
  for (const { name, job = 'line', method = 'GET', path, headers = {}, body } of wanted) {
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    await fetch(`${gateway.url}${path}`, {
      method,
      headers: { ...type, ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const last = caught.pop();
    if (!last) throw new Error(`${name}: no route for ${method} ${path}`);
    stored.push({ name, job, function: last.function, event: fixedRequest(last.event) });
  }
  await gateway.close();
  return stored;
}
