/**
 * Bodies of requests that clients have uploaded. A key has the digests of its caller and of its content: no caller finds the upload of
 * another one, and what is read is what was named. The bucket's lifecycle removes them after a day, used or not.
 */
import { createHash } from 'node:crypto';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { uploadPrefix } from '../contract/names.ts';
import { getBytes, type ObjectAddress, type S3Client } from './objects.ts';
import { LIFE_SECONDS, presignedPut, type S3Place } from './presign.ts';

interface UploadOptions {
  readonly bucket: string;
  readonly job: string;
}

/** @param id the SHA-256 of the body, in hex */
export function uploadAddress({ bucket, job }: UploadOptions, id: string, caller: string): ObjectAddress {
  const digest = createHash('sha256').update(caller).digest('hex').slice(0, 32);
  return { bucket, key: `${uploadPrefix(job)}${digest}-${id}` };
}

/** Where the caller may put this body, and no other one, for five minutes. @param now wall clock, in ms */
export function uploadPlace(
  address: ObjectAddress,
  { bytes, sha256 }: { readonly bytes: number; readonly sha256: string },
  place: S3Place,
  now: number,
) {
  const checksum = { 'x-amz-checksum-sha256': Buffer.from(sha256, 'hex').toString('base64') };
  const signed = { 'content-length': String(bytes), ...checksum };
  const url = presignedPut(address.bucket, address.key, { place, headers: signed, now });
  // A client cannot set the length: it is that of the body that it sends.
  return { url, headers: checksum, expiresAt: now + LIFE_SECONDS * 1_000 };
}

/** @throws not_found, bad_request, queue_unavailable */
export async function readUpload(
  s3: S3Client,
  options: UploadOptions,
  id: string,
  caller: string,
): Promise<Uint8Array> {
  const address = uploadAddress(options, id, caller);
  const bytes = await getBytes(s3, address, LIMITS.payloadBytes + 1).catch((error: unknown) => {
    throw asError(error).name === 'NoSuchKey' ? gone(id) : unavailable(error);
  });
  if (createHash('sha256').update(bytes).digest('hex') === id) return bytes;
  throw badRequest(`payload: what was uploaded as ${id} are other bytes; upload the body again`);
}

function gone(id: string): ServingError {
  const text = `payload: there is no upload ${id} of this caller (any more); upload the body again, as POST /uploads says`;
  return new ServingError('not_found', text);
}

function unavailable(cause: unknown): ServingError {
  const text = `the upload cannot be read in S3: ${asError(cause).message}`;
  return new ServingError('queue_unavailable', text, { cause });
}
