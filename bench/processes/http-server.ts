/**
 * Our handler behind the local gateway, with the model in a process of its own, on one core as the peers are; and the rate
 * of raw runs, which is measured on the servers' core while nothing else is asked.
 */

import { CLOCK } from '../../lib/compose/clock.ts';
import type { openOnnx } from '../../lib/compose/onnx.ts';
import { openPooledOnnx } from '../../lib/compose/onnx-pool.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { startGateway } from '../../local/gateway/gateway.ts';
import type { BenchModel } from '../models.ts';
import { QUIET } from '../quiet.ts';
import { openRaw, type RawModel } from '../raw.ts';
import { serve } from '../served.ts';
import { serveParent } from './child.ts';

const RUN_LIMIT_MS = 20_000;

let raw: RawModel | undefined;
let closeGateway: () => Promise<void> = async () => undefined;

interface GatewayOptions {
  readonly model: BenchModel;
  readonly redisUrl: string;
  readonly processes?: number;
  readonly threads?: number;
}

function onCrash(reason: string): void {
  throw new Error(`the process of the model ended: ${reason}`);
}

const methods = {
  async openRaw(model: BenchModel) {
    raw = await openRaw(model);
  },

  /** @returns the port */
  async openGateway({ model, redisUrl, processes, threads }: GatewayOptions) {
    const { batchSize } = DEFAULT_JOB;
    const pool = {
      processes: processes ?? DEFAULT_JOB.processes,
      limitMs: RUN_LIMIT_MS,
      clock: CLOCK,
      onCrash,
    };
    const openRunner: typeof openOnnx = (...version) => openPooledOnnx(...version, pool);
    const served = serve(model, redisUrl, { batchSize, threads, openRunner });
    const handler = served.predict;
    const route = { method: 'POST', path: '/predict', functionName: 'predict', handler } as const;
    const gateway = await startGateway({ port: 0, routes: [route], log: QUIET });
    closeGateway = async () => {
      await gateway.close();
      await served.close();
    };
    return gateway.port;
  },

  /** @returns runs a second, the batches in turns */
  async rawRate({
    batches,
    ms,
  }: {
    readonly batches: readonly (readonly Float32Array[])[];
    readonly ms: number;
  }) {
    const model = raw as RawModel;
    const feeds = batches.map((rows) => model.feed(rows));
    const begin = performance.now();
    let runs = 0;
    let spentMs = 0;
    for (; spentMs < ms; spentMs = performance.now() - begin)
      await model.run(elementAt(feeds, runs++ % feeds.length, 'feeds'));
    return (runs * 1000) / spentMs;
  },
};

export type ServerProcess = typeof methods;

if (import.meta.main) {
  serveParent(methods, async () => {
    await closeGateway();
    await raw?.close();
  });
}
