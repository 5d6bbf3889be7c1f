/**
 * Number of inputs. In: an event of 16 records, each with so many inputs of 16 numbers. Out: what the batch function
 * takes for it. Trap: inputs are matched by name; a search through all of them for each would show here.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import type { Value } from '../../../lib/contract/values.ts';
import type { BenchModel } from '../../models.ts';
import { assertSame } from '../../raw.ts';
import { queueEvent } from '../../served.ts';
import { openBatch } from '../batch-work.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import type { Growth } from '../growth.ts';
import { inputName, manyInputsModel, modelGiven } from '../models.ts';

const RECORDS = 16;
const WIDTH = 16;
const XS = [1, 4, 16, 64, 128, 256];
const WIRES = ['safetensors', 'JSON (stream)'];

export const curve: Curve = {
  name: 'inputs',
  about: 'the batch function by the inputs of the model',
  xLabel: 'inputs of the model',
  series: WIRES.map((name) => ({ name, xs: XS, quickXs: [1, 4, 16, 64] })),
  metrics: [TIME, CPU, PEAK, RETAINED],
  async prepare(growth, points) {
    const redis = await growth.redis();
    const models = new Map<number, BenchModel>();
    for (const { series, x } of points) {
      models.set(x, models.get(x) ?? (await manyInputsModel(growth.folder, x, WIDTH)));
      const bodies = Array.from({ length: RECORDS }, (_, i) => bodyOf(series, i, x));
      await writeFile(eventPath(growth, series, x), JSON.stringify(queueEvent(bodies)));
    }
    return async (series, x) => ({
      ...modelGiven(models.get(x) as BenchModel),
      redisUrl: redis.url,
      event: eventPath(growth, series, x),
    });
  },
};

function eventPath(growth: Growth, series: string, x: number): string {
  return join(growth.folder, `inputs-${WIRES.indexOf(series)}-${x}.json`);
}

/** Input i of record r is r + 0.25 everywhere. */
function bodyOf(series: string, record: number, inputs: number): string {
  const value = (): Value => {
    const data = new Float32Array(WIDTH).fill(record + 0.25);
    if (series !== 'safetensors') return { kind: 'json', value: [...data] };
    return { kind: 'tensor', tensor: { dtype: 'float32', shape: [WIDTH], data } };
  };
  const named = Array.from({ length: inputs }, (_, i) => [inputName(i), value()] as const);
  return encodeMessage(`record-${record}`, new Map(named));
}

export const open: OpenWork = async ({ x, given }) => {
  const { served, work } = openBatch(given, RECORDS);
  return {
    ...work,
    verify: async () => {
      const result = await served.results.get('record-3');
      const expected = new Float32Array(WIDTH).fill(x * 3.25);
      assertSame(result?.outputs[0]?.data as Float32Array, expected, 'record-3');
    },
  };
};
