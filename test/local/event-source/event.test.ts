import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, toRecord } from '../../../local/event-source/event.ts';

const queue = { arn: 'arn:aws:sqs:eu-west-1:123456789012:q', region: 'eu-west-1' };

describe('SQS event records', () => {
  it('have the fields and names Lambda gives them', () => {
    const record = toRecord(
      {
        MessageId: '059f36b4-87a3-44ab-83d2-661975830a7d',
        ReceiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
        Body: 'Test message.',
        MD5OfBody: 'e4e68fb7bd0e697a0ae8f1bb342846b3',
        MD5OfMessageAttributes: '00000000000000000000000000000000',
        Attributes: {
          ApproximateReceiveCount: '1',
          SentTimestamp: '1545082649183',
          SenderId: 'AIDAIENQZJOLO23YVJ4VO',
          ApproximateFirstReceiveTimestamp: '1545082649185',
        },
        MessageAttributes: {
          text: { DataType: 'String', StringValue: '100' },
          bytes: { DataType: 'Binary.png', BinaryValue: Uint8Array.of(1, 2, 3) },
          __proto__x: { DataType: 'Number', StringValue: '7' },
        },
      },
      queue,
    );
    const lists = { stringListValues: [], binaryListValues: [] };
    assert.deepStrictEqual(record, {
      messageId: '059f36b4-87a3-44ab-83d2-661975830a7d',
      receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
      body: 'Test message.',
      attributes: {
        ApproximateReceiveCount: '1',
        SentTimestamp: '1545082649183',
        SenderId: 'AIDAIENQZJOLO23YVJ4VO',
        ApproximateFirstReceiveTimestamp: '1545082649185',
      },
      messageAttributes: {
        text: { ...lists, dataType: 'String', stringValue: '100' },
        bytes: { ...lists, dataType: 'Binary.png', binaryValue: 'AQID' },
        __proto__x: { ...lists, dataType: 'Number', stringValue: '7' },
      },
      md5OfBody: 'e4e68fb7bd0e697a0ae8f1bb342846b3',
      md5OfMessageAttributes: '00000000000000000000000000000000',
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:eu-west-1:123456789012:q',
      awsRegion: 'eu-west-1',
    });
  });

  it('have empty message attributes where the message has none', () => {
    const record = toRecord({ MessageId: 'a', Body: 'b' }, queue);
    assert.deepEqual(record.messageAttributes, {});
    assert.ok(!('md5OfMessageAttributes' in record));
  });
});

describe('judging what a handler returned', () => {
  const ids = new Set(['a', 'b']);

  for (const result of [
    undefined,
    null,
    {},
    { batchItemFailures: [] },
    { batchItemFailures: null },
    { statusCode: 200 },
  ]) {
    it(`takes ${JSON.stringify(result)} for a success of all`, () => {
      assert.deepEqual(judge(result, ids), { kind: 'answered', failedIds: new Set() });
    });
  }

  it('takes the named messages for failed and the others for done', () => {
    const failures = [{ itemIdentifier: 'b' }, { itemIdentifier: 'b' }];
    assert.deepEqual(judge({ batchItemFailures: failures }, ids), {
      kind: 'answered',
      failedIds: new Set(['b']),
    });
  });

  for (const result of [
    'ok',
    7,
    true,
    [],
    { batchItemFailures: 'b' },
    { batchItemFailures: { itemIdentifier: 'b' } },
    { batchItemFailures: ['b'] },
    { batchItemFailures: [null] },
    { batchItemFailures: [{ itemIdentifier: '' }] },
    { batchItemFailures: [{ itemIdentifier: null }] },
    { batchItemFailures: [{ itemIdentifier: 7 }] },
    { batchItemFailures: [{ messageId: 'b' }] },
    { batchItemFailures: [{ itemIdentifier: 'b' }, { itemIdentifier: 'unknown' }] },
  ]) {
    it(`takes ${JSON.stringify(result)} for a failure of all`, () => {
      const verdict = judge(result, ids);
      assert.equal(verdict.kind, 'broken');
      assert.ok(verdict.problem.length > 10);
    });
  }
});
