/**
 * Verifies AWS Signature Version 4: the AWS SDK's own signer signs the received request again, and the signatures are
 * compared. Only the Authorization header counts, which a web page cannot send without a preflight, so forms and
 * presigned URLs are refused.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { SignatureV4 } from '@smithy/signature-v4';
import { Sha256 } from '../../sdk/sha256.ts';
import { isOwnHost } from '../machine/hosts.ts';
import type { Credentials } from './credentials.ts';

/** AWS's limit, before and after. */
const MAX_SKEW_MS = 15 * 60_000;
/** A body whose hash is not in the head is read before its signature is verified. SQS takes 1 MiB in one request. */
const MAX_UNVERIFIED_BYTES = 8 * 1024 * 1024;

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=(\w+)\/\d{8}\/([\w-]+)\/([a-z0-9-]+)\/aws4_request, ?SignedHeaders=([\w;.-]+), ?Signature=([0-9a-f]{64})$/;
/** Bodies that clients do not hash: over TLS, and in chunks with a checksum at the end. */
const UNHASHED = /^(UNSIGNED-PAYLOAD|STREAMING-[A-Z0-9-]+)$/;
const ADVICE =
  'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY as the start of this service or `cluster-serving status` prints them';

/** Why a request is refused. `code` is S3's word for it. */
export class Refused extends Error {
  readonly statusCode = 403;
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

interface Claims {
  readonly region: string;
  readonly service: string;
  readonly signedNames: Set<string>;
  /** 64 hexadecimal digits. */
  readonly signature: string;
  readonly at: Date;
}

interface Signed {
  readonly request: IncomingMessage;
  readonly url: string;
  readonly claims: Claims;
  /** Given where no header has its hash. */
  readonly body?: Buffer;
}

export class SignatureCheck {
  readonly #credentials: Credentials;
  readonly #now: () => number;
  /** S3 signs the path as sent; all other services encode it once more. */
  readonly #signers: Readonly<Record<'s3' | 'other', SignatureV4>>;

  /** @param now ms since 1970 */
  constructor(credentials: Credentials, now: () => number) {
    this.#credentials = credentials;
    this.#now = now;
    const init = { credentials, region: '', service: '', sha256: Sha256, applyChecksum: false };
    this.#signers = {
      s3: new SignatureV4({ ...init, uriEscapePath: false }),
      other: new SignatureV4(init),
    };
  }

  /**
   * Verifies a request, before its body is read where its head has the body's hash.
   * @param url as the client sent it
   * @returns the body to read instead of `body`
   * @throws Refused
   */
  async verify(request: IncomingMessage, url: string, body: Readable): Promise<Readable> {
    const { 'x-amz-content-sha256': claimed } = request.headers;
    const claims = this.#claimsOf(request, url);
    if (claimed === undefined) {
      const chunks = await read(body, MAX_UNVERIFIED_BYTES);
      await this.#assertSignature({ request, url, claims, body: Buffer.concat(chunks) });
      return Readable.from(chunks);
    }
    await this.#assertSignature({ request, url, claims });
    if (UNHASHED.test(String(claimed))) return body;
    const chunks = await read(body);
    const hash = createHash('sha256');
    for (const chunk of chunks) hash.update(chunk);
    if (hash.digest('hex') !== claimed) {
      throw new Refused('XAmzContentSHA256Mismatch', 'the body is not the one whose hash was signed');
    }
    return Readable.from(chunks);
  }

  /**
   * The signature in the head, which is not verified yet.
   * @throws Refused
   */
  #claimsOf({ headers }: IncomingMessage, url: string): Claims {
    const { authorization, host } = headers;
    if (!isOwnHost(host)) {
      throw new Refused('AccessDenied', `the host ${host} is not this machine: call 127.0.0.1`);
    }
    const [, id, region, service, names = '', signature = ''] = AUTHORIZATION.exec(authorization ?? '') ?? [];
    if (region === undefined || service === undefined) {
      const isPresigned = authorization === undefined && /[?&]X-Amz-Signature=/i.test(url);
      const what = isPresigned ? 'presigned URLs are not supported' : 'the request is not signed';
      throw new Refused('AccessDenied', `${what}: ${ADVICE}`);
    }
    if (id !== this.#credentials.accessKeyId) {
      throw new Refused('InvalidAccessKeyId', `the access key is not that of this service: ${ADVICE}`);
    }
    const at = timeOf(headers['x-amz-date']);
    if (!(Math.abs(this.#now() - at) <= MAX_SKEW_MS)) {
      const message = 'x-amz-date is more than 15 minutes from the time of this machine';
      throw new Refused('RequestTimeTooSkewed', message);
    }
    const signedNames = new Set(names.split(';'));
    const mustBe = Object.keys(headers).filter((name) => name === 'host' || name.startsWith('x-amz-'));
    const unsigned = mustBe.filter((name) => !signedNames.has(name));
    if (unsigned.length === 0) return { region, service, signedNames, signature, at: new Date(at) };
    throw new Refused('AccessDenied', `these headers must be signed: ${unsigned.join()}`);
  }

  async #assertSignature({ request, url, claims, body }: Signed): Promise<void> {
    const { region, service, signedNames, signature, at } = claims;
    const headers = [...signedNames].map((name) => [name, String(request.headers[name] ?? '')]);
    const [path = '', ...query] = url.split('?');
    const own = await this.#signers[service === 's3' ? 's3' : 'other'].sign(
      {
        method: request.method ?? '',
        protocol: 'http:',
        hostname: '',
        path,
        query: queryOf(query.join('?')),
        headers: Object.fromEntries(headers),
        body,
      },
      { signingDate: at, signingRegion: region, signingService: service, signableHeaders: signedNames },
    );
    const expected = AUTHORIZATION.exec(own.headers['authorization'] ?? '')?.[5] ?? '';
    const isRight =
      expected.length === signature.length && timingSafeEqual(Buffer.from(expected), Buffer.from(signature));
    if (!isRight) throw new Refused('SignatureDoesNotMatch', `the signature is wrong: ${ADVICE}`);
  }
}

/** Reads 20261122T120000Z. NaN when it is not a time. */
function timeOf(text: unknown): number {
  return Date.parse(String(text).replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
}

function queryOf(text: string): Record<string, string[]> {
  const params = new URLSearchParams(text.replaceAll('+', '%2B'));
  return Object.fromEntries([...params.keys()].map((name) => [name, params.getAll(name)]));
}

/** @param limit in bytes; without it the parser of the body has one */
async function read(body: Readable, limit = Infinity): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limit)
      throw new Refused('EntityTooLarge', `a body without x-amz-content-sha256 is over ${limit} bytes`);
    chunks.push(chunk);
  }
  return chunks;
}
