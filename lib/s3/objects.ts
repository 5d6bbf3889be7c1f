/**
 * Owns S3: bytes, texts and listings. A missing object is undefined; any other error keeps S3's name as the cause. If
 * S3 does not answer, the SDK would wait forever and Lambda would end the whole batch, so each call has a limit.
 * The SDK takes a third of a cold start, so it is loaded at the first call that a signed request cannot answer.
 */

import type * as Sdk from '@aws-sdk/client-s3';
import { asError } from '../contract/errors.ts';
import type { ByteWriter } from './connection.ts';
import type { S3Place } from './presign.ts';
import { readSigned } from './signed-read.ts';

/** The AWS SDK's client, or one that loads it at its first use. */
export interface S3Client extends Pick<Sdk.S3Client, 'send' | 'destroy'> {
  readonly deferred?: {
    readonly load: () => Promise<Sdk.S3Client>;
    /** Where objects are read without the SDK. Undefined: nowhere. */
    readonly readPlace: () => S3Place | undefined;
  };
}

export interface ObjectAddress {
  readonly bucket: string;
  readonly key: string;
}

export interface ListedObject {
  readonly key: string;
  readonly bytes: number;
  readonly etag: string;
}

/** @param load the SDK's client, at the first call that needs it */
export function deferredS3({ load, readPlace }: NonNullable<S3Client['deferred']>): S3Client {
  let client: Promise<Sdk.S3Client> | undefined;
  const loaded = () => (client ??= load());
  const send = async (...call: Parameters<Sdk.S3Client['send']>) => (await loaded()).send(...call);
  return {
    // Each overload of `send` maps a command to its answer, which forwarding keeps.
    send: send as Sdk.S3Client['send'],
    destroy: () => void client?.then((opened) => opened.destroy()),
    deferred: { load: loaded, readPlace },
  };
}

/** The SDK's own client, for what takes no other. */
export async function sdkClient(s3: S3Client): Promise<Sdk.S3Client> {
  return s3.deferred ? s3.deferred.load() : (s3 as Sdk.S3Client);
}

function sdk() {
  return import('./client.ts');
}

const TEXT_BYTES = 1024 * 1024;

/** The limit of one read with its retries: 32 MiB at 4 MB/s, while S3 provides about 55. */
const READ_MS = 8_000;

export interface TaggedText {
  readonly text: string;
  readonly etag: string | undefined;
}

/** Reads a text up to 1 MiB; undefined when there is no such object. */
export async function getText(
  s3: S3Client,
  address: ObjectAddress,
  limits?: ReadLimits,
): Promise<string | undefined> {
  return (await getTaggedText(s3, address, limits))?.text;
}

/** `getText` with the ETag of the object. */
export async function getTaggedText(
  s3: S3Client,
  address: ObjectAddress,
  limits?: ReadLimits,
): Promise<TaggedText | undefined> {
  try {
    const { bytes, etag } = await getRange(s3, address, { start: 0, end: TEXT_BYTES }, limits);
    return { text: Buffer.from(bytes).toString(), etag };
  } catch (error) {
    const { name } = asError(error);
    if (name === 'NoSuchKey') return undefined;
    if (name !== 'InvalidRange') throw error;
    // A range of an empty object is invalid.
    const { etag } = await getRange(s3, address, { start: 0, end: 0 }, limits);
    return { text: '', etag };
  }
}

export interface ReadLimits {
  /** The limit of one read with its retries. Default READ_MS, for machines at Amazon. */
  readonly limitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The first `limit` bytes of an object. @throws S3's error, such as NoSuchKey */
export async function getBytes(s3: S3Client, address: ObjectAddress, limit: number): Promise<Uint8Array> {
  return (await getRange(s3, address, { start: 0, end: limit })).bytes;
}

function within(ms: number, signal: AbortSignal | undefined): AbortSignal {
  const timeout = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

interface Range {
  readonly start: number;
  readonly end: number;
  readonly etag?: string | undefined;
}

/** `readRange` into memory. */
export async function getRange(
  s3: S3Client,
  address: ObjectAddress,
  range: Range,
  limits?: ReadLimits,
): Promise<{ readonly bytes: Uint8Array; readonly etag: string | undefined }> {
  let chunks: Uint8Array[] = [];
  const writer: ByteWriter = {
    restart: () => {
      chunks = [];
    },
    write: (chunk) => void chunks.push(Buffer.from(chunk)),
  };
  const etag = await readRange(s3, address, range, writer, limits);
  const [only] = chunks;
  return { bytes: only && chunks.length === 1 ? only : Buffer.concat(chunks), etag };
}

/**
 * Reads part of an object, with an ETag only of that version. An empty object has no range and is read whole. The SDK
 * retries a request without an answer; a body that breaks off is requested again here.
 * @returns the ETag
 */
export async function readRange(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  range: Range,
  writer: ByteWriter,
  { limitMs = READ_MS, signal }: ReadLimits = {},
): Promise<string | undefined> {
  const { start, end, etag } = range;
  const abortSignal = within(limitMs, signal);
  const place = s3.deferred?.readPlace();
  const read = place && (await readSigned(place, { bucket, key }, range, abortSignal, writer));
  if (read) return read.etag;
  const { GetObjectCommand } = await sdk();
  const get = new GetObjectCommand({
    Bucket: bucket,
    Key: key,
    ...(end > start ? { Range: `bytes=${start}-${end - 1}` } : {}),
    ...(etag ? { IfMatch: etag } : {}),
  });
  for (let attempt = 1; ; attempt++) {
    const { Body, ETag } = await s3.send(get, { abortSignal });
    writer.restart(ETag);
    let isWritten = true;
    try {
      // On Node the body is a stream of its bytes.
      for await (const chunk of (Body ?? []) as AsyncIterable<Uint8Array>) {
        isWritten = false;
        writer.write(chunk);
        isWritten = true;
      }
      return ETag;
    } catch (error) {
      if (!isWritten || attempt === 2 || abortSignal.aborted) throw error;
    }
  }
}

/** Objects right under a prefix (at most 1,000), not those of its sub-folders. */
export async function listFolder(
  s3: S3Client,
  bucket: string,
  prefix: string,
  signal?: AbortSignal,
): Promise<ListedObject[]> {
  const { ListObjectsV2Command } = await sdk();
  const list = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, Delimiter: '/' });
  const listing = await s3.send(list, { abortSignal: within(READ_MS, signal) });
  return (listing.Contents ?? [])
    .map(({ Key = '', Size = 0, ETag = '' }) => ({ key: Key, bytes: Size, etag: ETag }))
    .filter(({ key }) => key !== prefix);
}

