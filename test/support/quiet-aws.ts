/** An S3 with one empty bucket for a test, gone afterwards. */
import type { TestContext } from 'node:test';
import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { startAws } from '../../local/aws/aws.ts';

export const BUCKET = 'models';
export const LOCATION = { bucket: BUCKET, prefix: 'models/job/' };

export async function openBucket(t: TestContext): Promise<S3Client> {
  const silent = () => undefined;
  const aws = await startAws({ port: 0, log: { info: silent, warn: silent, error: silent } });
  t.after(() => aws.close());
  await aws.createBucket(BUCKET);
  return aws.s3;
}

export async function putObject(s3: S3Client, key: string, body: string | Uint8Array): Promise<void> {
  await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: key, Body: body }));
}
