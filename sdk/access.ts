/**
 * Says who calls: signs each request with AWS credentials, or sends a token or an API key, and never two of these.
 * What says who calls goes to the API alone; a redirect is an error, except for a 303 that the caller asks to see.
 */
import { badConfig, ServingError } from '../lib/contract/errors.ts';
import { variables } from '../lib/contract/variables.ts';
import { discard, type Fetch, isToken } from './fetch.ts';
import type { Signer } from './sign.ts';

export const AUTH_KINDS = ['iam', 'jwt', 'api-key', 'none'] as const;
export type AuthKind = (typeof AUTH_KINDS)[number];

export interface AccessOptions {
  /** Sends the HTTPS requests. Default: fetch. */
  readonly fetch?: Fetch;
  /**
   * How requests say who calls: `iam` signs them with AWS credentials, `jwt` sends the token, `api-key` the key. Default:
   * CLUSTER_SERVING_AUTH; else by the option or variable that is given; else `iam` where the url is API Gateway's own and
   * there is no `fetch`, as long as there are credentials; else `none`.
   */
  readonly auth?: AuthKind;
  /** Sent as `Authorization: Bearer`: a JWT, or the token of a local service. Default: CLUSTER_SERVING_TOKEN. */
  readonly token?: string;
  /** Sent as `x-api-key`, to a gateway in front. Default: CLUSTER_SERVING_API_KEY. */
  readonly apiKey?: string;
  /** Of signatures where the url does not say it (a domain of your own). Default: AWS_REGION. */
  readonly region?: string;
}

/** Characters of a JWT; API Gateway takes 10 KB of headers. */
export const MAX_TOKEN = 8_192;

interface Access {
  readonly kind: AuthKind;
  readonly secret?: string | undefined;
  /** No option asked for signatures: without credentials, requests go out unsigned. */
  readonly isGuess?: boolean;
}

/**
 * @param url of the API; the function sends to no other origin
 * @returns `fetch` that says who calls
 * @throws bad_config, which does not show a secret
 */
export function authorizedFetch(url: string, options: AccessOptions = {}): Fetch {
  if (!URL.canParse(url)) throw badConfig(`url: expected https://host, got ${JSON.stringify(url)}`);
  const send = options.fetch ?? fetch;
  const { kind, secret, isGuess = false } = accessOf(url, options);
  if (kind === 'none') return send;
  const { origin } = new URL(url);
  const own: Fetch = async (to, init) => {
    if (new URL(to).origin !== origin) throw badConfig(`credentials of ${origin} are not sent to ${to}`);
    return refusingRedirects(await send(to, { ...init, redirect: 'manual' }), to, init.redirect === 'manual');
  };
  if (kind === 'iam') return signing(own, options, { url, isGuess });
  const [name, value] = kind === 'jwt' ? ['authorization', `Bearer ${secret}`] : ['x-api-key', `${secret}`];
  return (to, init) => {
    const headers = new Headers(init.headers);
    headers.set(name, value);
    return own(to, { ...init, headers });
  };
}