/**
 * The names of the folders right below a prefix, in the order of S3.
 * @param most after which it stops
 */
export async function listFolders(
  s3: S3Client,
  { bucket, key: Prefix }: ObjectAddress,
  most: number,
  signal?: AbortSignal,
): Promise<string[]> {
  const { ListObjectsV2Command } = await sdk();
  const names: string[] = [];
  let ContinuationToken: string | undefined;
  do {
    const list = new ListObjectsV2Command({ Bucket: bucket, Prefix, Delimiter: '/', ContinuationToken });
    const page = await s3.send(list, { abortSignal: within(READ_MS, signal) });
    for (const { Prefix: folder = '' } of page.CommonPrefixes ?? [])
      names.push(folder.slice(Prefix.length, -1));
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken !== undefined && names.length < most);
  return names.slice(0, most);
}

/** @param limits default: as long as it goes on */
export async function putText(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  body: string,
  { limitMs }: Pick<ReadLimits, 'limitMs'> = {},
): Promise<void> {
  const { PutObjectCommand } = await sdk();
  const put = new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: 'application/json' });
  await s3.send(put, limitMs === undefined ? {} : { abortSignal: AbortSignal.timeout(limitMs) });
}

/** Not to be kept by what is in between, because a presigned URL of it is for one reader. */
export async function putBytes(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  body: Uint8Array,
  { type, abortSignal }: { readonly type: string; readonly abortSignal: AbortSignal },
): Promise<void> {
  const { PutObjectCommand } = await sdk();
  const about = { ContentType: type, CacheControl: 'no-store' };
  await s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ...about }), { abortSignal });
}

export interface ObjectFacts {
  readonly bytes: number;
  readonly etag: string;
  /** False if the ETag is not the MD5 of the content, as for an object that is encrypted with a key of KMS. */
  readonly etagIsDigest: boolean;
  /** Hex, where S3 has one of the whole object. */
  readonly sha256: string | undefined;
}

/** @throws S3's error */
export async function factsOf(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  { limitMs = READ_MS, signal }: ReadLimits = {},
): Promise<ObjectFacts> {
  const abortSignal = within(limitMs, signal);
  const { HeadObjectCommand } = await sdk();
  const head = new HeadObjectCommand({ Bucket: bucket, Key: key, ChecksumMode: 'ENABLED' });
  const { ContentLength = 0, ETag = '', ChecksumSHA256, ...facts } = await s3.send(head, { abortSignal });
  const isPlain = ['AES256', undefined].includes(facts.ServerSideEncryption) && !facts.SSECustomerAlgorithm;
  // For an upload in parts, S3 may have the checksum of their checksums, which ends in a dash and their number.
  const isWhole = ChecksumSHA256 !== undefined && /^[\w+/]{43}=$/.test(ChecksumSHA256);
  const sha256 = isWhole ? Buffer.from(ChecksumSHA256, 'base64').toString('hex') : undefined;
  return {
    bytes: ContentLength,
    etag: ETag,
    etagIsDigest: isPlain && /^"?[0-9a-f]{32}"?$/.test(ETag),
    sha256,
  };
}

/** The size of an object; undefined when it does not exist. @throws S3's error */
export async function sizeOf(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  limitMs = READ_MS,
): Promise<number | undefined> {
  const { HeadObjectCommand } = await sdk();
  const head = new HeadObjectCommand({ Bucket: bucket, Key: key });
  try {
    return (await s3.send(head, { abortSignal: AbortSignal.timeout(limitMs) })).ContentLength;
  } catch (error) {
    if (statusOf(error) === 404) return undefined;
    throw error;
  }
}

/** The HTTP status of S3's answer; 0 where there was none. */
export function statusOf(error: unknown): number {
  const { $metadata }: { readonly $metadata?: { readonly httpStatusCode?: number } } = Object(error);
  return $metadata?.httpStatusCode ?? 0;
}
