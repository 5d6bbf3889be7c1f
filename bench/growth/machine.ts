/** Curves of what one machine or function holds: models, processes of a model, and messages that wait. */

import { readFile } from 'node:fs/promises';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { encodeMessage } from '../../lib/codecs/message.ts';
import { CLOCK } from '../../lib/compose/clock.ts';
import { openPooledOnnx } from '../../lib/compose/onnx-pool.ts';
import { elementAt, present } from '../../lib/contract/present.ts';
import { openSqs, QueueSender } from '../../lib/queue/sender.ts';
import { liveBytes } from '../memory.ts';
import { inputsOf } from '../messages.ts';
import { type BenchModel, randomRows } from '../models.ts';
import { drainQueue } from '../processes/poller.ts';
import { familyBytes } from '../processor.ts';
import { answersFor, assertSame, floatsOf } from '../raw.ts';
import { samplePoint, type Work } from '../sample.ts';
import { CONTEXT, nestedNumbers, predictEvent, predictionOf, serve } from '../served.ts';
import { type Curve, METRICS, type Prepared, sampled, TIME } from './curve.ts';
import { growingModel } from './models.ts';

const FLAT = 0.25;
const AT_ONCE = 64;
const [, , PEAK] = METRICS as [unknown, unknown, (typeof METRICS)[number]];

/** One row of a model, and its answer. */
async function prepareRow(model: BenchModel): Promise<Prepared> {
  const row = elementAt(randomRows(63, model.rowShape, 1), 0, 'rows');
  const input = JSON.stringify({ instances: [{ [model.input]: nestedNumbers(row, model.rowShape) }] });
  return { model, input, warm: '', expected: { row, answer: (await answersFor(model, [row]))[0] ?? [] } };
}

const models: Curve = {
  name: 'models',
  xLabel: 'models in one process',
  series: { 'a request to each': [1, 4, 16, 32, 64] },
  // Hardly any weights: those of many models do not fit into a processor's cache, and that growth is not ours.
  prepare: async (_, __, bench) =>
    prepareRow({ ...(await growingModel('mean', 1, bench.folder)), rowShape: [64] }),
  measure: sampled(async ({ x, model, redisUrl, expected = {}, input }) => {
    const event = predictEvent(await readFile(input, 'utf8'));
    const served = Array.from({ length: x }, () => serve(model as BenchModel, redisUrl, { batchSize: 1 }));
    return {
      // The first model is open when the memory of the others is measured.
      input: async (warm) => Array<APIGatewayProxyEventV2>(warm ? 1 : x).fill(event),
      async call(events) {
        const bodies: (string | undefined)[] = [];
        for (const [i, each] of events.entries())
          bodies.push((await served[i]?.predict(each, CONTEXT))?.body);
        return bodies;
      },
      check: (bodies) => {
        for (const body of bodies) assertSame(predictionOf(body), expected['answer'] ?? [], 'models');
      },
      close: () => Promise.all(served.map((each) => each.close())),
    } satisfies Work<APIGatewayProxyEventV2[], (string | undefined)[]>;
  }),
};

const workers: Curve = {
  name: 'workers',
  xLabel: 'processes of a model',
  series: { [`${AT_ONCE} requests at once`]: [1, 2, 4, 8, 16] },
  // The work is the same: from as many processes as cores on, more of them may not take longer.
  metrics: [
    { ...TIME, atMost: FLAT },
    { ...PEAK, label: 'memory of all processes' },
  ],
  prepare: async (_, __, bench) => prepareRow(await bench.model('convnet')),
  async measure({ x, expected = {}, timedMs, ...point }) {
    const model = present(point.model, 'model');
    const settings = { threads: 1, batchSize: 1, inputAlreadyBatched: false, image: {} };
    const onCrash = (reason: string) => {
      throw new Error(reason);
    };
    const pool = { processes: x, limitMs: 20_000, clock: CLOCK, onCrash };
    const runner = await openPooledOnnx(model.path, 'v', settings, pool);
    const inputs = inputsOf(model, Float32Array.from(expected['row'] ?? []));
    const work: Omit<Work, 'close'> = {
      input: async () => Array.from({ length: AT_ONCE }, () => inputs),
      call: (all) => Promise.all((all as (typeof inputs)[]).map(async (one) => (await runner.run([one]))[0])),
      check: (outcomes) => {
        for (const outcome of outcomes as Awaited<ReturnType<typeof runner.run>>)
          assertSame(outcome.ok ? floatsOf(outcome.outputs[0]) : [], expected['answer'] ?? [], 'workers');
      },
    };
    const sample = await samplePoint(work, timedMs);
    const peakBytes = familyBytes(process.pid);
    await runner.close();
    return { ...sample, peakBytes };
  },
};

const depth: Curve = {
  name: 'depth',
  xLabel: 'messages in the queue',
  series: { drained: [500, 2_000, 8_000] },
  metrics: [...METRICS.slice(0, 2), { ...PEAK, label: 'held memory', atMost: FLAT }],
  async prepare(x, _, bench) {
    const aws = await bench.aws();
    const { url } = await aws.createQueue({ name: `depth-${x}`, visibilitySeconds: 60 });
    return { model: await bench.model('mlp'), input: '', warm: '', expected: { [url]: [] } };
  },
  async measure({ x, redisUrl, endpoint, expected = {}, ...point }) {
    const model = present(point.model, 'model');
    const [queueUrl = ''] = Object.keys(expected);
    const inputs = inputsOf(model, elementAt(randomRows(64, model.rowShape, 1), 0, 'rows'));
    const sqs = openSqs({ endpoint, region: 'local' });
    const sender = new QueueSender(sqs, { queueUrl });
    const uris = Array.from({ length: x }, (_, i) => `${process.pid}-${i}`);
    for (let at = 0; at < x; at += 500)
      await Promise.all(uris.slice(at, at + 500).map((uri) => sender.send(encodeMessage(uri, inputs))));
    sqs.destroy();
    const before = await liveBytes();
    const cpuBegin = process.cpuUsage();
    const begin = performance.now();
    const held = await drainQueue({ model, redisUrl, queueUrl, endpoint, records: x });
    const { user, system } = process.cpuUsage(cpuBegin);
    const ms = performance.now() - begin;
    return { ms, cpuMs: (user + system) / 1000, peakBytes: Math.max(0, held.liveBytes - before) };
  },
};

export const MACHINE_CURVES: readonly Curve[] = [models, workers, depth];
