/**
 * `dlq show`: all of one message, with dtype, shape and first values of each input, even if the record is in S3
 * behind a pointer. A message that cannot be decoded is shown with its error.
 */

import { uriOf } from '../../lib/codecs/dead-letter.ts';
import { decodeMessage } from '../../lib/codecs/message.ts';
import { decodePointer } from '../../lib/codecs/pointer.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { PayloadStore } from '../../lib/s3/payloads.ts';
import { EXIT, type Output } from '../output.ts';
import type { DlqPlace } from './place.ts';
import { bytesText, type InputFacts, inputFacts, inputLine, plain, timeText } from './text.ts';

const SHOWN_MESSAGE = 2_000;

interface Reading {
  readonly payload?: { readonly key: string; readonly bytes?: number };
  readonly inputs?: readonly InputFacts[];
  /** The reason for missing inputs. */
  readonly error?: { readonly code: string; readonly message: string };
}

/** @throws not_found, bad_request for a file that is not a dead letter */
export async function show(place: DlqPlace, id: string, output: Output): Promise<number> {
  const [message] = await place.deadLetters.messages([id]);
  if (message instanceof ServingError) throw message;
  if (!message) throw new ServingError('not_found', `no message ${id} is archived for ${place.job.jobName}`);
  const { body, sentAt, attempts } = message;
  const uri = uriOf(body);
  const [result] = place.results && uri !== undefined ? await place.results.outcomes([uri]) : [];
  const reading = await readBody(place, body);
  const { payload, inputs = [], error } = reading;
  const lines = [`id       ${id}`];
  lines.push(`uri      ${uri === undefined ? '(none: no result can be stored)' : plain(uri, 1_024)}`);
  if (sentAt !== undefined) lines.push(`sent     ${timeText(sentAt)}`);
  if (attempts !== undefined) lines.push(`attempts ${attempts}`);
  if (result) {
    const why = result.code ? `: ${plain(result.message ?? '')} (${result.code})` : '';
    lines.push(`result   ${result.status}${why}`);
  }
  if (payload) {
    const size = payload.bytes === undefined ? '' : `, ${bytesText(payload.bytes)}`;
    lines.push(`payload  s3://${place.bucket}/${payload.key}${size}`);
  }
  if (error) lines.push(`unread   ${plain(error.message, 500)} (${error.code})`);
  lines.push(...inputs.map((input, i) => `${i === 0 ? 'inputs ' : '       '}  ${inputLine(input)}`));
  lines.push(`message  ${bytesText(Buffer.byteLength(body))}`, plain(body, SHOWN_MESSAGE));
  const sent = sentAt === undefined ? undefined : new Date(sentAt).toISOString();
  // JSON omits undefined values.
  output.answer({ id, uri, sentAt: sent, attempts, result, ...reading, message: body }, lines.join('\n'));
  return EXIT.ok;
}

async function readBody({ s3, bucket, job }: DlqPlace, body: string): Promise<Reading> {
  const key = decodePointer(body, job.jobName)?.key;
  try {
    const [text] = await new PayloadStore(s3, bucket, job.jobName).resolve([body]);
    if (text instanceof ServingError) return { ...(key ? { payload: { key } } : {}), error: text.toJSON() };
    const read = present(text, 'text of the message');
    const payload = key ? { payload: { key, bytes: Buffer.byteLength(read) } } : {};
    const { inputs } = decodeMessage(read);
    if (inputs instanceof ServingError) return { ...payload, error: inputs.toJSON() };
    return { ...payload, inputs: inputFacts(inputs) };
  } catch (error) {
    return { error: ServingError.from(error).toJSON() };
  }
}
