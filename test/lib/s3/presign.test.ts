/** Presigned URLs against those of botocore 1.44 (S3SigV4QueryAuth), for the same key, time and credentials. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { presignedUrl } from '../../../lib/s3/presign.ts';
import { uploadAddress, uploadPlace } from '../../../lib/s3/uploads.ts';

const KEY = 'results/serving_stream/0b6c7f3e-8a55-4a76-9a0c-3f1f6f2f0d11.json';
const NOW = Date.UTC(2026, 10, 23, 12, 30, 0);
const credentials = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  sessionToken: 'a session/token+with=signs',
};

const SIGNATURES = [
  ['eu-west-1', 'amazonaws.com', 'd7e4d6f77c1fd35b423076e01e2796753b8efbf28d1abce891b8cc69e6ecb164'],
  ['us-gov-west-1', 'amazonaws.com', 'ddf0b128cf5f83bdc765a13e5188de1aa47ef29b16775c9547e430a2bf9f411a'],
  ['cn-north-1', 'amazonaws.com.cn', '53b7dc164ed254915239372697a08de422932c28a4cb51c188be62f84fd70df5'],
] as const;

for (const [region, suffix, signature] of SIGNATURES) {
  test(`${region}: a presigned URL is that of botocore, and valid for five minutes`, () => {
    const url = new URL(presignedUrl('bucket-1', KEY, { region, credentials }, NOW));
    assert.equal(`${url.origin}${url.pathname}`, `https://bucket-1.s3.${region}.${suffix}/${KEY}`);
    assert.deepEqual(Object.fromEntries(url.searchParams), {
      'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
      'X-Amz-Credential': `AKIDEXAMPLE/20261123/${region}/s3/aws4_request`,
      'X-Amz-Date': '20261123T123000Z',
      'X-Amz-Expires': '300',
      'X-Amz-Security-Token': credentials.sessionToken,
      'X-Amz-Signature': signature,
      'X-Amz-SignedHeaders': 'host',
    });
  });
}

test('an emulator has the bucket in the path', () => {
  const place = { region: 'local', credentials, endpoint: 'http://127.0.0.1:4566' };
  const url = presignedUrl('b', KEY, place, NOW);
  assert.ok(url.startsWith(`http://127.0.0.1:4566/b/${KEY}?X-Amz-Algorithm=`), url);
});

test("an upload's URL is that of the AWS SDK's signer: of these bytes, of this length, for five minutes", () => {
  const id = createHash('sha256').update('body').digest('hex');
  const options = { bucket: 'bucket-1', job: 'job' };
  const address = uploadAddress(options, id, 'iam:AROA1');
  const place = { region: 'eu-west-1', credentials };
  const { url, headers, expiresAt } = uploadPlace(address, { bytes: 4, sha256: id }, place, NOW);
  assert.equal(expiresAt, NOW + 300_000);
  assert.match(address.key, /^payloads\/job\/uploads\/[0-9a-f]{32}-[0-9a-f]{64}$/);
  const checksum = createHash('sha256').update('body').digest('base64');
  assert.deepEqual(headers, { 'x-amz-checksum-sha256': checksum });
  const ours = Object.fromEntries(new URL(url).searchParams);
  assert.equal(ours['X-Amz-SignedHeaders'], 'content-length;host;x-amz-checksum-sha256');
  // That of @smithy/signature-v4 5.7 for the same request.
  assert.equal(ours['X-Amz-Signature'], 'd63f1b2fc4faf3c6171df17711220a503a1743264aed72324b282ca96bdd5727');
});
