/** Presigned URLs against those of botocore 1.44 (S3SigV4QueryAuth), for the same key, time and credentials. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { presignedUrl } from '../../../lib/s3/presign.ts';

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
