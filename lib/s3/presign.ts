/** Presigned URLs of large results, made without the AWS SDK, which would be half of a cold start. Nothing is sent. */
import { type Credentials, presign } from '../codecs/sigv4.ts';

interface PresignedPlace {
  readonly region: string;
  readonly credentials: Credentials;
  /** Of an emulator, with the bucket in the path. Default: S3. */
  readonly endpoint?: string | undefined;
}

/** Long enough for a client to begin, and to begin again. A download that has begun goes on. */
const LIFE_SECONDS = 300;

/** @param key letters, digits and `/._-` @param now wall clock, in ms */
export function presignedUrl(bucket: string, key: string, place: PresignedPlace, now: number): string {
  const { region, credentials, endpoint } = place;
  const suffix = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  const { protocol, host } = new URL(endpoint ?? `https://${bucket}.s3.${region}.${suffix}`);
  const signed = presign({
    host,
    path: endpoint === undefined ? `/${key}` : `/${bucket}/${key}`,
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
