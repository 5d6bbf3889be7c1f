/**
 * Sends a notice to a bus of EventBridge, a topic of SNS or a queue of SQS, or ends the task of Step Functions that waits for it: one
 * signed call, without the client of the AWS SDK.
 */
import { type AwsAnswer, type AwsCall, type AwsPlace, callAws, parsed, reasonOf } from '../aws/call.ts';
import { forSqs } from '../codecs/sqs-text.ts';
import { type AwsAddress, arnOf, domainOf, isFifo } from '../contract/aws-address.ts';
import { asError } from '../contract/errors.ts';
import type { Notice } from '../contract/notice.ts';
import type { Delivery } from './webhook.ts';

export interface AwsSenderOptions {
  /** Region and endpoint of the stack, with the current credentials. */
  readonly place: () => AwsPlace;
  /** The URL of a queue by its name, where it is not AWS that has it. */
  readonly queueUrl?: ((name: string) => string) | undefined;
}

const CALL_MS = 5_000;
/** `source` of the events. */
export const EVENT_SOURCE = 'cluster-serving';
/** Another attempt with the same notice ends in the same way. */
const FINAL =
  /^(Validation|InvalidParameter|InvalidMessageContents|MalformedDetail|InvalidArgument|InvalidToken|InvalidOutput)/;
/** A task that has ended: by an earlier announcement of this outcome, its own time limit, or the end of its execution. */
const OVER = /^(TaskTimedOut|TaskDoesNotExist)/;

/** @returns a function that never throws */
export function awsSender(
  options: AwsSenderOptions,
): (notice: Notice, address: AwsAddress) => Promise<Delivery> {
  return async (notice, address) => {
    if (address.service === 'states' && notice.taskToken === undefined)
      return {
        ok: false,
        isFinal: true,
        reason: 'the record has no token of a task: its attribute taskToken',
      };
    try {
      const place = options.place();
      const { call, refusalOf } = requestOf(notice, address, place, options);
      const answer = await callAws(place, { ...call, limitMs: CALL_MS });
      return deliveryOf(answer, refusalOf(answer));
    } catch (error) {
      return { ok: false, reason: asError(error).message, isAway: true };
    }
  };
}

interface Request {
  readonly call: Omit<AwsCall, 'limitMs'>;
  /** @returns why the service did not take it, with the code first; undefined if it did */
  readonly refusalOf: (answer: AwsAnswer) => string | undefined;
}

function requestOf(notice: Notice, address: AwsAddress, place: AwsPlace, options: AwsSenderOptions): Request {
  if (address.service === 'events') return eventOf(notice, address);
  if (address.service === 'states') return endOfTask(notice);
  return address.service === 'sns'
    ? publishOf(notice, address, place)
    : messageOf(notice, address, place, options);
}

/** The JSON of a notice with its id, as text: numbers of a result keep their digits. */
function documentOf({ id, body }: Notice): string {
  return forSqs(`{"id":${JSON.stringify(id)},${body.slice(1)}`);
}

function headOf({ body }: Notice): { readonly type: string; readonly timestamp: string } {
  return JSON.parse(body);
}

function jsonCall(service: string, version: '1.0' | '1.1', action: string, input: object): Request['call'] {
  return {
    service,
    headers: { 'content-type': `application/x-amz-json-${version}`, 'x-amz-target': action },
    body: JSON.stringify(input),
  };
}

function eventOf(notice: Notice, { name }: AwsAddress): Request {
  const { type, timestamp } = headOf(notice);
  const entry = {
    EventBusName: name,
    Source: EVENT_SOURCE,
    DetailType: type,
    Detail: documentOf(notice),
    Time: Date.parse(timestamp) / 1000,
  };
  return {
    call: jsonCall('events', '1.1', 'AWSEvents.PutEvents', { Entries: [entry] }),
    refusalOf: (answer) => (answer.status === 200 ? refusedEntry(answer.text) : reasonOf(answer)),
  };
}

/** EventBridge answers 200 for events that it did not take. */
function refusedEntry(text: string): string | undefined {
  const { FailedEntryCount: failed, Entries: entries }: PutEventsAnswer = parsed(text);
  if (failed === 0) return undefined;
  const [{ ErrorCode = 'no answer', ErrorMessage = '' } = {}] = entries ?? [];
  return ErrorMessage === '' ? ErrorCode : `${ErrorCode}: ${ErrorMessage}`;
}

