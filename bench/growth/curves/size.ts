/**
 * Record size. In: an event of one record that holds one vector. Out: what the batch function takes for it, where the
 * vector lies in the message, up to what SQS takes, or in S3 with a pointer in the message.
 * Trap: the model only adds the numbers up; what is measured is how they come to it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { payloadPrefix } from '../../../lib/contract/names.ts';
import { assertSame } from '../../raw.ts';
import { JOB, queueEvent } from '../../served.ts';
import { openBatch } from '../batch-work.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import type { Growth } from '../growth.ts';
import { meanModel, modelGiven } from '../models.ts';

const IN_MESSAGE = 'in the message';
const IN_S3 = 'in S3 (claim check)';
const URI = 'vector';
const WARM_BYTES = 1_000;

export const curve: Curve = {
  name: 'size',
  about: 'the batch function by the size of its one record',
  xLabel: 'bytes of the record’s tensor',
  series: [
    {
      name: IN_MESSAGE,
      xs: [1e3, 4e3, 16e3, 64e3, 256e3, 768e3],
      quickXs: [1e3, 16e3, 256e3, 768e3],
    },
    { name: IN_S3, xs: [256e3, 1e6, 4e6, 8e6, 16e6], quickXs: [256e3, 1e6, 4e6] },
  ],
  metrics: [TIME, CPU, PEAK, RETAINED],
  async prepare(growth, points) {
    const model = await meanModel(growth.folder);
    const redis = await growth.redis();
    const objects = await growth.objects();
    for (const { series, x } of [...points, { series: IN_MESSAGE, x: WARM_BYTES }]) {
      const key = `${payloadPrefix(JOB)}vector-${x}`;
      const path = eventPath(growth, series, x);
      const body = encodeMessage(URI, new Map([[model.input, { kind: 'tensor', tensor: vectorOf(x) }]]));
      if (series === IN_S3) {
        await writeFile(`${path}.payload`, body);
        await objects.place(key, `${path}.payload`);
      } else if (body.length > LIMITS.messageBytes) throw new Error(`no message has ${body.length} bytes`);
      const sent = series === IN_S3 ? encodePointer(URI, key, body.length) : body;
      await writeFile(path, JSON.stringify(queueEvent([sent])));
    }
    return async (series, x) => ({
      ...modelGiven(model),
      redisUrl: redis.url,
      endpoint: objects.endpoint,
      event: eventPath(growth, series, x),
      warm: eventPath(growth, IN_MESSAGE, WARM_BYTES),
    });
  },
};

function eventPath(growth: Growth, series: string, x: number): string {
  return join(growth.folder, `size-${series === IN_S3 ? 's3' : 'message'}-${x}.json`);
}

/** Eighths, of which a float32 holds the sum exactly, in whatever order they are added. */
const eighth = (i: number) => (i % 8) / 8;

function vectorOf(tensorBytes: number) {
  const length = tensorBytes / 4;
  const data = Float32Array.from({ length }, (_, i) => eighth(i));
  return { dtype: 'float32', shape: [length], data } as const;
}

function meanOf(tensorBytes: number): number {
  const { data } = vectorOf(tensorBytes);
  return data.reduce((sum, value) => sum + value, 0) / data.length;
}

export const open: OpenWork = async ({ x, given }) => {
  const { served, work } = openBatch(given, 8);
  return {
    ...work,
    verify: async () => {
      const result = await served.results.get(URI);
      assertSame(result?.outputs[0]?.data as Float32Array, [meanOf(x)], URI);
    },
  };
};
