/** `aws s3 rm s3://<bucket> --recursive` for a machine without the aws command, against the S3 of its environment. */
import assert from 'node:assert/strict';
import { DeleteObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';

const [service, command, url = '', option, ...more] = process.argv.slice(2);
assert.deepEqual([service, command, option, ...more], ['s3', 'rm', '--recursive']);
const { protocol, hostname: Bucket, pathname } = new URL(url);
assert.deepEqual([protocol, pathname], ['s3:', '']);
const s3 = new S3Client({ forcePathStyle: true });
const { Contents = [], IsTruncated } = await s3.send(new ListObjectsV2Command({ Bucket }));
assert.ok(!IsTruncated);
for (const { Key } of Contents) await s3.send(new DeleteObjectCommand({ Bucket, Key }));
