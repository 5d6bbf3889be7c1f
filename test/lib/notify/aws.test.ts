/** Notices to EventBridge, SNS and SQS: as what verifies their signatures gets them, and as the SQS of one machine has them. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CreateQueueCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { type AwsAddress, busOf, queueOf, topicOf } from '../../../lib/contract/aws-address.ts';
import type { Notice } from '../../../lib/contract/notice.ts';
import { present } from '../../../lib/contract/present.ts';
import { awsSender } from '../../../lib/notify/aws.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { KEYS, SIGNED_REGION, startSignedApi } from '../../support/signed-api.ts';

const AT = '2026-11-28T20:15:03.120Z';
/** With a number that no double holds, and the two characters that SQS refuses. */
const NOTICE: Notice = {
  id: 'msg_0123',
  target: 'shop',
  body: `{"type":"record.succeeded","timestamp":"${AT}","data":{"uri":"a\uffff\ufffe é","result":12345678901234567890}}`,
};
const DOCUMENT = `{"id":"msg_0123","type":"record.succeeded","timestamp":"${AT}","data":{"uri":"a\\uffff\\ufffe é","result":12345678901234567890}}`;
const ACCOUNT = `${SIGNED_REGION}:123456789012`;
const [BUS, TOPIC, QUEUE] = [
  present(busOf('orders'), 'bus'),
  present(topicOf(`arn:aws:sns:${ACCOUNT}:orders`), 'topic'),
  present(queueOf(`arn:aws:sqs:${ACCOUNT}:orders.fifo`), 'queue'),
];

interface Seen {
  readonly target: string | undefined;
  readonly body: string;
}

/** @returns what the service saw, and how the sender understood its answer */
async function sentTo(t: TestContext, address: AwsAddress, answer: () => Response, keys = KEYS) {
  const seen: Seen[] = [];
  const api = await startSignedApi(t, {
    service: address.service,
    keys,
    behind: ({ headers, body }) => {
      seen.push({ target: headers['x-amz-target']?.toString(), body: body.toString() });
      return answer();
    },
  });
  const { accessKeyId, secretAccessKey, sessionToken } = KEYS;
  const credentials = { accessKeyId, secretAccessKey, sessionToken };
  const place = { region: SIGNED_REGION, credentials, endpoint: api.url };
  const delivery = await awsSender({ place: () => place })(NOTICE, address);
  return { delivery, seen, refused: api.refused };
}

const TAKEN = () => Response.json({ FailedEntryCount: 0, Entries: [{ EventId: 'e' }] });

test('a bus gets an event whose detail is the notice with its id, and whose type and time are those of the outcome', async (t) => {
  const { delivery, seen, refused } = await sentTo(t, BUS, TAKEN);
  assert.deepEqual([delivery, refused], [{ ok: true }, []]);
  assert.equal(seen[0]?.target, 'AWSEvents.PutEvents');
  assert.deepEqual(JSON.parse(seen[0]?.body ?? ''), {
    Entries: [
      {
        EventBusName: 'orders',
        Source: 'cluster-serving',
        DetailType: 'record.succeeded',
        Detail: DOCUMENT,
        Time: Date.parse(AT) / 1000,
      },
    ],
  });
});

test('an event that the bus did not take is not delivered, although EventBridge answers 200', async (t) => {
  const entry = (ErrorCode: string) => () =>
    Response.json({ FailedEntryCount: 1, Entries: [{ ErrorCode, ErrorMessage: 'why' }] });
  const throttled = await sentTo(t, BUS, entry('ThrottlingException'));
  assert.deepEqual(throttled.delivery, { ok: false, reason: 'ThrottlingException: why', isAway: false });
  const malformed = await sentTo(t, BUS, entry('MalformedDetail'));
  assert.deepEqual(malformed.delivery, { ok: false, reason: 'MalformedDetail: why', isFinal: true });
  const nonsense = await sentTo(t, BUS, () => new Response('<html>'));
  assert.equal(nonsense.delivery.ok, false);
});

test('a topic gets the notice as its message, with id and type as attributes; a FIFO topic has its deduplication id', async (t) => {
  const published = () => new Response('<PublishResponse/>');
  const { delivery, seen, refused } = await sentTo(t, TOPIC, published);
  assert.deepEqual([delivery, refused], [{ ok: true }, []]);
  const plain = Object.fromEntries(new URLSearchParams(seen[0]?.body));
  assert.deepEqual(plain, {
    Action: 'Publish',
    Version: '2010-03-31',
    TopicArn: `arn:aws:sns:${ACCOUNT}:orders`,
    Message: DOCUMENT,
    'MessageAttributes.entry.1.Name': 'id',
    'MessageAttributes.entry.1.Value.DataType': 'String',
    'MessageAttributes.entry.1.Value.StringValue': 'msg_0123',
    'MessageAttributes.entry.2.Name': 'type',
    'MessageAttributes.entry.2.Value.DataType': 'String',
    'MessageAttributes.entry.2.Value.StringValue': 'record.succeeded',
  });
  const fifo = present(topicOf(`arn:aws:sns:${ACCOUNT}:orders.fifo`), 'topic');
  const ordered = new URLSearchParams((await sentTo(t, fifo, published)).seen[0]?.body);
  assert.equal(ordered.get('MessageDeduplicationId'), 'msg_0123');
  assert.equal(ordered.get('MessageGroupId'), 'msg_0123');
});

