/**
 * Says who calls with a token or an API key, and never both. What says who calls goes to the API alone; a redirect is an
 * error, except for a 303 that the caller asks to see.
 */
import { badConfig } from '../../lib/contract/errors.ts';
import { discard, type Fetch, globalFetch, isToken } from '../fetch.ts';

export interface HttpAccess {
  /** Sends the HTTPS requests. Default: fetch. */
  readonly fetch?: Fetch | undefined;
  /** Sent as `Authorization: Bearer`: a JWT, or the token of a local service. */
  readonly token?: string | undefined;
  /** Sent as `x-api-key`, to a gateway in front. */
  readonly apiKey?: string | undefined;
}

/** Characters of a JWT; API Gateway takes 10 KB of headers. */
export const MAX_TOKEN = 8_192;

/**
 * @param url of the API; the function sends to no other origin
 * @returns `fetch` that says who calls
 * @throws bad_config, which does not show a secret
 */
export function withSecret(url: string, { fetch: send = globalFetch, token, apiKey }: HttpAccess): Fetch {
  const origin = originOf(url);
  if (token !== undefined && apiKey !== undefined) throw badConfig('token and apiKey exclude each other');
  if (token === undefined && apiKey === undefined) return send;
  if (token !== undefined && !isToken(token, MAX_TOKEN))
    throw badConfig(`token: expected 16 to ${MAX_TOKEN} letters, digits and - . _ ~ + /`);
  if (apiKey !== undefined && !/^[\x21-\x7e]{1,512}$/.test(apiKey))
    throw badConfig('apiKey: expected 1 to 512 ASCII characters, no spaces');
  const [name, value] = apiKey === undefined ? ['authorization', `Bearer ${token}`] : ['x-api-key', apiKey];
  const own = toOrigin(origin, send);
  return (to, init) => {
    const headers = new Headers(init.headers);
    headers.set(name, value);
    return own(to, { ...init, headers });
  };
}

/** @throws bad_config */
export function originOf(url: string): string {
  if (URL.canParse(url)) return new URL(url).origin;
  throw badConfig(`url: expected https://host, got ${JSON.stringify(url)}`);
}

/** Sends to one origin alone, and follows no redirect. */
export function toOrigin(origin: string, send: Fetch): Fetch {
  return async (to, init) => {
    if (new URL(to).origin !== origin) throw badConfig(`credentials of ${origin} are not sent to ${to}`);
    return refusingRedirects(await send(to, { ...init, redirect: 'manual' }), to, init.redirect === 'manual');
  };
}

function refusingRedirects(response: Response, url: string, seesOther: boolean): Response {
  const isRedirect = response.type === 'opaqueredirect' || /^30[12378]$/.test(String(response.status));
  if (!isRedirect || (seesOther && response.status === 303)) return response;
  discard(response);
  const target = response.headers.get('location') ?? 'another address';
  throw badConfig(`${url} redirects to ${target}, where credentials are not sent: is it the url of the API?`);
}
