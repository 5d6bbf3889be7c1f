/** Messages that receivers of webhooks accept, signed as the notifier signs them. test/python/test_webhook.py tests Python's `unwrap`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { secretKeys, signatureHeaders } from '../../lib/notify/webhook.ts';
import { unwrap } from '../../sdk/http.ts';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const OTHER = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=';
const SECONDS = 1_800_000_000;
const now = () => SECONDS * 1000;
const BODY = JSON.stringify({
  type: 'record.succeeded',
  timestamp: 't',
  data: { uri: 'ü', status: 'succeeded' },
});
const signed = (body = BODY, secret = SECRET, seconds = SECONDS) =>
  signatureHeaders('msg_1', seconds, body, secretKeys(secret));

describe('unwrap', () => {
  test('opens what was signed, as text or bytes, with headers of any form and case', async () => {
    const upper = Object.fromEntries(
      Object.entries(signed()).map(([name, text]) => [name.toUpperCase(), text]),
    );
    for (const headers of [signed(), upper, new Headers(signed())])
      for (const body of [BODY, Buffer.from(BODY)]) {
        const event = await unwrap(body, headers, SECRET, { now });
        assert.deepEqual([event.id, event.type, event.data.uri], ['msg_1', 'record.succeeded', 'ü']);
      }
  });

  test('takes one of two secrets while they change, on either side', async () => {
    await unwrap(BODY, signed(BODY, `${OTHER} ${SECRET}`), SECRET, { now });
    await unwrap(BODY, signed(), `${OTHER} ${SECRET}`, { now });
  });

  const refused: Readonly<Record<string, readonly [body: string, headers: Record<string, string>]>> = {
    'another body': [`${BODY} `, signed()],
    'another secret': [BODY, signed(BODY, OTHER)],
    'another id': [BODY, { ...signed(), 'webhook-id': 'msg_2' }],
    'a time that was changed': [BODY, { ...signed(), 'webhook-timestamp': String(SECONDS + 1) }],
    'a message of yesterday': [BODY, signed(BODY, SECRET, SECONDS - 86_400)],
    'a message of tomorrow': [BODY, signed(BODY, SECRET, SECONDS + 86_400)],
    'no time': [BODY, { ...signed(), 'webhook-timestamp': 'NaN' }],
    'no signature': [BODY, { ...signed(), 'webhook-signature': '' }],
    'a signature of another version': [
      BODY,
      { ...signed(), 'webhook-signature': signed()['webhook-signature'].replace('v1,', 'v2,') },
    ],
    'a signature that is not base64': [BODY, { ...signed(), 'webhook-signature': 'v1,***' }],
    'no headers': [BODY, {}],
    'a body of 2 MB': ['x'.repeat(2_000_000), signed()],
  };
  for (const [what, [body, headers]] of Object.entries(refused)) {
    test(`refuses ${what}`, () =>
      assert.rejects(unwrap(body, headers, SECRET, { now }), { code: 'unauthorized' }));
  }

  test('refuses a text that is not a secret', async () => {
    for (const secret of ['', 'whsec_', 'hunter2', 'whsec_c2hvcnQ='])
      await assert.rejects(unwrap(BODY, signed(), secret, { now }), { code: 'bad_config' });
  });
});