interface PutEventsAnswer {
  readonly FailedEntryCount?: number;
  readonly Entries?: readonly { readonly ErrorCode?: string; readonly ErrorMessage?: string }[];
}

/** By which a receiver drops what it has, and chooses without reading the message. */
function attributesOf(notice: Notice): readonly (readonly [name: string, value: string])[] {
  return [
    ['id', notice.id],
    ['type', headOf(notice).type],
  ];
}

/** A FIFO queue drops the same id within five minutes. Notices come in no order, so each is a group of its own. */
function fifoOf(notice: Notice, address: AwsAddress) {
  return isFifo(address) ? { MessageGroupId: notice.id, MessageDeduplicationId: notice.id } : {};
}

/** SNS speaks forms and XML alone. */
function publishOf(notice: Notice, address: AwsAddress, { region }: AwsPlace): Request {
  const { account = '' } = address.place ?? {};
  const form = new URLSearchParams({
    Action: 'Publish',
    Version: '2010-03-31',
    TopicArn: arnOf(address, region, account),
    Message: documentOf(notice),
    ...fifoOf(notice, address),
  });
  attributesOf(notice).forEach(([name, value], i) => {
    const entry = `MessageAttributes.entry.${i + 1}`;
    form.set(`${entry}.Name`, name);
    form.set(`${entry}.Value.DataType`, 'String');
    form.set(`${entry}.Value.StringValue`, value);
  });
  return {
    call: {
      service: 'sns',
      headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      body: form.toString(),
    },
    refusalOf: ({ status, text }) => {
      if (status === 200) return undefined;
      const [, code = `status ${status}`] = /<Code>([^<]{1,200})<\/Code>/.exec(text) ?? [];
      const [, message] = /<Message>([^<]{1,1000})<\/Message>/.exec(text) ?? [];
      return message === undefined ? code : `${code}: ${message}`;
    },
  };
}

function messageOf(
  notice: Notice,
  address: AwsAddress,
  { region }: AwsPlace,
  { queueUrl }: AwsSenderOptions,
): Request {
  const { account = '' } = address.place ?? {};
  const attributes = attributesOf(notice).map(
    ([name, StringValue]) => [name, { DataType: 'String', StringValue }] as const,
  );
  const input = {
    QueueUrl:
      queueUrl?.(address.name) ?? `https://sqs.${region}.${domainOf(region)}/${account}/${address.name}`,
    MessageBody: documentOf(notice),
    MessageAttributes: Object.fromEntries(attributes),
    ...fifoOf(notice, address),
  };
  return {
    call: jsonCall('sqs', '1.0', 'AmazonSQS.SendMessage', input),
    refusalOf: (answer) => (answer.status === 200 ? undefined : reasonOf(answer)),
  };
}

/** An outcome for Step Functions, and how it names a failure. */
interface TaskBody {
  readonly data: {
    readonly status: string;
    readonly error?: { readonly code: string; readonly message: string };
  };
}

/** The limits of Step Functions for the name and the cause of a failure. */
const MOST_ERROR = 256;
const MOST_CAUSE = 32_768;
const DATA = '"data":';

function endOfTask({ body, taskToken }: Notice): Request {
  const { data }: TaskBody = JSON.parse(body);
  const { status, error } = data;
  // As text: numbers of a result keep their digits.
  const output = body.slice(body.indexOf(DATA) + DATA.length, -1);
  const call =
    status === 'succeeded'
      ? jsonCall('states', '1.0', 'AWSStepFunctions.SendTaskSuccess', { taskToken, output })
      : jsonCall('states', '1.0', 'AWSStepFunctions.SendTaskFailure', {
          taskToken,
          error: (error?.code ?? status).slice(0, MOST_ERROR),
          cause:
            Buffer.byteLength(output) <= MOST_CAUSE
              ? output
              : (error?.message ?? status).slice(0, MOST_CAUSE / 4),
        });
  return { call, refusalOf: (answer) => (answer.status === 200 ? undefined : reasonOf(answer)) };
}

/** A missing right or a name that nothing has may be set right within the day, so such a refusal is not final. */
function deliveryOf({ status }: AwsAnswer, refusal: string | undefined): Delivery {
  if (refusal === undefined) return { ok: true };
  if (OVER.test(refusal)) return { ok: false, reason: refusal, isOver: true };
  if (FINAL.test(refusal)) return { ok: false, reason: refusal, isFinal: true };
  return { ok: false, reason: refusal, isAway: status >= 500 };
}
