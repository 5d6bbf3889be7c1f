/**
 * Body size. In: a JSON body of POST /predict with one vector. Out: what the handler takes for it, up to the 6 MB that
 * API Gateway takes. Trap: the numbers have the 9 digits a float32 needs; round ones would be read faster.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { LIMITS } from '../../../lib/contract/limits.ts';
import { randomNumbers } from '../../models.ts';
import { assertSame } from '../../raw.ts';
import { predictEvent, predictionOf, serve } from '../../served.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import type { Growth } from '../growth.ts';
import { meanModel, modelGiven, modelOf } from '../models.ts';

const JSON_BODY = 'JSON';
const WARM_BYTES = 1_000;
const SEED = 62;

export const curve: Curve = {
  name: 'body',
  about: 'POST /predict by the size of its JSON body',
  xLabel: 'bytes of the body',
  series: [{ name: JSON_BODY, xs: [1e3, 1e4, 1e5, 3e5, 1e6, 3e6, 6e6], quickXs: [1e3, 1e5, 1e6] }],
  metrics: [TIME, CPU, PEAK, RETAINED],
  async prepare(growth, points) {
    const model = await meanModel(growth.folder);
    const redis = await growth.redis();
    for (const x of new Set([WARM_BYTES, ...points.map((point) => point.x)])) {
      const { body, mean } = bodyOf(model.input, x);
      if (body.length > LIMITS.httpBodyBytes) throw new Error(`no body has ${body.length} bytes`);
      await writeFile(eventPath(growth, x), JSON.stringify({ event: predictEvent(body), mean }));
    }
    return async (_, x) => ({
      ...modelGiven(model),
      redisUrl: redis.url,
      event: eventPath(growth, x),
      warm: eventPath(growth, WARM_BYTES),
    });
  },
};

function eventPath(growth: Growth, x: number): string {
  return join(growth.folder, `body-${x}.json`);
}

function bodyOf(input: string, size: number): { body: string; mean: number } {
  const random = randomNumbers(SEED);
  const numbers: number[] = [];
  let sum = 0;
  // A text of 9 digits and a comma is 10 to 13 characters long.
  for (let bytes = 40; bytes < size - 13; ) {
    const number = Number(Math.fround(random() * 2 - 1).toPrecision(9));
    bytes += String(number).length + 1;
    sum += number;
    numbers.push(number);
  }
  return { body: JSON.stringify({ instances: [{ [input]: numbers }] }), mean: sum / numbers.length };
}

interface Written {
  readonly event: APIGatewayProxyEventV2;
  readonly mean: number;
}

export const open: OpenWork = async ({ given }) => {
  const { event: path = '', warm = '', redisUrl = '' } = given;
  const served = serve(modelOf(given), redisUrl, 8);
  const read = async (file: string) => JSON.parse(await readFile(file, 'utf8')) as Written;
  const run = async ({ event }: Written) => {
    const answer = await served.predict(event);
    if (answer.statusCode !== 200) throw new Error(answer.body);
    return answer.body;
  };
  let written: Written | undefined;
  let body: string | undefined;
  return {
    warmUp: async () => run(await read(warm)),
    prepare: async () => {
      written = await read(path);
    },
    call: async () => {
      body = await run(written as Written);
    },
    verify: async () => assertSame(predictionOf(body), [(written as Written).mean], 'the mean'),
    release: () => {
      written = undefined;
    },
    close: () => served.close(),
  };
};
