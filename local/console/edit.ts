/**
 * Sends a dead letter again with another payload. That is a new enqueue: the failure stays where it is until the new record has its
 * outcome. The dead letter is removed once the queue has the record, and the identity follows from what is sent: a caller that is
 * killed in between sends the same enqueue again, which has one outcome.
 */
import { createHash } from 'node:crypto';
import { type DeadLetter, uriOf } from '../../lib/codecs/dead-letter.ts';
import { isObject } from '../../lib/codecs/instances.ts';
import { decodeMessage } from '../../lib/codecs/message.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { assertNotified, readNotified } from '../../lib/contract/notice.ts';
import { present } from '../../lib/contract/present.ts';
import { assertSchedule } from '../../lib/contract/schedule.ts';
import { readSubmission } from '../../lib/http/predictions.ts';
import type { SentRecord } from '../../lib/pipeline/submit.ts';
import { PayloadStore } from '../../lib/s3/payloads.ts';
import { instanceJson } from '../../sdk/http/tensors.ts';
import type { ReplayPlace } from './replay.ts';

export interface EditPlace extends Pick<ReplayPlace, 'job' | 's3' | 'bucket'> {
  readonly deadLetters: Pick<ReplayPlace['deadLetters'], 'messages' | 'remove'>;
}

/** A longer text is shown without line breaks. */
const MOST_LINES = 500;

/**
 * A record as a person changes it: the body of POST /predictions, or the message itself where its inputs cannot be read.
 * @throws not_found, bad_request, errors of S3
 */
export async function editableText(place: EditPlace, id: string): Promise<string> {
  const { body } = await letterOf(place, id);
  const [text] = await new PayloadStore(place.s3, place.bucket, place.job.jobName).resolve([body]);
  if (text instanceof ServingError) throw text;
  return legible(editable(present(text, 'text of the message')));
}

/**
 * @param text the body of POST /predictions for one record; without a uri, that of the dead letter
 * @param enqueue resolves when the queue has the record
 * @throws not_found, bad_request, and errors of `enqueue`, after which the dead letter is still there
 */
export async function replayEdited(
  place: EditPlace,
  id: string,
  text: string,
  enqueue: (record: SentRecord) => Promise<void>,
): Promise<SentRecord> {
  const letter = await letterOf(place, id);
  const { submission } = readSubmission(Buffer.from(text), () => {
    const uri = uriOf(letter.body);
    if (uri !== undefined) return uri;
    throw new ServingError(
      'bad_request',
      'the dead letter has no uri; add one: {"uri": "…", "instances": […]}',
    );
  });
  const { uri, message } = submission;
  assertNotified(submission);
  const { delaySeconds, priority, expiresAfter = letter.expiresAfter } = submission;
  const digest = createHash('sha256').update(`${id}\n${letter.identity}\n${message}`).digest('hex');
  const record = {
    uri,
    message,
    identity: `edit-${digest.slice(0, 32)}`,
    groupId: letter.groupId,
    canaryKey: letter.canaryKey,
    ...assertSchedule({ delaySeconds, expiresAfter, priority }, place.job.queue),
    model: letter.model,
    ...readNotified({
      notify: submission.notify ?? letter.notify,
      taskToken: submission.taskToken ?? letter.taskToken,
    }),
  };
  await enqueue(record);
  await place.deadLetters.remove([id]);
  return record;
}

async function letterOf({ deadLetters }: EditPlace, id: string): Promise<DeadLetter> {
  const [letter] = await deadLetters.messages([id]);
  if (letter instanceof ServingError) throw letter;
  if (letter) return letter;
  throw new ServingError('not_found', `there is no dead letter ${id} (any more)`);
}

function editable(message: string): string {
  try {
    const { uri, inputs } = decodeMessage(message);
    if (inputs instanceof ServingError) return message;
    const record: unknown = JSON.parse(message);
    const data = isObject(record) && record['serde'] === 'stream' ? record['data'] : undefined;
    // As text: numbers keep their digits.
    const rest = typeof data === 'string' ? data.trim() : `{"instances":[${instanceJson(inputs)}]}`;
    return `{"uri":${JSON.stringify(uri)},${rest.slice(1)}`;
  } catch {
    return message;
  }
}

/** With line breaks, where they change no number and do not make too many lines. */
function legible(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    const lines = JSON.stringify(value, undefined, 2);
    return JSON.stringify(value) === text && lines.split('\n').length <= MOST_LINES ? lines : text;
  } catch {
    return text;
  }
}
