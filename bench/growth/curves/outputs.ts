/**
 * Output length. In: an event of one record whose result has so many numbers, or such a result in Redis. Out: what
 * writing and reading it take. Trap: Redis is emptied before each event, for the first result of a uri stays.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import type { BenchModel } from '../../models.ts';
import { assertSame } from '../../raw.ts';
import { queueEvent, serve } from '../../served.ts';
import { readEvent, runEvent } from '../batch-work.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import { longOutputModel, modelGiven, modelOf } from '../models.ts';

const WRITE = 'batch function, one record';
const READ = 'query';
const URI = 'long';
const FACTOR = 0.5;
const XS = [10, 100, 1e3, 1e4, 1e5, 1e6];

export const curve: Curve = {
  name: 'outputs',
  about: 'writing and reading a result by its numbers',
  xLabel: 'numbers of the result',
  series: [WRITE, READ].map((name) => ({ name, xs: XS, quickXs: XS.slice(1, 5) })),
  metrics: [TIME, CPU, PEAK, RETAINED],
  async prepare(growth, points) {
    const redis = await growth.redis();
    const models = new Map<number, BenchModel>();
    for (const { x } of points) models.set(x, await longOutputModel(growth.folder, x));
    const tensor = { dtype: 'float32', shape: [1], data: Float32Array.of(FACTOR) } as const;
    const event = join(growth.folder, 'long-output.json');
    const body = encodeMessage(URI, new Map([['x', { kind: 'tensor', tensor }]]));
    await writeFile(event, JSON.stringify(queueEvent([body])));
    return async (_, x) => ({
      ...modelGiven(models.get(x) as BenchModel),
      redisUrl: redis.url,
      event,
    });
  },
};

export const open: OpenWork = async ({ series, x, given }) => {
  const { event: path = '', redisUrl = '' } = given;
  const served = serve(modelOf(given), redisUrl, 8);
  const redis = new Redis(redisUrl);
  const write = async () => runEvent(served, await readEvent(path));
  const read = async () => {
    const result = await served.results.get(URI);
    const data = result?.outputs[0]?.data as Float32Array;
    assertSame([data.length, data[0] ?? 0, data[x - 1] ?? 0], [x, FACTOR, FACTOR * x], URI);
  };
  const empty = () => redis.flushdb();
  const close = async () => {
    redis.disconnect();
    await served.close();
  };
  await empty();
  if (series === READ) {
    await write();
    return { call: read, close };
  }
  // The model is opened by the first event; one without records leaves nothing else behind.
  await served.batch({ Records: [] });
  return { prepare: empty, call: write, verify: read, close };
};