const xml = (code: string) =>
  `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>why</Message></Error></ErrorResponse>`;
const REFUSALS: readonly (readonly [AwsAddress, () => Response, object])[] = [
  [TOPIC, () => new Response(xml('NotFound'), { status: 404 }), { reason: 'NotFound: why', isAway: false }],
  [
    TOPIC,
    () => new Response(xml('InvalidParameter'), { status: 400 }),
    { reason: 'InvalidParameter: why', isFinal: true },
  ],
  [
    TOPIC,
    () => new Response(xml('InternalError'), { status: 500 }),
    { reason: 'InternalError: why', isAway: true },
  ],
  [TOPIC, () => new Response('busy', { status: 503 }), { reason: 'status 503', isAway: true }],
  [
    QUEUE,
    () => Response.json({ __type: 'com.amazonaws.sqs#QueueDoesNotExist', message: 'why' }, { status: 400 }),
    { reason: 'QueueDoesNotExist: why', isAway: false },
  ],
  [
    QUEUE,
    () =>
      Response.json({ __type: 'com.amazonaws.sqs#InvalidMessageContents', message: 'why' }, { status: 400 }),
    { reason: 'InvalidMessageContents: why', isFinal: true },
  ],
  [
    BUS,
    () => Response.json({ __type: 'AccessDeniedException', Message: 'why' }, { status: 400 }),
    { reason: 'AccessDeniedException: why', isAway: false },
  ],
];
for (const [address, answer, expected] of REFUSALS)
  test(`${address.service} that refuses a notice: ${JSON.stringify(expected)}`, async (t) => {
    const { delivery } = await sentTo(t, address, answer);
    assert.deepEqual(delivery, { ok: false, ...expected });
  });

test('a FIFO queue gets the id of the notice as its deduplication id, at the URL of the queue', async (t) => {
  const { delivery, seen, refused } = await sentTo(t, QUEUE, () => Response.json({ MessageId: 'm' }));
  assert.deepEqual([delivery, refused], [{ ok: true }, []]);
  assert.equal(seen[0]?.target, 'AmazonSQS.SendMessage');
  const body: Readonly<Record<string, unknown>> = JSON.parse(seen[0]?.body ?? '');
  assert.equal(body['QueueUrl'], `https://sqs.${SIGNED_REGION}.amazonaws.com/123456789012/orders.fifo`);
  assert.deepEqual([body['MessageDeduplicationId'], body['MessageGroupId']], ['msg_0123', 'msg_0123']);
  assert.equal(body['MessageBody'], DOCUMENT);
});

test('what is signed with other credentials is refused and comes again', async (t) => {
  const other = { ...KEYS, secretAccessKey: 'another' };
  const { delivery, refused } = await sentTo(t, BUS, TAKEN, other);
  assert.equal(refused.length, 1);
  assert.deepEqual(delivery, { ok: false, reason: 'status 403: Forbidden', isAway: false });
});

test('a service that cannot be connected to is away', async () => {
  const credentials = { ...KEYS, sessionToken: undefined };
  const send = awsSender({
    place: () => ({ region: SIGNED_REGION, credentials, endpoint: 'http://127.0.0.1:1' }),
  });
  const delivery = await send(NOTICE, BUS);
  assert.ok(!delivery.ok && delivery.isAway);
});

test('the SQS of one machine takes a notice, and the SDK of AWS receives it with its attributes', async (t) => {
  const silent = () => undefined;
  const aws = await startAws({ port: 0, log: { info: silent, warn: silent, error: silent } });
  t.after(() => aws.close());
  const { QueueUrl } = await aws.sqs.send(new CreateQueueCommand({ QueueName: 'orders' }));
  const credentials = { ...aws.credentials, sessionToken: undefined };
  const send = awsSender({
    place: () => ({ region: aws.region, credentials, endpoint: aws.url }),
    queueUrl: () => present(QueueUrl, 'url'),
  });
  assert.deepEqual(await send(NOTICE, present(queueOf(`arn:aws:sqs:${ACCOUNT}:orders`), 'queue')), {
    ok: true,
  });
  const { Messages: [message] = [] } = await aws.sqs.send(
    new ReceiveMessageCommand({ QueueUrl, MessageAttributeNames: ['All'] }),
  );
  assert.equal(message?.Body, DOCUMENT);
  assert.equal(message?.MessageAttributes?.['id']?.StringValue, 'msg_0123');
  assert.equal(message?.MessageAttributes?.['type']?.StringValue, 'record.succeeded');
});
