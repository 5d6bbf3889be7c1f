/** Presigned URLs of large results and of uploads, made without the AWS SDK, which would be half of a cold start. Nothing is sent. */
import { type Credentials, presign } from '../codecs/sigv4.ts';
import { domainOf } from '../contract/aws-address.ts';

/** Where S3 is, and who asks it. */
export interface S3Place {
  readonly region: string;
  readonly credentials: Credentials;
  /** An emulator's address, with the bucket in the path. Default: S3. */
  readonly endpoint?: string | undefined;
}

/** Long enough for a client to begin, and to begin again. A transfer that has begun goes on. */
export const LIFE_SECONDS = 300;

/** @param key letters, digits and `/._-` @param now wall clock, in ms */
export function presignedUrl(bucket: string, key: string, place: S3Place, now: number): string {
  return presigned(bucket, key, { place, now, method: 'GET' });
}

interface Presigning {
  readonly place: S3Place;
  /** Wall clock, in ms. */
  readonly now: number;
  readonly method: 'GET' | 'PUT';
  /** That the request must have, such as its length. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** @param key letters, digits and `/._-` */
export function presignedPut(bucket: string, key: string, options: Omit<Presigning, 'method'>): string {
  return presigned(bucket, key, { ...options, method: 'PUT' });
}

function presigned(bucket: string, key: string, { place, ...request }: Presigning): string {
  const { region, credentials } = place;
  const { protocol, host, pathname } = objectUrl(bucket, key, place);
  const signed = presign({
    host,
    path: pathname,
    query: {},
    service: 's3',
    region,
    credentials,
    ...request,
    lifeSeconds: LIFE_SECONDS,
    payloadDigest: 'UNSIGNED-PAYLOAD',
  });
  return `${protocol}//${signed}`;
}

/** @param key letters, digits and `/._-` */
export function objectUrl(bucket: string, key: string, { region, endpoint }: S3Place): URL {
  return endpoint === undefined
    ? new URL(`https://${bucket}.s3.${region}.${domainOf(region)}/${key}`)
    : new URL(`/${bucket}/${key}`, endpoint);
}
