/** Who calls, as Node knows it: from options, from variables of the environment, and by the credentials of the AWS SDK. */
import { badConfig, ServingError } from '../lib/contract/errors.ts';
import { variables } from '../lib/contract/variables.ts';
import type { Fetch } from './fetch.ts';
import { type HttpAccess, originOf, toOrigin, withSecret } from './http/access.ts';
import { nodeFetch } from './proxy.ts';
import type { Signer } from './sign.ts';

export const AUTH_KINDS = ['iam', 'jwt', 'api-key', 'none'] as const;
export type AuthKind = (typeof AUTH_KINDS)[number];
type SecretKind = 'jwt' | 'api-key';

export interface AccessOptions extends HttpAccess {
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
  /** Region to sign for, if the url does not name it (a domain of your own). Default: AWS_REGION. */
  readonly region?: string;
}

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
  const origin = originOf(url);
  const { fetch: send = nodeFetch } = options;
  const { kind, secret, isGuess = false } = accessOf(url, options);
  if (kind === 'iam') return signing(toOrigin(origin, send), options, { url, isGuess });
  if (kind === 'none') return send;
  return withSecret(url, { fetch: send, [kind === 'jwt' ? 'token' : 'apiKey']: secret });
}

/**
 * Options take precedence over the environment.
 * @throws bad_config
 */
function accessOf(url: string, options: AccessOptions): Access {
  const { token, apiKey } = options;
  const isSaid = token !== undefined || apiKey !== undefined;
  const auth = options.auth ?? (isSaid ? undefined : authOfEnvironment());
  const fromEnvironment = (kind: SecretKind, name: string) =>
    isSaid || (auth ?? kind) !== kind ? undefined : variables[name] || undefined;
  const secrets = {
    jwt: token ?? fromEnvironment('jwt', 'CLUSTER_SERVING_TOKEN'),
    'api-key': apiKey ?? fromEnvironment('api-key', 'CLUSTER_SERVING_API_KEY'),
  };
  const given = Object.entries(secrets).flatMap(([kind, secret]) =>
    secret === undefined ? [] : [[kind as SecretKind, secret] as const],
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
  return { kind: only, secret };
}

const NAMES: Readonly<Record<SecretKind, string>> = {
  jwt: 'a token (option token, CLUSTER_SERVING_TOKEN)',
  'api-key': 'an API key (option apiKey, CLUSTER_SERVING_API_KEY)',
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

/** Returns the region in one of API Gateway's own addresses; undefined for any other. */
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
