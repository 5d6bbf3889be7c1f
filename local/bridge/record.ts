/** Makes the record that is enqueued of an entry that a client of the original Cluster Serving wrote. */
import { isUtf8 } from 'node:buffer';
import { wireRecord } from '../../lib/codecs/message.ts';
import { badRequest } from '../../lib/contract/errors.ts';
import { LIMITS, overLimit } from '../../lib/contract/limits.ts';
import type { SentRecord } from '../../lib/pipeline/submit.ts';
import type { StreamEntry } from '../../lib/redis/stream.ts';

/** As it wrote them: `data` is base64 of an Arrow stream, or JSON text with `serde` = `stream`. */
const FIELDS = ['uri', 'data', 'serde'] as const;
/** So that ids sort as text, those that a client chose too: of two records of one uri in the same ms, the later entry wins. */
const MS_DIGITS = 13;
const SEQUENCE_DIGITS = 6;

/**
 * Checks what a result needs to be found again. Whether `data` can be read is seen when the record runs: its error is then
 * the result of its uri.
 * @throws bad_request for an entry without a readable uri or data; too_large
 */
export function recordOf({ id, fields }: StreamEntry): SentRecord {
  const texts = FIELDS.flatMap((name) => {
    const bytes = fields.get(name);
    if (bytes === undefined) return [];
    // Before a text is made of it: an entry may have more than one can hold.
    if (bytes.length > LIMITS.payloadBytes)
      throw overLimit('payloadBytes', `${name}: ${bytes.length} bytes are`);
    if (!isUtf8(bytes)) throw badRequest(`${name}: expected a text in UTF-8`);
    return [[name, bytes.toString()] as const];
  });
  const { uri, data, serde } = wireRecord(Object.fromEntries(texts));
  const [ms = '', sequence = ''] = id.split('-');
  // An entry that is read twice, because a bridge ended between sending and removing it, is one enqueue.
  const identity = `stream-${ms.padStart(MS_DIGITS, '0')}-${sequence.padStart(SEQUENCE_DIGITS, '0')}`;
  return { uri, identity, message: JSON.stringify({ uri, data, serde }) };
}

/** For messages. */
export function countOf(records: number): string {
  return `${records} ${records === 1 ? 'record' : 'records'}`;
}
