/**
 * The state machine of docs/how-to/be-told-when-it-is-done.md, run by moto: its message is a record, whose outcome ends its task. The
 * record passes through the batch function's code and the notifier's.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CreateQueueCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { stateMachineOf } from '../../lib/contract/aws-address.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Notice } from '../../lib/contract/notice.ts';
import { present } from '../../lib/contract/present.ts';
import type { Inputs, Model, Outcome } from '../../lib/contract/values.ts';
import { awsSender } from '../../lib/notify/aws.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { announceOutcomes } from '../../lib/results/announce.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { motoTools } from '../infra/aws/tools.ts';
import { quietLog } from '../support/faults/quiet.ts';
import { freePort } from '../support/free-port.ts';
import { quietObservers } from '../support/observers.ts';
import type { Hooks } from '../support/runner.ts';
import { KEYS } from '../support/signed-api.ts';
import { ROOT } from '../support/start.ts';
import { until } from '../support/until.ts';

const REGION = 'us-east-1';
const ROLE = 'arn:aws:iam::123456789012:role/flow';

async function startMoto(t: Hooks, folder: string) {
  const port = await freePort();
  const child: ChildProcess = spawn(join(folder, 'moto_server'), ['-H', '127.0.0.1', '-p', String(port)], {
    stdio: 'ignore',
  });
  t.after(async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const url = `http://127.0.0.1:${port}`;
  const config = JSON.stringify({ stepfunctions: { execute_state_machine: true } });
  await until(async () => {
    const answer = await fetch(`${url}/moto-api/config`, { method: 'POST', body: config }).catch(
      () => undefined,
    );
    return answer?.ok === true;
  }, 60_000);
  const ask = async (action: string, input: object): Promise<Answer> => {
    const authorization = `AWS4-HMAC-SHA256 Credential=${KEYS.accessKeyId}/20260101/${REGION}/states/aws4_request`;
    const headers = {
      authorization,
      'x-amz-target': `AWSStepFunctions.${action}`,
      'content-type': 'application/x-amz-json-1.0',
    };
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(input) });
    const text = await response.text();
    assert.ok(response.ok, text);
    return JSON.parse(text);
  };
  return { url, ask };
}

interface Answer {
  readonly stateMachineArn?: string;
  readonly executionArn?: string;
  readonly status?: string;
  readonly output?: string;
}

/** Doubles, and refuses what is not a number. */
const run = async (records: readonly Inputs[]) =>
  records.map((record): Outcome => {
    const x = record.get('x');
    const value = x?.kind === 'json' && Array.isArray(x.value) ? Number(x.value[0]) : Number.NaN;
    if (Number.isNaN(value))
      return { ok: false, error: new ServingError('bad_input', 'x: expected a number') };
    const data = Float32Array.of(2 * value);
    return { ok: true, outputs: [{ name: 'y', dtype: 'float32', shape: [1], data }] };
  });
const model: Model = { use: (work) => work({ version: 'v1', close: async () => undefined, run }) };

test('an execution ends with the outcome of the record that its task enqueued, and catches an error by its code', async (t) => {
  const tools = await motoTools();
  if ('missing' in tools) return t.skip(tools.missing);
  quietLog(t);
  const { url, ask } = await startMoto(t, tools.folder);
  const sqs = new SQSClient({
    endpoint: url,
    region: REGION,
    credentials: KEYS,
    useQueueUrlAsEndpoint: false,
  });
  t.after(async () => sqs.destroy());
  const { QueueUrl: queueUrl = '' } = await sqs.send(new CreateQueueCommand({ QueueName: 'records' }));
  const definition = await readFile(join(ROOT, 'examples/step-functions/state-machine.json'), 'utf8');
  const { stateMachineArn = '' } = await ask('CreateStateMachine', {
    name: 'orders',
    definition,
    roleArn: ROLE,
  });

  const notices: Notice[] = [];
  const announce = announceOutcomes({
    targets: { flow: { stepFunctions: stateMachineArn } },
    results: { get: async () => undefined },
    put: async (some) => void notices.push(...some),
    job: 'job',
    place: 'bucket',
  });
  const batch = serveEvent({
    model,
    sink: resultSink({ save: async (all) => all.length }, { announce }),
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies) => bodies },
    observers: quietObservers(),
    now: Date.now,
  });
  const { accessKeyId, secretAccessKey } = KEYS;
  const credentials = { accessKeyId, secretAccessKey, sessionToken: undefined };
  const send = awsSender({ place: () => ({ region: REGION, credentials, endpoint: url }) });

  const outputOf = async (order: number, instance: object) => {
    const input = JSON.stringify({ order, request: { instances: [instance] }, queueUrl });
    const { executionArn = '' } = await ask('StartExecution', {
      stateMachineArn,
      name: `order-${order}`,
      input,
    });
    const records: SQSRecord[] = [];
    await until(async () => {
      records.push(...(await receive(sqs, queueUrl)));
      return records.length > 0;
    }, 60_000);
    assert.deepEqual((await batch({ Records: records })).batchItemFailures, []);
    const notice = present(notices.pop(), 'notice');
    assert.deepEqual(await send(notice, present(stateMachineOf(stateMachineArn), 'address')), { ok: true });
    let ended: Answer = {};
    await until(async () => {
      ended = await ask('DescribeExecution', { executionArn });
      return ended.status !== 'RUNNING';
    }, 60_000);
    assert.equal(ended.status, 'SUCCEEDED');

    const output: Output = JSON.parse(ended.output ?? '');
    return output;
  };
  const { prediction } = await outputOf(17, { x: [21] });
  assert.deepEqual(
    [prediction?.uri, prediction?.status, prediction?.version],
    ['order-17', 'succeeded', 'v1'],
  );
  assert.deepEqual(prediction?.result.outputs[0]?.data, [42]);
  const { problem, how } = await outputOf(18, { x: ['?'] });
  assert.deepEqual([problem?.Error, how], ['bad_input', 'by hand']);
  // moto leaves the cause out; test/lib/notify/step-functions.test.ts has it.
});

interface Output {
  readonly prediction?: {
    readonly uri: string;
    readonly status: string;
    readonly version: string;
    readonly result: { readonly outputs: readonly { readonly data: readonly number[] }[] };
  };
  readonly problem?: { readonly Error: string };
  readonly how?: string;
}

/** Messages as Lambda gets them. */
async function receive(sqs: SQSClient, QueueUrl: string): Promise<SQSRecord[]> {
  const ask = new ReceiveMessageCommand({ QueueUrl, MessageAttributeNames: ['All'], WaitTimeSeconds: 1 });
  const { Messages = [] } = await sqs.send(ask);
  return Messages.map(({ MessageId = '', ReceiptHandle = '', Body = '', MessageAttributes = {} }) => ({
    messageId: MessageId,
    receiptHandle: ReceiptHandle,
    body: Body,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: String(Date.now()),
      SenderId: '',
      ApproximateFirstReceiveTimestamp: String(Date.now()),
    },
    messageAttributes: Object.fromEntries(
      Object.entries(MessageAttributes).map(([name, { StringValue = '' }]) => [
        name,
        { dataType: 'String', stringValue: StringValue },
      ]),
    ),
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:us-east-1:123456789012:records',
    awsRegion: REGION,
  }));
}
