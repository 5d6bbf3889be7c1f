/**
 * The one owner of S3: bytes, texts and listings. "Not there" is an answer (undefined); every other error keeps S3's
 * name as the cause. S3 may also say nothing, and the SDK would wait for ever and Lambda end the whole batch, so every
 * call has a time limit.
 */
import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';

export type { S3Client } from '@aws-sdk/client-s3';

export interface ObjectAddress {
  readonly bucket: string;
  readonly key: string;
}

export interface ListedObject {
  readonly key: string;
  readonly bytes: number;
  readonly etag: string;
}

const TEXT_BYTES = 1024 * 1024;

/** For one read, its repetitions included: 32 MiB at 4 MB/s, where S3 gives about 55. */
const READ_MS = 8_000;
/** A connection on which nothing moves for so long is given up: a write may be large and come from far away. */
const IDLE_MS = 10_000;
const CONNECT_MS = 3_000;

/** What is undefined, the AWS SDK finds out as it always does. */
interface AwsOptions {
  endpoint?: string | undefined;
  region?: string | undefined;
  credentials?: { accessKeyId: string; secretAccessKey: string } | undefined;
}

export function openS3(options: AwsOptions & { idleMs?: number } = {}): S3Client {
  return new S3Client({
    maxAttempts: 4,
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: options.idleMs ?? IDLE_MS },
    ...(options.region ? { region: options.region } : {}),
    ...(options.credentials ? { credentials: options.credentials } : {}),
    // A custom endpoint (an emulator, MinIO) rarely answers to bucket.host names.
    ...(options.endpoint ? { endpoint: options.endpoint, forcePathStyle: true } : {}),
  });
}

export interface TaggedText {
  readonly text: string;
  readonly etag: string | undefined;
}

/** A small text, cut at 1 MiB; undefined when there is no such object. */
export async function getText(s3: S3Client, address: ObjectAddress): Promise<string | undefined> {
  return (await getTaggedText(s3, address))?.text;
}

/** `getText` with the tag of the version that was read. */
export async function getTaggedText(s3: S3Client, address: ObjectAddress): Promise<TaggedText | undefined> {
  try {
    const { bytes, etag } = await getRange(s3, address, { start: 0, end: TEXT_BYTES });
    return { text: Buffer.from(bytes).toString(), etag };
  } catch (error) {
    const { name } = error as Error;
    if (name === 'NoSuchKey') return undefined;
    if (name !== 'InvalidRange') throw error;
    // An empty object has no first byte to begin a range with.
    const { etag } = await getRange(s3, address, { start: 0, end: 0 });
    return { text: '', etag };
  }
}

/** The first `limit` bytes of an object. @throws what S3 says, NoSuchKey among it */
export async function getBytes(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  limit: number,
): Promise<Uint8Array> {
  const get = new GetObjectCommand({ Bucket: bucket, Key: key, Range: `bytes=0-${limit - 1}` });
  return (await read(s3, get)).bytes;
}

/** The SDK repeats what has no answer; a body that breaks off is asked for once more here. */
async function read(
  s3: S3Client,
  get: GetObjectCommand,
): Promise<{ readonly bytes: Uint8Array; readonly etag: string | undefined }> {
  const abortSignal = AbortSignal.timeout(READ_MS);
  for (let attempt = 1; ; attempt++) {
    const { Body, ETag: etag } = await s3.send(get, { abortSignal });
    try {
      return { bytes: (await Body?.transformToByteArray()) ?? new Uint8Array(), etag };
    } catch (error) {
      if (attempt === 2 || abortSignal.aborted) throw error;
    }
  }
}

/** Part of an object; with an ETag only of that very version. An empty object has no range and is read whole. */
export async function getRange(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  range: { readonly start: number; readonly end: number; readonly etag?: string | undefined },
): Promise<{ readonly bytes: Uint8Array; readonly etag: string | undefined }> {
  const { start, end, etag } = range;
  const get = new GetObjectCommand({
    Bucket: bucket,
    Key: key,
    ...(end > start ? { Range: `bytes=${start}-${end - 1}` } : {}),
    ...(etag ? { IfMatch: etag } : {}),
  });
  return read(s3, get);
}

/** Objects right under a prefix (at most 1,000), not those of its sub-folders. */
export async function listFolder(s3: S3Client, bucket: string, prefix: string): Promise<ListedObject[]> {
  const list = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, Delimiter: '/' });
  const listing = await s3.send(list, { abortSignal: AbortSignal.timeout(READ_MS) });
  return (listing.Contents ?? [])
    .map(({ Key = '', Size = 0, ETag = '' }) => ({ key: Key, bytes: Size, etag: ETag }))
    .filter(({ key }) => key !== prefix);
}

export async function putText(s3: S3Client, { bucket, key }: ObjectAddress, body: string): Promise<void> {
  const put = new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: 'application/json' });
  await s3.send(put);
}

/** Size of an object, undefined when it is not there. */
export async function sizeOf(s3: S3Client, { bucket, key }: ObjectAddress): Promise<number | undefined> {
  const head = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key })).catch(() => undefined);
  return head?.ContentLength;
}
