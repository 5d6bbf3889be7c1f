import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attributesBytes, newAttributes } from '../../../lib/codecs/attributes.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { type LargeRecords, sendAnnounced, submit } from '../../../lib/pipeline/submit.ts';

function queue() {
  const sent: string[] = [];
  const stored: string[] = [];
  const large: LargeRecords = {
    async put(message) {
      stored.push(message);
      return 'payloads/job/key';
    },
  };
  return { sent, stored, sender: { send: async (message: string) => void sent.push(message) }, large };
}

const IDENTITY = 'i'.repeat(36);
/** Bytes that the body may have beside the attributes. */
const MOST = LIMITS.messageBytes - attributesBytes(newAttributes(IDENTITY));

test('a record of exactly 1 MiB with its attributes travels as a message, one byte more through S3, counted in bytes of UTF-8', async () => {
  const { sent, stored, sender, large } = queue();
  const put = async (message: string) =>
    submit(sender, async () => large, { uri: 'a', identity: IDENTITY, message });
  const whole = 'x'.repeat(MOST);
  await put(whole);
  assert.deepEqual([sent.length, stored.length], [1, 0]);
  await put(`${whole}x`);
  const wide = 'é'.repeat(MOST / 2);
  await put(wide);
  await put(`${wide}é`);
  assert.deepEqual(stored, [`${whole}x`, `${wide}é`]);
  const pointer = { uri: 'a', pointer: 'payloads/job/key', bytes: MOST + 1 };
  assert.deepEqual(JSON.parse(sent[1] as string), pointer);
});

test('what SQS takes in no message is escaped, in a pointer too, and counts as it is sent', async () => {
  const { sent, stored, sender, large } = queue();
  const uri = 'a\ufffe\uffff😀';
  const record = { uri, data: '\u0001\ufffe"\\\ufffe\n\u007f\ud800', serde: 'stream' };
  await submit(sender, undefined, { uri, identity: IDENTITY, message: JSON.stringify(record) });
  const wide = 'x'.repeat(MOST - 5);
  await submit(sender, async () => large, { uri, identity: IDENTITY, message: `${wide}"\uffff"` });
  assert.deepEqual(
    sent.map((body) => JSON.parse(body) as unknown),
    [record, { uri, pointer: 'payloads/job/key', bytes: MOST + 3 }],
  );
  assert.equal(stored.length, 1);
  for (const body of sent)
    assert.doesNotMatch(body, /[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/u);
});

test('a large record is refused as too large where nothing can be put into S3', async () => {
  const { sent, sender } = queue();
  const message = 'x'.repeat(MOST + 1);
  await assert.rejects(submit(sender, undefined, { uri: 'a', identity: IDENTITY, message }), {
    code: 'too_large',
    uri: 'a',
  });
  assert.deepEqual(sent, []);
});

test('nothing is under way any more when one of several records could not be sent', async () => {
  const sent: string[] = [];
  const send = async ({ uri }: { uri: string }) => {
    if (uri === 'a') throw new Error('refused');
    await new Promise((resolve) => setImmediate(resolve));
    sent.push(uri);
  };
  const records = ['a', 'b'].map((uri) => ({ uri, identity: uri, message: '{}' }));
  await assert.rejects(sendAnnounced(undefined, records, send), /refused/);
  assert.deepEqual(sent, ['b']);
});