/** What is given in options outweighs the environment. @throws bad_config */
function accessOf(url: string, options: AccessOptions): Access {
  const { token, apiKey } = options;
  const isSaid = token !== undefined || apiKey !== undefined;
  const auth = options.auth ?? (isSaid ? undefined : authOfEnvironment());
  const fromEnvironment = (kind: AuthKind, name: string) =>
    isSaid || (auth ?? kind) !== kind ? undefined : variables[name] || undefined;
  const secrets = {
    jwt: token ?? fromEnvironment('jwt', 'CLUSTER_SERVING_TOKEN'),
    'api-key': apiKey ?? fromEnvironment('api-key', 'CLUSTER_SERVING_API_KEY'),
  };
  const given = Object.entries(secrets).flatMap(([kind, secret]) =>
    secret === undefined ? [] : [[kind as AuthKind, secret] as const],
  );
  const [[only, secret] = []] = given;
  if (given.length > 1 || (only !== undefined && auth !== undefined && auth !== only)) {
    const names = [...(auth === undefined ? [] : [`auth ${auth}`]), ...given.map(([kind]) => NAMES[kind])];
    throw badConfig(`${names.join(' and ')} exclude each other; a request has one way to say who calls`);
  }
  if (only === undefined || secret === undefined) {
    if (auth === 'jwt' || auth === 'api-key') throw badConfig(`auth ${auth} needs ${NAMES[auth]}`);
    if (auth !== undefined) return { kind: auth };
    const isGuess = options.fetch === undefined && regionOf(url) !== undefined;
    return { kind: isGuess ? 'iam' : 'none', isGuess };
  }
  if (only === 'jwt' && !isToken(secret, MAX_TOKEN))
    throw badConfig(`token: expected 16 to ${MAX_TOKEN} letters, digits and - . _ ~ + /`);
  if (only === 'api-key' && !/^[\x21-\x7e]{1,512}$/.test(secret))
    throw badConfig('apiKey: expected 1 to 512 characters of ASCII without spaces');
  return { kind: only, secret };
}

const NAMES: Readonly<Record<AuthKind, string>> = {
  iam: 'AWS credentials',
  jwt: 'a token (option token, CLUSTER_SERVING_TOKEN)',
  'api-key': 'an API key (option apiKey, CLUSTER_SERVING_API_KEY)',
  none: 'nothing',
};

function authOfEnvironment(): AuthKind | undefined {
  const text = variables['CLUSTER_SERVING_AUTH'] || undefined;
  if (text === undefined || isAuthKind(text)) return text;
  throw badConfig(
    `CLUSTER_SERVING_AUTH: expected one of ${AUTH_KINDS.join(', ')}, got ${JSON.stringify(text)}`,
  );
}

export function isAuthKind(text: unknown): text is AuthKind {
  return AUTH_KINDS.some((kind) => kind === text);
}

/** Of API Gateway's own addresses; undefined for any other. */
function regionOf(url: string): string | undefined {
  const { protocol, hostname } = new URL(url);
  const host = /^[a-z0-9-]+\.execute-api\.([a-z]{2,}(?:-[a-z0-9]+)+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)$/;
  return protocol === 'https:' ? host.exec(hostname)?.[1] : undefined;
}

interface Guess {
  readonly url: string;
  readonly isGuess: boolean;
}

/** Loads the signer with the first request. */
function signing(send: Fetch, options: AccessOptions, { url, isGuess }: Guess): Fetch {
  const region =
    regionOf(url) ?? (options.region || variables['AWS_REGION'] || variables['AWS_DEFAULT_REGION']);
  if (!region) {
    throw badConfig(
      `auth iam needs a region for ${new URL(url).host}: the option region (--region) or the variable AWS_REGION`,
    );
  }
  let signer: Promise<Signer> | undefined;
  /** The API answered without a signature. */
  let isOpen = false;
  return async (to, init) => {
    if (isOpen) return send(to, init);
    signer ??= import('./sign.ts').then(({ Signer }) => new Signer({ region }));
    const signs = await signer;
    try {
      await signs.ready(init.signal);
    } catch (error) {
      if (!isGuess || !(error instanceof ServingError)) throw error;
      const response = await send(to, init);
      if (response.status !== 401 && response.status !== 403) isOpen = true;
      else throw new ServingError('unauthorized', `${to} answered ${response.status}; ${error.message}`);
      return response;
    }
    return signs.send(to, init, send);
  };
}

function refusingRedirects(response: Response, url: string, seesOther: boolean): Response {
  const isRedirect = response.type === 'opaqueredirect' || /^30[12378]$/.test(String(response.status));
  if (!isRedirect || (seesOther && response.status === 303)) return response;
  discard(response);
  const target = response.headers.get('location') ?? 'another address';
  throw badConfig(`${url} redirects to ${target}, where credentials are not sent: is it the url of the API?`);
}
