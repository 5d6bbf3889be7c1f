/**
 * Replaces a small text unless someone else replaced it first. The SDK repeats a write whose answer was lost, and S3
 * refuses the repetition, so a refusal counts only if a different text is there. An emulator may ignore the condition
 * (fauxqs 2.4.1 does); then the last write wins.
 */
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { asError } from '../contract/errors.ts';
import { getTaggedText, type ObjectAddress, type S3Client, statusOf } from './objects.ts';

const WRITE_MS = 20_000;

/**
 * @param etag of the text to replace; undefined if there must be none
 * @returns false when there is a different text by now
 */
export async function putTextIf(
  s3: S3Client,
  { bucket, key }: ObjectAddress,
  text: string,
  etag: string | undefined,
): Promise<boolean> {
  const put = new PutObjectCommand({
    Bucket: bucket,
    Key: key,
    Body: text,
    ContentType: 'application/json',
    ...(etag === undefined ? { IfNoneMatch: '*' } : { IfMatch: etag }),
  });
  try {
    await s3.send(put, { abortSignal: AbortSignal.timeout(WRITE_MS) });
    return true;
  } catch (error) {
    // NoSuchKey: the object to replace has been deleted.
    if (![409, 412].includes(statusOf(error)) && asError(error).name !== 'NoSuchKey') throw error;
    return (await getTaggedText(s3, { bucket, key }))?.text === text;
  }
}
