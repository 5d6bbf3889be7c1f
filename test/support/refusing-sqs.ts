import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { TestContext } from 'node:test';
import { SQSClient } from '@aws-sdk/client-sqs';
import { QueueSender } from '../../lib/queue/sender.ts';

export interface Entry {
  readonly Id: string;
  readonly MessageBody: string;
}

type Refusal = { readonly code: string; readonly senderFault: boolean } | undefined;

/** A sender to an SQS that refuses chosen entries, on the real protocol. */
export async function sqsThat(t: TestContext, refuse: (body: string, attempts: number) => Refusal) {
  const calls: Entry[][] = [];
  const attempts = new Map<string, number>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { Entries } = JSON.parse(Buffer.concat(chunks).toString()) as { Entries: Entry[] };
      calls.push(Entries);
      const Successful: object[] = [];
      const Failed: object[] = [];
      for (const { Id, MessageBody } of Entries) {
        const count = (attempts.get(MessageBody) ?? 0) + 1;
        attempts.set(MessageBody, count);
        const refusal = refuse(MessageBody, count);
        if (refusal) Failed.push({ Id, Code: refusal.code, SenderFault: refusal.senderFault, Message: 'no' });
        else Successful.push({ Id, MessageId: Id, MD5OfMessageBody: '' });
      }
      response.setHeader('content-type', 'application/x-amz-json-1.0');
      response.end(JSON.stringify({ Successful, Failed }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  const endpoint = `http://127.0.0.1:${address.port}`;
  const credentials = { accessKeyId: 'a', secretAccessKey: 'b' };
  const sqs = new SQSClient({
    endpoint,
    region: 'us-east-1',
    credentials,
    useQueueUrlAsEndpoint: false,
    md5: false,
  });
  t.after(() => {
    sqs.destroy();
    server.close();
    server.closeAllConnections();
  });
  return { sender: new QueueSender(sqs, { queueUrl: `${endpoint}/0/q` }), calls, attempts };
}
