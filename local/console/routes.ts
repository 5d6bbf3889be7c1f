/**
 * The routes of the console. The page may be read by all who reach the service, because it holds nothing of it; what it asks
 * for needs the service's token, as everything else, and comes from pages of the service itself alone: those of other
 * origins get nothing, even where http.corsOrigins lists them.
 */
import { ACTION_HEADER, type Done, EDIT_CHARACTERS } from '../../console/api.ts';
import { badRequest, ServingError } from '../../lib/contract/errors.ts';
import { logError } from '../../lib/contract/log.ts';
import { type HttpRequest, readRequest } from '../../lib/http/request.ts';
import { type ErrorBody, json, respond } from '../../lib/http/response.ts';
import { isOwnOrigin } from '../gateway/caller.ts';
import type { GatewayRoute } from '../gateway/routes.ts';
import { consolePage } from './page.ts';
import type { ConsoleSource } from './source.ts';

const API = '/console/api';
/** A replay opens what runs its record, and a version answers its golden requests. */
const ACTION_MS = 30_000;
const ACTION_CHARACTERS = 4_096;

/** How errors are answered to who started the console: in full, and not logged. */
export const OWNER: [log: () => void, bodyOf: ErrorBody] = [
  () => undefined,
  ({ message, code }) => ({ error: message, code }),
];

interface ConsoleRouteOptions {
  readonly source: ConsoleSource;
  /** Names by which proxies call, as the gateway knows them. */
  readonly allowedHosts: readonly string[];
  /** True: the caller is who started this, and sees errors in full. Default: the words for everybody. */
  readonly isOwner?: boolean;
  /** Answers GET / to a client that does not ask for HTML. */
  readonly root: GatewayRoute['handler'];
}

export function consoleRoutes({
  source,
  allowedHosts,
  isOwner = false,
  root,
}: ConsoleRouteOptions): GatewayRoute[] {
  const errors: [log: typeof logError, bodyOf?: ErrorBody] = isOwner ? OWNER : [logError];
  const route: MakeRoute = (method, path, work) => ({
    method,
    path: `${API}/${path}`,
    functionName: 'console',
    ownSlots: true,
    timeoutMs: ACTION_MS,
    handler: (event) =>
      respond(
        async () => {
          const request = readRequest(event);
          assertOwnPage(request, allowedHosts);
          return json(200, await work(request), { 'cache-control': 'no-store' });
        },
        ...errors,
      ),
  });
  const page = () => respond(consolePage, logError);
  return [
    {
      method: 'GET',
      path: '/console',
      functionName: 'console',
      ownSlots: true,
      isOpen: () => true,
      handler: page,
    },
    {
      method: 'GET',
      path: '/',
      functionName: 'status',
      ownSlots: true,
      isOpen: ({ accept }) => asksForHtml(accept),
      handler: (event, context) => (asksForHtml(event.headers['accept']) ? page() : root(event, context)),
    },
    ...apiRoutes(source, route),
  ];
}

type MakeRoute = (
  method: 'GET' | 'POST',
  path: string,
  work: (request: HttpRequest) => Promise<object>,
) => GatewayRoute;

function apiRoutes(source: ConsoleSource, route: MakeRoute): GatewayRoute[] {
  return [
    route('GET', 'model', () => source.model()),
    route('GET', 'example', () => source.example()),
    route('GET', 'live', () => source.live()),
    route('GET', 'records', () => source.records()),
    route('GET', 'dead-letters', ({ parameters }) => source.deadLetters(parameters['after'])),
    route('GET', 'dead-letter', ({ parameters }) => source.editable(parameters['id'] ?? '')),
    route('GET', 'notices', () => source.notices()),
    route('GET', 'captures', () => source.captures()),
    route('GET', 'jobs', () => source.jobs()),
    route('GET', 'versions', () => source.versions()),
    ...(['replay', 'cancel'] as const).map((what) =>
      route('POST', what, (request) => action(request, ['id'], ([id = '']) => source[what](id))),
    ),
    route('POST', 'edit', (request) =>
      action(
        request,
        ['id', 'payload'],
        ([id = '', text = '']) => source.edit(id, text),
        EDIT_CHARACTERS * 6,
      ),
    ),
    route('POST', 'resume', (request) => action(request, ['target'], ([name = '']) => source.resume(name))),
    ...(['activate', 'promote', 'end'] as const).map((what) =>
      route('POST', what, (request) => action(request, ['version'], ([one = '']) => source[what](one))),
    ),
  ];
}

/** Browsers ask for HTML first, programs for anything. */
export function asksForHtml(accept = ''): boolean {
  return /^\s*text\/html\b/i.test(accept);
}

/** @throws unauthorized for what a page of another origin asks */
function assertOwnPage({ headers, method }: HttpRequest, allowedHosts: readonly string[]): void {
  const { origin, host } = headers;
  const isForeign = origin !== undefined && !isOwnOrigin(origin, host, { allowedHosts });
  const site = headers['sec-fetch-site'] ?? 'same-origin';
  if (isForeign || !['same-origin', 'none'].includes(site))
    throw new ServingError('unauthorized', 'the console answers its own page alone');
  if (method === 'POST' && headers[ACTION_HEADER] === undefined)
    throw new ServingError('unauthorized', `an action of the console needs the header ${ACTION_HEADER}`);
}

/** @param most characters of a body. @throws bad_request without a field */
async function action(
  request: HttpRequest,
  fields: readonly string[],
  act: (values: readonly string[]) => Promise<Done>,
  most = ACTION_CHARACTERS,
): Promise<Done> {
  const text = Buffer.from(request.body()).toString();
  const values = fields.map((field) => {
    const value = text.length > most ? undefined : readField(text, field);
    if (typeof value !== 'string' || value === '') throw badRequest(`expected {"${field}": "…"}`);
    return value;
  });
  return act(values);
}

function readField(text: string, field: string): unknown {
  try {
    const body: Readonly<Record<string, unknown>> | null = JSON.parse(text);
    return body !== null && Object.hasOwn(body, field) ? body[field] : undefined;
  } catch {
    return undefined;
  }
}
