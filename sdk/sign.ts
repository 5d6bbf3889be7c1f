/**
 * Signs requests for API Gateway with AWS Signature Version 4. What is sent is what is signed: path and query are
 * written in the one form that every reader of the specification encodes alike. Loaded with the first signed request,
 * because the credential chain takes longer to load than a request takes.
 */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { SignatureV4 } from '@smithy/signature-v4';
import { asError, badRequest, ServingError } from '../lib/contract/errors.ts';
import { discard, type Fetch } from './fetch.ts';
import { limited } from './limit.ts';
import { awsAgent } from './proxy.ts';
import { Sha256 } from './sha256.ts';

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  readonly expiration?: Date;
}

export interface Signing {
  readonly region: string;
  /** Default: the usual chain of the AWS SDK. */
  readonly credentials?: (() => Promise<AwsCredentials>) | undefined;
  /** ms since 1970. Default: Date.now. */
  readonly now?: (() => number) | undefined;
}

/** AWS takes five minutes; the answer's Date is in whole seconds, and took its way. */
const SKEW_MS = 4 * 60_000;

export class Signer {
  readonly #signer: SignatureV4;
  readonly #credentials: () => Promise<AwsCredentials>;
  readonly #now: () => number;
  #found: AwsCredentials | undefined;
  /** The clock of the API minus that of this machine. */
  #aheadMs = 0;

  constructor({
    region,
    credentials = defaultProvider({ clientConfig: { requestHandler: awsAgent() } }),
    now = Date.now,
  }: Signing) {
    this.#credentials = credentials;
    this.#now = now;
    this.#signer = new SignatureV4({
      service: 'execute-api',
      region,
      sha256: Sha256,
      credentials: async () => this.#found as AwsCredentials,
    });
  }

  /** Finds the credentials, or renews them. @throws unauthorized without any, with what the chain says; the signal's reason */
  async ready(signal?: AbortSignal | null): Promise<void> {
    try {
      this.#found = await limited({ signal }, () => this.#credentials());
    } catch (error) {
      if (signal?.aborted) throw error;
      const why = asError(error).message;
      throw new ServingError('unauthorized', `no AWS credentials to sign with: ${why}`, { cause: error });
    }
  }

  /** Signs and sends. A clock that is wrong is corrected by that of the answer, and the request signed once more. */
  async send(url: string, init: RequestInit, send: Fetch): Promise<Response> {
    // It knows the type and the bytes of every kind of body, of which some can be read once only.
    const request = new Request(url, init);
    const body = request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());
    const sendOnce = async (aheadMs: number) => {
      const { text, headers } = await this.#signed(request, body, aheadMs);
      return send(text, { ...init, headers, ...(body === undefined ? {} : { body }) });
    };
    // Other requests may correct the clock meanwhile.
    const before = this.#aheadMs;
    const response = await sendOnce(before);
    const aheadMs = Date.parse(response.headers.get('date') ?? '') - this.#now();
    // Without a Date it is NaN.
    if (response.status !== 403 || !(Math.abs(aheadMs - before) > SKEW_MS)) return response;
    discard(response);
    const again = await sendOnce(aheadMs);
    if (again.status !== 403) this.#aheadMs = aheadMs;
    return again;
  }

  /** The signed url, and the headers to send. */
  async #signed(request: Request, body: Uint8Array | undefined, aheadMs: number) {
    const { protocol, hostname, host, path, query, text } = signable(request.url);
    const { headers } = await this.#signer.sign(
      {
        method: request.method,
        protocol,
        hostname,
        path,
        query,
        headers: { ...Object.fromEntries(request.headers), host },
        body,
      },
      { signingDate: new Date(this.#now() + aheadMs) },
    );
    // fetch writes it from the url.
    const { host: _host, ...sent } = headers;
    return { text, headers: sent };
  }
}

/** @throws bad_request for an escape that is none */
function signable(given: string) {
  const { protocol, hostname, host, pathname, searchParams } = new URL(given);
  const query = Object.create(null) as Record<string, string[]>;
  for (const [name, value] of searchParams) (query[name] ??= []).push(value);
  const pairs = [...searchParams].map(([name, value]) => `${encoded(name)}=${encoded(value)}`);
  const path = pathname.split('/').map(reencoded).join('/');
  const text = `${protocol}//${host}${path}${pairs.length > 0 ? `?${pairs.join('&')}` : ''}`;
  return { protocol, hostname, host, path, query, text };
}

function reencoded(segment: string): string {
  try {
    return encoded(decodeURIComponent(segment));
  } catch (error) {
    throw badRequest(`the path of the url has an escape that is none: ${segment}`, { cause: error });
  }
}

/** All but letters, digits and - . _ ~ */
function encoded(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
