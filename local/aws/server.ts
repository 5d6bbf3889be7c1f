/**
 * The HTTP server of fauxqs, with four differences from AWS removed. Only signed requests are accepted. A message for a
 * long poll whose caller has left goes back at once, uncounted, instead of staying hidden. A PUT with If-None-Match is
 * refused if the object exists. A body may exceed 11 MiB, because a model is one PUT.
 */
import { setImmediate } from 'node:timers/promises';
import { type BuildAppOptions, buildApp } from 'fauxqs';
import { Refused, type SignatureCheck } from './signature.ts';
import type { Storage } from './storage.ts';
import type { SqsQueue } from './stores.ts';

/** SQLite's limit for a value; S3 takes 5 GiB in one PUT. */
const MAX_OBJECT_BYTES = 900 * 1024 * 1024;

const TURNS_UNTIL_END_IS_SEEN = 3;

type LocalApp = ReturnType<typeof buildApp>;

export function buildLocalApp(storage: Storage, region: string, signatures: SignatureCheck): LocalApp {
  const options: BuildAppOptions = { logger: false, defaultRegion: region, stores: storage.stores };
  const app = buildApp(options);
  app.removeContentTypeParser('*');
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer', bodyLimit: MAX_OBJECT_BYTES },
    (_request: unknown, body: unknown, done: (error: null, body: unknown) => void) => done(null, body),
  );
  app.addHook('preParsing', async (request, _reply, body) => {
    return signatures.verify(request.raw, request.originalUrl, body);
  });
  app.setErrorHandler((error, request, reply) => {
    if (!(error instanceof Refused)) return reply.send(error);
    const { code, message } = error;
    // Clients of SQS read JSON, those of S3 XML.
    if (request.headers['x-amz-target'] === undefined) {
      return reply.status(error.statusCode).type('application/xml').send(errorXml(code, message));
    }
    const body = JSON.stringify({ __type: `com.amazonaws.sqs#${code}`, message });
    return reply.status(error.statusCode).type('application/x-amz-json-1.0').send(body);
  });
  app.addHook('preHandler', async (request, reply) => {
    if (!isReceive(request.headers)) return;
    // Ends the wait when the caller leaves. Polls of a queue are indistinguishable, so the others answer empty and
    // ask again.
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) queueOf(storage, request.body)?.cancelWaiters();
    });
  });
  app.addHook('preHandler', async (request, reply) => {
    if (request.method !== 'PUT' || request.headers['if-none-match'] !== '*') return;
    if (!objectExists(storage, request.params)) return;
    const message = 'At least one of the pre-conditions you specified did not hold';
    await reply.status(412).type('application/xml').send(errorXml('PreconditionFailed', message));
  });
  app.addHook('onSend', async (request, _reply, payload) => {
    if (!isReceive(request.headers) || !hasMessages(payload)) return;
    // The end of a socket is read one turn after its last bytes, and this message may arrive in that turn. Without
    // the wait, half of the polls closed just before a send still took its message.
    for (let turn = 0; turn < TURNS_UNTIL_END_IS_SEEN; turn += 1) await setImmediate();
    const { socket } = request.raw;
    const isGone = socket.destroyed || socket.readableEnded || socket.writableEnded;
    if (isGone) giveBackAll(storage, request.body, payload);
  });
  return app;
}

function errorXml(code: string, message: string): string {
  const text = message.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const body = `<Code>${code}</Code><Message>${text}</Message>`;
  return `<?xml version="1.0" encoding="UTF-8"?><Error>${body}</Error>`;
}

function objectExists(storage: Storage, params: unknown): boolean {
  const { bucket, '*': key }: { bucket?: string; '*'?: string } = Object(params);
  if (bucket === undefined || key === undefined) return false;
  try {
    storage.stores.s3Store.headObject(bucket, key);
    return true;
  } catch {
    return false;
  }
}

function isReceive(headers: Readonly<Record<string, unknown>>): boolean {
  return headers['x-amz-target'] === 'AmazonSQS.ReceiveMessage';
}

function hasMessages(payload: unknown): payload is string {
  return typeof payload === 'string' && payload.startsWith('{"Messages":[');
}

function queueOf(storage: Storage, body: unknown): SqsQueue | undefined {
  const { QueueUrl }: { QueueUrl?: unknown } = Object(body);
  return typeof QueueUrl === 'string' ? storage.stores.sqsStore.getQueue(QueueUrl) : undefined;
}

function giveBackAll(storage: Storage, body: unknown, payload: string): void {
  const queue = queueOf(storage, body);
  if (queue === undefined) return;
  const { Messages = [] }: { Messages?: readonly { ReceiptHandle: string }[] } = JSON.parse(payload);
  for (const { ReceiptHandle } of Messages) storage.giveBack(queue, ReceiptHandle);
}
