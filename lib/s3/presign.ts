/** Presigned URLs of large results, made without the AWS SDK, which would be half of a cold start. Nothing is sent. */
import { type Credentials, presign } from '../codecs/sigv4.ts';
import { domainOf } from '../contract/aws-address.ts';

/** Where S3 is, and who asks it. */
export interface S3Place {
  readonly region: string;
  readonly credentials: Credentials;
  /** An emulator's address, with the bucket in the path. Default: S3. */
  readonly endpoint?: string | undefined;
}

/** Long enough for a client to begin, and to begin again. A download that has begun goes on. */
const LIFE_SECONDS = 300;

/** @param key letters, digits and `/._-` @param now wall clock, in ms */
export function presignedUrl(bucket: string, key: string, place: S3Place, now: number): string {
  const { region, credentials } = place;
  const { protocol, host, pathname } = objectUrl(bucket, key, place);
  const signed = presign({
    host,
    path: pathname,
    query: {},
    service: 's3',
    region,
    credentials,
    now,
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
