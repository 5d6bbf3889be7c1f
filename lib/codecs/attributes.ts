/**
 * The attributes of an SQS message that say which enqueue it belongs to. They are not part of the body, because old
 * clients and servers share its fields.
 */
import { type Enqueue, isCanaryKey, isIdentity } from '../contract/enqueue.ts';
import { type Notified, readNotified } from '../contract/notice.ts';
import { isExpiresAfter, type Schedule } from '../contract/schedule.ts';
import { readTrace, type TraceContext, traceHeaders } from '../contract/trace.ts';

const IDENTITY = 'identity';
/** When SQS took the first message of a record that is sent again from the dead letters. */
const ORIGINAL_SENT_TIMESTAMP = 'originalSentTimestamp';
const REPLAYS = 'replays';
const EXPIRES_AFTER = 'expiresAfter';
/** By its value a canary takes a record or not; also a header of requests. */
export const CANARY_KEY = 'canary-key';
/** The model that runs a record; also a parameter of requests. */
const MODEL = 'model';

/** As SQS takes them. */
export type MessageAttributes = Readonly<
  Record<string, { readonly DataType: 'String' | 'Number'; readonly StringValue: string }>
>;

/** A sender's statements about a record. */
type Said = Notified & Pick<Schedule, 'expiresAfter'> & Pick<Enqueue, 'canaryKey' | 'model'>;

/** Attributes for a new record. SQS takes ten, and a replay has two more. */
export function newAttributes(
  identity: string,
  trace?: TraceContext,
  { notify, taskToken, canaryKey, expiresAfter, model }: Said = {},
): MessageAttributes {
  return {
    [IDENTITY]: { DataType: 'String', StringValue: identity },
    ...traceAttributes(trace),
    ...(notify !== undefined && { notify: { DataType: 'String', StringValue: notify } as const }),
    ...(taskToken !== undefined && { taskToken: { DataType: 'String', StringValue: taskToken } as const }),
    ...(canaryKey !== undefined && { [CANARY_KEY]: { DataType: 'String', StringValue: canaryKey } as const }),
    ...(expiresAfter !== undefined && {
      [EXPIRES_AFTER]: { DataType: 'Number', StringValue: String(expiresAfter) } as const,
    }),
    ...(model !== undefined && { [MODEL]: { DataType: 'String', StringValue: model } as const }),
  };
}

/** As OpenTelemetry's own libraries name them, which so understand our messages, and we theirs. */
export function traceAttributes(trace: TraceContext | undefined): MessageAttributes {
  const texts = Object.entries(traceHeaders(trace));
  return Object.fromEntries(texts.map(([name, text]) => [name, { DataType: 'String', StringValue: text }]));
}

/** Attributes for a record that is sent again. It keeps its identity and its place in the order. */
export function replayAttributes(enqueue: Enqueue): MessageAttributes {
  const { identity, sentAt, replays, trace } = enqueue;
  return {
    ...newAttributes(identity, trace, enqueue),
    [ORIGINAL_SENT_TIMESTAMP]: { DataType: 'Number', StringValue: String(sentAt) },
    [REPLAYS]: { DataType: 'Number', StringValue: String(replays) },
  };
}

/** The bytes that SQS counts towards the size of a message: names, types and values. */
export function attributesBytes(attributes: MessageAttributes): number {
  let bytes = 0;
  for (const [name, { DataType, StringValue }] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name) + DataType.length + Buffer.byteLength(StringValue);
  }
  return bytes;
}

/** A message as SQS delivers it, as far as its order goes. */
export interface DeliveredMessage {
  readonly messageId: string;
  readonly attributes: {
    readonly SentTimestamp?: string;
    /** Set by the queue of a single machine, whose clock may be set back: these numbers only grow. */
    readonly SequenceNumber?: string | undefined;
  };
  readonly messageAttributes?: Readonly<Record<string, { readonly stringValue?: string | undefined }>>;
}

/**
 * Never throws: attributes come from untrusted senders, and what makes no sense is ignored. An original time that lies
 * after SQS's own time of this message is not believed: it would keep every later record of the uri out.
 */
export function enqueueOf({ messageId, attributes, messageAttributes = {} }: DeliveredMessage): Enqueue {
  const identity = messageAttributes[IDENTITY]?.stringValue;
  // Those of a FIFO queue of AWS have twenty digits, too many for a safe integer.
  const sentAt = wholeNumber(attributes.SequenceNumber) || wholeNumber(attributes.SentTimestamp);
  const original = messageAttributes[ORIGINAL_SENT_TIMESTAMP]?.stringValue;
  const { traceparent, tracestate, notify, taskToken } = messageAttributes;
  const trace = readTrace({ traceparent: traceparent?.stringValue, tracestate: tracestate?.stringValue });
  const canaryKey = messageAttributes[CANARY_KEY]?.stringValue;
  const expiresAfter = wholeNumber(messageAttributes[EXPIRES_AFTER]?.stringValue);
  const model = messageAttributes[MODEL]?.stringValue;
  return {
    identity: isIdentity(identity) ? identity : messageId,
    sentAt: original === undefined ? sentAt : Math.min(sentAt, wholeNumber(original)),
    replays: wholeNumber(messageAttributes[REPLAYS]?.stringValue),
    ...(trace && { trace }),
    ...(isCanaryKey(canaryKey) && { canaryKey }),
    ...(isExpiresAfter(expiresAfter) && { expiresAfter }),
    // Also a text that names no model: the job's own would give another answer than its sender wants.
    ...(model !== undefined && { model }),
    ...readNotified({ notify: notify?.stringValue, taskToken: taskToken?.stringValue }),
  };
}

/** 0 for what is none. */
function wholeNumber(text: string | undefined): number {
  const number = Number(text ?? 0);
  return Number.isSafeInteger(number) && number > 0 ? number : 0;
}
