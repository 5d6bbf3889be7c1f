/** AWS Signature Version 4 written out from its specification, so that the service's own signer is not what tests it. */
import { createHash, createHmac } from 'node:crypto';
import type { RawRequest } from './raw-request.ts';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

interface Signing {
  readonly credentials: Credentials;
  readonly service: 's3' | 'sqs';
  /** The Host header that is signed and sent. */
  readonly host: string;
  /** Default: now. */
  readonly at?: Date;
  readonly region?: string;
  /** The value of x-amz-content-sha256; `null` leaves the header out, as boto3 does for SQS. Default: the body's hash. */
  readonly contentSha256?: string | null;
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string) => createHmac('sha256', key).update(data).digest();

/** @param request a path that is already encoded, with a query of at most one parameter */
export function signed(request: RawRequest, signing: Signing): RawRequest {
  const { method = 'GET', path = '/', headers = {}, body = '' } = request;
  const { credentials, service, host, at = new Date(), region = 'local', contentSha256 } = signing;
  const date = at.toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const hash = contentSha256 ?? sha256(body);
  const sent: Record<string, string> = {
    ...headers,
    host,
    'x-amz-date': date,
    ...(contentSha256 === null ? {} : { 'x-amz-content-sha256': hash }),
  };
  const names = Object.keys(sent).sort();
  const [plainPath = '', query = ''] = path.split('?');
  const canonical = [
    method,
    plainPath,
    query === '' || query.includes('=') ? query : `${query}=`,
    ...names.map((name) => `${name}:${sent[name]?.trim()}`),
    '',
    names.join(';'),
    hash,
  ].join('\n');
  const scope = `${date.slice(0, 8)}/${region}/${service}/aws4_request`;
  const key = scope.split('/').reduce<string | Buffer>(hmac, `AWS4${credentials.secretAccessKey}`);
  const signature = hmac(key, `AWS4-HMAC-SHA256\n${date}\n${scope}\n${sha256(canonical)}`).toString('hex');
  const authorization =
    `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}, ` +
    `SignedHeaders=${names.join(';')}, Signature=${signature}`;
  return { method, path, headers: { ...sent, authorization }, ...(body === '' ? {} : { body }) };
}
