/** One signed call of a service of AWS, for functions whose cold start would pay for the client of the AWS SDK. */
import { request as requestOverHttp } from 'node:http';
import { request as requestOverHttps } from 'node:https';
import { type Credentials, signedHeaders } from '../codecs/sigv4.ts';
import { domainOf } from '../contract/aws-address.ts';

export interface AwsPlace {
  readonly region: string;
  readonly credentials: Credentials;
  /** Another endpoint than AWS's, as of an emulator. */
  readonly endpoint?: string | undefined;
}

export interface AwsCall {
  /** As in its host's name and in signatures. */
  readonly service: string;
  /** Default: POST. */
  readonly method?: 'GET' | 'POST' | 'PUT';
  /** Escaped. Default: "/". */
  readonly path?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly limitMs: number;
  /** The largest answer. Default 64 KiB. */
  readonly maxBytes?: number;
}

export interface AwsAnswer {
  readonly status: number;
  readonly text: string;
}

const ANSWER_BYTES = 64 * 1024;

/** @throws errors of the connection, and for an answer that takes too long or is too large */
export function callAws(place: AwsPlace, call: AwsCall): Promise<AwsAnswer> {
  const { service, method = 'POST', path = '/', headers, body } = call;
  const { region, endpoint } = place;
  const url = new URL(path, endpoint ?? `https://${service}.${region}.${domainOf(region)}`);
  const signed = signedHeaders({
    ...place,
    method,
    path,
    host: url.host,
    service,
    now: Date.now(),
    headers,
    body,
  });
  return send(url, { method, headers: signed }, call);
}

/** The reason in an answer, as `ParameterNotFound: …`; the status where there is none. */
export function reasonOf({ status, text }: AwsAnswer): string {
  const { __type: type, message, Message }: Refusal = parsed(text);
  // As "com.amazonaws.ssm#ParameterNotFound".
  const kind = typeof type === 'string' ? type.replace(/^.*#/, '') : `status ${status}`;
  const why = message ?? Message;
  return typeof why === 'string' && why !== '' ? `${kind}: ${why}` : kind;
}

interface Refusal {
  readonly __type?: unknown;
  readonly message?: unknown;
  readonly Message?: unknown;
}

/** @returns an empty object for an answer that is not a JSON object */
export function parsed(text: string): object {
  try {
    const answer: unknown = JSON.parse(text);
    return typeof answer === 'object' && answer !== null ? answer : {};
  } catch {
    return {};
  }
}

function send(
  url: URL,
  head: { readonly method: string; readonly headers: Record<string, string> },
  { body, limitMs, maxBytes = ANSWER_BYTES }: AwsCall,
): Promise<AwsAnswer> {
  const request = url.protocol === 'http:' ? requestOverHttp : requestOverHttps;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(limitMs);
    const sent = request(url, { ...head, signal }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > maxBytes) sent.destroy(new Error(`an answer of over ${maxBytes} bytes`));
        chunks.push(chunk);
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
      );
    });
    const failed = (error: Error) =>
      reject(signal.aborted ? new Error(`no answer within ${limitMs} ms`) : error);
    sent.on('error', failed);
    sent.end(body);
  });
}
