/**
 * The one owner of S3. In: a bucket and a key. Out: bytes, texts, listings; and the way back.
 * Trap: "not there" is an answer (undefined), everything else S3 says is an error with its name kept as the cause.
 */
import { createReadStream } from 'node:fs';
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

export function openS3(
  options: { endpoint?: string | undefined; region?: string | undefined } = {},
): S3Client {
  return new S3Client({
    maxAttempts: 4,
    ...(options.region ? { region: options.region } : {}),
    // A custom endpoint (an emulator, MinIO) rarely answers to bucket.host names.
    ...(options.endpoint ? { endpoint: options.endpoint, forcePathStyle: true } : {}),
  });
}

/** A small text, cut at 1 MiB; undefined when there is no such object. */
export async function getText(s3: S3Client, address: ObjectAddress): Promise<string | undefined> {
  const bytes = await getBytes(s3, address, TEXT_BYTES).catch((error: unknown) => {
    if ((error as Error).name === 'NoSuchKey') return undefined;
    throw error;
  });
  return bytes && Buffer.from(bytes).toString();
}

/** The first `limit` bytes of an object. @throws what S3 says, NoSuchKey among it */
export async function getBytes(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  limit: number,
): Promise<Uint8Array> {
  const object = await s3.send(
    new GetObjectCommand({ Bucket: bucket, Key: key, Range: `bytes=0-${limit - 1}` }),
  );
  return (await object.Body?.transformToByteArray()) ?? new Uint8Array();
}

/** Part of an object; with an ETag only of that very version. An empty object has no range and is read whole. */
export async function getRange(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  range: { readonly start: number; readonly end: number; readonly etag?: string | undefined },
): Promise<{ readonly bytes: Uint8Array; readonly etag: string | undefined }> {
  const { start, end, etag } = range;
  const object = await s3.send(
    new GetObjectCommand({
      Bucket: bucket,
      Key: key,
      ...(end > start ? { Range: `bytes=${start}-${end - 1}` } : {}),
      ...(etag ? { IfMatch: etag } : {}),
    }),
  );
  return { bytes: (await object.Body?.transformToByteArray()) ?? new Uint8Array(), etag: object.ETag };
}

/** Objects right under a prefix (at most 1,000), not those of its sub-folders. */
export async function listFolder(s3: S3Client, bucket: string, prefix: string): Promise<ListedObject[]> {
  const listing = await s3.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, Delimiter: '/' }));
  return (listing.Contents ?? [])
    .map(({ Key = '', Size = 0, ETag = '' }) => ({ key: Key, bytes: Size, etag: ETag }))
    .filter(({ key }) => key !== prefix);
}

export async function putText(s3: S3Client, { bucket, key }: ObjectAddress, body: string): Promise<void> {
  await s3.send(
    new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: 'application/json' }),
  );
}

/** Uploads a file, with its checksum for S3 to verify. @param sha256 hex */
export async function putFile(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  file: { readonly path: string; readonly bytes: number; readonly sha256: string },
): Promise<void> {
  await s3.send(
    new PutObjectCommand({
      Bucket: bucket,
      Key: key,
      Body: createReadStream(file.path),
      ContentLength: file.bytes,
      ChecksumSHA256: Buffer.from(file.sha256, 'hex').toString('base64'),
    }),
  );
}

/** Size of an object, undefined when it is not there. */
export async function sizeOf(s3: S3Client, { bucket, key }: ObjectAddress): Promise<number | undefined> {
  const head = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key })).catch(() => undefined);
  return head?.ContentLength;
}
