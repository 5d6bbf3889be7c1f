/** Lists and empties buckets of an emulated account. */
import { DeleteObjectCommand, ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';

export async function keysIn(s3: S3Client, Bucket: string): Promise<string[]> {
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key }) => String(Key));
}

export async function emptyBucket(s3: S3Client, Bucket: string): Promise<void> {
  for (const Key of await keysIn(s3, Bucket)) await s3.send(new DeleteObjectCommand({ Bucket, Key }));
}
