/** Signatures against those of AWS's own signer. test/infra/redis-iam.test.ts has AWS's published example. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SignatureV4 } from '@smithy/signature-v4';
import { signedHeaders } from '../../../lib/codecs/sigv4.ts';
import { Sha256 } from '../../../sdk/sha256.ts';

test('a signature is of its day, region, service and secret, whichever were signed before', async () => {
  const DAY_MS = 86_400_000;
  const noon = Date.parse('2026-11-29T12:00:00.000Z');
  const scopes = ['2026', 'other'].flatMap((secretAccessKey) =>
    ['dynamodb', 's3'].flatMap((service) =>
      ['us-east-1', 'eu-central-1'].flatMap((region) =>
        [noon, noon + DAY_MS].map((now) => ({ secretAccessKey, service, region, now })),
      ),
    ),
  );
  // More than are kept, and each again after all others.
  const signings = [
    ...scopes,
    ...scopes.map((one) => ({ ...one, region: 'us-west-2' })),
    ...scopes.toReversed(),
  ];
  for (const { secretAccessKey, service, region, now } of signings) {
    const credentials = { accessKeyId: 'key', secretAccessKey };
    const request = {
      method: 'POST' as const,
      path: '/',
      headers: { 'x-amz-target': 'A.b' },
      body: `{"n":${now}}`,
    };
    const host = `${service}.${region}.amazonaws.com`;
    const ours = signedHeaders({
      ...request,
      host,
      service,
      region,
      credentials: { ...credentials, sessionToken: undefined },
      now,
    });
    const signer = new SignatureV4({ service, region, credentials, sha256: Sha256, applyChecksum: false });
    const theirs = await signer.sign(
      {
        ...request,
        protocol: 'https:',
        hostname: host,
        headers: { ...request.headers, host },
      },
      { signingDate: new Date(now) },
    );
    assert.equal(ours['authorization'], theirs.headers['authorization']);
  }
});
