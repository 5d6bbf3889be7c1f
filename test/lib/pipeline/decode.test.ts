/** Messages that are not records are sorted by why they cannot be read, and how often they came. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { badRequest, ServingError } from '../../../lib/contract/errors.ts';
import { Scratch } from '../../../lib/pipeline/batch/buffer-pool.ts';
import type { Message } from '../../../lib/pipeline/chunks.ts';
import { decodeMessages } from '../../../lib/pipeline/decode.ts';
import { enqueued } from '../../support/enqueue.ts';

const MOST = 5;
const RECORD = encodeMessage(
  'a',
  new Map([['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(1) } }]]),
);
const TRACE = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', isSampled: true };
const enqueue = { ...enqueued('one'), trace: TRACE };

/** A buffer for which no memory is left; the record is not at fault. */
class Full extends Scratch {
  override take(): never {
    throw new RangeError('Array buffer allocation failed');
  }
}

interface Way {
  readonly buffers?: Scratch;
  readonly most?: number | undefined;
}

function sorted(body: Message['body'], attempts: number, { buffers = new Scratch(), ...way }: Way = {}) {
  const most = 'most' in way ? way.most : MOST;
  const message = { id: 'm', enqueue, attempts, body };
  const { records, finished, returned } = decodeMessages([message], buffers, most);
  return {
    records: records.map(({ id, uri, attempts: times, enqueue: of }) => [id, uri, times, of]),
    finished: finished.map(({ id, uri, outcome, enqueue: of }) => [
      id,
      uri,
      outcome.ok ? undefined : outcome.error.code,
      of,
    ]),
    returned: returned.map(({ id, error, dead, trace }) => [id, error.code, dead, trace]),
  };
}

test('a record runs, however often it came', () => {
  for (const attempts of [1, MOST, MOST + 1]) {
    assert.deepEqual(sorted(RECORD, attempts), {
      records: [['m', 'a', attempts, enqueue]],
      finished: [],
      returned: [],
    });
  }
});

test('a record that can never work fails at once, and one whose data could not be read for now comes again', () => {
  const away = new ServingError('queue_unavailable', 'S3 is away', { uri: 'a' });
  const gone = new ServingError('record_expired', 'too old', { uri: 'a' });
  for (const attempts of [1, MOST, MOST + 1]) {
    for (const [body, code] of [
      ['{"uri":"a"}', 'bad_request'],
      [gone, 'record_expired'],
    ] as const) {
      const failed = { records: [], finished: [['m', 'a', code, enqueue]], returned: [] };
      assert.deepEqual(sorted(body, attempts), failed, `${code} ${attempts}`);
    }
    const again = { records: [], finished: [], returned: [['m', away.code, undefined, TRACE]] };
    assert.deepEqual(sorted(away, attempts), again, String(attempts));
  }
});

test('a message that cannot be read comes again, and is dead after some deliveries', () => {
  const dead = (attempts: number) => ({ id: 'm', attempts });
  for (const [attempts, most, expected] of [
    [1, MOST, undefined],
    [MOST - 1, MOST, undefined],
    [MOST, MOST, dead(MOST)],
    [MOST + 1, MOST, dead(MOST + 1)],
    // Without a limit of its own: the queue decides.
    [MOST + 1, undefined, undefined],
  ] as const) {
    const again = { records: [], finished: [], returned: [['m', 'bad_request', expected, TRACE]] };
    assert.deepEqual(sorted('no JSON', attempts, { most }), again, `${attempts} of ${most}`);
  }
});

test('a message that is not here is never dead, because it was never read', () => {
  for (const error of [new ServingError('timeout', 'no time is left'), badRequest('no pointer')]) {
    for (const attempts of [1, MOST, MOST + 1]) {
      const again = { records: [], finished: [], returned: [['m', error.code, undefined, TRACE]] };
      assert.deepEqual(sorted(error, attempts), again, `${error.code} ${attempts}`);
    }
  }
});

test('a record that fails to be read for a reason that is not its own comes again, and fails after some deliveries', () => {
  const buffers = new Full();
  for (const attempts of [1, MOST - 1]) {
    const again = { records: [], finished: [], returned: [['m', 'internal', undefined, TRACE]] };
    assert.deepEqual(sorted(RECORD, attempts, { buffers }), again, String(attempts));
  }
  for (const attempts of [MOST, MOST + 1]) {
    const failed = { records: [], finished: [['m', 'a', 'max_receives_exceeded', enqueue]], returned: [] };
    assert.deepEqual(sorted(RECORD, attempts, { buffers }), failed, String(attempts));
  }
});
