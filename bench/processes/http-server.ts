/**
 * In: which server, and a model. Out: it, in a process of its own as the peers are, and the rate of raw runs in it.
 * Trap: this process measures raw on the server's core, so it must do so while nobody calls.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startGateway } from '../../local/gateway/gateway.ts';
import type { BenchModel } from '../models.ts';
import { QUIET } from '../quiet.ts';
import { openRaw, type RawModel } from '../raw.ts';
import { serve } from '../served.ts';
import { serveParent } from './child.ts';

export type ServerQuestion =
  | {
      readonly kind: 'gateway';
      readonly model: BenchModel;
      readonly redisUrl: string;
      readonly batchSize: number;
    }
  | { readonly kind: 'bare'; readonly model: BenchModel }
  /** Runs of raw for so long, the batches in turns. */
  | { readonly kind: 'raw'; readonly batches: readonly (readonly Float32Array[])[]; readonly ms: number };

/** A port, or runs a second. */
export type ServerAnswer = number;

interface Opened {
  readonly raw: RawModel;
  close(): Promise<void>;
}

type OpenServer = readonly [port: number, close: () => Promise<void>];

async function openGateway(model: BenchModel, redisUrl: string, batchSize: number): Promise<OpenServer> {
  const served = serve(model, redisUrl, batchSize);
  const gateway = await startGateway({
    port: 0,
    routes: [{ method: 'POST', path: '/predict', functionName: 'predict', handler: served.predictInLine }],
    log: QUIET,
  });
  const close = async () => {
    await gateway.close();
    await served.close();
  };
  return [gateway.port, close];
}

/** What a person writes in ten lines: no limits, no checks, no errors, no shapes. */
async function openBare(model: BenchModel, raw: RawModel): Promise<OpenServer> {
  const predict = async (body: string) => {
    const { instances } = JSON.parse(body) as { instances: Record<string, number[]>[] };
    const rows = instances.map((each) =>
      Float32Array.from((each[model.input] ?? []).flat(Number.POSITIVE_INFINITY)),
    );
    const scores = await raw.run(raw.feed(rows));
    const width = scores.length / rows.length;
    return JSON.stringify({
      predictions: rows.map((_, i) => Array.from(scores.subarray(i * width, (i + 1) * width))),
    });
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      predict(Buffer.concat(chunks).toString()).then(
        (text) =>
          response
            .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
            .end(text),
        (error: unknown) => response.destroy(error as Error),
      );
    });
  });
  const port = await listen(server);
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return [port, close];
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: 0, host: '127.0.0.1' }, () => resolve((server.address() as AddressInfo).port));
  });
}

async function rawRate(
  raw: RawModel,
  batches: readonly (readonly Float32Array[])[],
  ms: number,
): Promise<number> {
  const feeds = batches.map((rows) => raw.feed(rows));
  const begin = performance.now();
  let runs = 0;
  let spentMs = 0;
  for (; spentMs < ms; spentMs = performance.now() - begin) {
    await raw.run(feeds[runs++ % feeds.length] as (typeof feeds)[number]);
  }
  return (runs * 1000) / spentMs;
}

if (process.send) {
  let opened: Opened | undefined;
  serveParent(
    async (asked): Promise<ServerAnswer> => {
      const question = asked as ServerQuestion;
      if (question.kind === 'raw') {
        if (!opened) throw new Error('not opened');
        return rawRate(opened.raw, question.batches, question.ms);
      }
      const raw = await openRaw(question.model);
      const [port, close] =
        question.kind === 'bare'
          ? await openBare(question.model, raw)
          : await openGateway(question.model, question.redisUrl, question.batchSize);
      opened = { raw, close };
      return port;
    },
    async () => {
      await opened?.close();
      await opened?.raw.close();
    },
  );
}
