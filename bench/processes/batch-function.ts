/**
 * In: records, as texts of SQS events. Out: how long the batch function takes for all of them, on the servers' core.
 * Trap: on Lambda an event arrives as text and the runtime parses it in this process; so the parsing is timed too.
 */
import type { SQSEvent } from 'aws-lambda';
import { type BenchModel, rowOfUri } from '../models.ts';
import { queueEvent, type Served, serve } from '../served.ts';
import { serveParent } from './child.ts';

export type BatchQuestion =
  | {
      readonly kind: 'open';
      readonly model: BenchModel;
      readonly redisUrl: string;
      readonly batchSize: number;
      /** Bodies of messages that take turns, each with `uri` where its uri will stand. */
      readonly bodies: readonly string[];
      readonly uri: string;
    }
  | {
      readonly kind: 'drain';
      readonly records: number;
      readonly eventRecords: number;
      /** Begins the uris. */
      readonly prefix: string;
    };

/** Zeros for what is not timed. */
export interface BatchAnswer {
  readonly ms: number;
  /** Processor time of this process, all its threads. */
  readonly cpuMs: number;
}

/** The texts of all events: each record has a uri of its own, its body is told by it. */
function eventTexts(
  { bodies, uri }: Extract<BatchQuestion, { kind: 'open' }>,
  { records, eventRecords, prefix }: Extract<BatchQuestion, { kind: 'drain' }>,
): string[] {
  const all = Array.from({ length: records }, (_, i) => {
    const own = `${prefix}-${i}`;
    return (bodies[rowOfUri(own, bodies.length)] as string).replace(uri, own);
  });
  return Array.from({ length: Math.ceil(records / eventRecords) }, (_, i) =>
    JSON.stringify(queueEvent(all.slice(i * eventRecords, (i + 1) * eventRecords))),
  );
}

async function drain(served: Served, texts: readonly string[]): Promise<BatchAnswer> {
  const begin = performance.now();
  const cpuBegin = process.cpuUsage();
  for (const text of texts) {
    const { batchItemFailures } = await served.batch(JSON.parse(text) as SQSEvent);
    if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} records came back`);
  }
  const { user, system } = process.cpuUsage(cpuBegin);
  return { ms: performance.now() - begin, cpuMs: (user + system) / 1000 };
}

if (process.send) {
  let served: Served | undefined;
  let opened: Extract<BatchQuestion, { kind: 'open' }> | undefined;
  serveParent(
    async (asked): Promise<BatchAnswer> => {
      const question = asked as BatchQuestion;
      if (question.kind === 'open') {
        opened = question;
        served = serve(question.model, question.redisUrl, question.batchSize);
        return { ms: 0, cpuMs: 0 };
      }
      if (!served || !opened) throw new Error('not opened');
      return drain(served, eventTexts(opened, question));
    },
    async () => served?.close(),
  );
}
