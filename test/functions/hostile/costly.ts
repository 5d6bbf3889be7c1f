/**
 * Runs in a separate process with a small heap: sends one costly body after the other through the real handlers and prints what
 * each cost (see costly.hostile.system.test.ts). Processor time is that of all threads, garbage collection included.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeMessage } from '../../../lib/codecs/message.ts';
import { openNumbers } from '../../../lib/codecs/numbers/parse.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { peakMemory } from '../../../lib/inference/peak-memory.ts';
import { readInfer } from '../../../local/grpc/request.ts';
import { type Endpoint, predictEndpoint, predictionsEndpoint } from './endpoints.ts';
import { GOOD, modelBytes } from './models.ts';
import { COSTLY, type Target } from './tables/costly.ts';

export interface Cost {
  readonly name: string;
  readonly status: number;
  readonly answer: string;
  /** Processor time, and that of JSON.parse of 6 MiB of numbers. */
  readonly ms: number;
  readonly parseMs: number;
  readonly grownMiB: number;
  /** Status of the next good request. */
  readonly next: number;
}

/** A cost over this is measured again: other processes of the machine may have taken the caches. */
const SUSPECT = 6;
const TRIES = 3;

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The median of five. */
function parseTime(): number {
  const text = `[${'1,'.repeat(3 * 1024 * 1024 - 2)}1]`;
  const times = Array.from({ length: 5 }, () => {
    const start = processorMs();
    JSON.parse(text);
    return processorMs() - start;
  });
  return times.sort((a, b) => a - b)[2] as number;
}

/** A reader without a route, as an endpoint. */
function reader(read: (body: string | Uint8Array) => unknown): Endpoint {
  return async (body) => {
    const refused = (error: ServingError) => {
      const { status, message, code } = error;
      return { status, headers: {}, body: { error: message }, error: message, code };
    };
    try {
      const result = read(body);
      return result instanceof ServingError ? refused(result) : { status: 200, headers: {}, body: {} };
    } catch (error) {
      return refused(ServingError.from(error));
    }
  };
}

async function endpoints(folder: string): Promise<Record<Target, Endpoint>> {
  const file = join(folder, 'pair.onnx');
  await writeFile(file, modelBytes('pair'));
  const settings = { threads: 1, batchSize: 32, inputAlreadyBatched: false, image: {} };
  return {
    predict: predictEndpoint(await openOnnx(file, 'test', settings)),
    predictions: predictionsEndpoint().endpoint,
    queue: reader((body) => decodeMessage(String(body)).inputs),
    grpc: reader((body) => readInfer(body as Uint8Array)),
  };
}

const maxMiB = () => peakMemory() / 1024 ** 2;

async function main(folder: string): Promise<void> {
  await openNumbers();
  const to = await endpoints(folder);
  const good = async () => (await to.predict(`{"instances":[${GOOD.pair}]}`)).status;
  // Loading and compiling the handlers is not counted.
  await good();
  for (const { target, path, headers, status } of COSTLY) {
    if (status !== 207)
      await to[target]('{}', {
        ...(path && { path }),
        headers: { ...headers, 'content-encoding': 'identity' },
      });
  }
  const parseMs = parseTime();
  for (const { name, target, path, headers, body } of COSTLY) {
    const given = body();
    // As the gateway hands over: text as text.
    const sent = typeof given === 'string' ? Buffer.from(given).toString() : given;
    const before = maxMiB();
    let ms = Number.POSITIVE_INFINITY;
    let answer = { status: 0, body: {} as object };
    for (let tries = 0; tries < TRIES && ms > SUSPECT * parseMs; tries++) {
      const start = processorMs();
      answer = await to[target](sent, { ...(path && { path }), ...(headers && { headers }) });
      ms = Math.min(ms, processorMs() - start);
    }
    const grownMiB = maxMiB() - before;
    const { status, body: answered } = answer;
    const cost: Cost = {
      name,
      status,
      answer: JSON.stringify(answered).slice(0, 500),
      ms,
      parseMs,
      grownMiB,
      next: await good(),
    };
    console.log(JSON.stringify(cost));
  }
}

await main(process.argv[2] ?? '');
