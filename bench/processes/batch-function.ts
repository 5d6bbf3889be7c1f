/**
 * The batch function in a process of its own on the servers' core, given events as Lambda gives them. On Lambda an event
 * arrives as text and the runtime parses it in the function's process, so the parsing is timed too.
 */

import { encodeMessage } from '../../lib/codecs/message.ts';
import { elementAt } from '../../lib/contract/present.ts';
import { toInputs } from '../../sdk/inputs.ts';
import { OutputQueue } from '../../sdk/output-queue.ts';
import { URI } from '../messages.ts';
import { checkResults, type QueueWork } from '../queue-work.ts';
import { JOB, queueEvent, type Served, serve } from '../served.ts';
import { serveParent } from './child.ts';

interface Opened {
  readonly served: Served;
  readonly work: QueueWork;
  readonly redisUrl: string;
  /** Messages with URI where a uri will stand; they take turns. */
  readonly bodies: readonly string[];
}

let opened: Opened | undefined;
let drains = 0;

const methods = {
  async open({ work, redisUrl, batchSize }: Pick<Opened, 'work' | 'redisUrl'> & { batchSize: number }) {
    const messageOf = async (inputs: QueueWork['inputs'][number]) =>
      encodeMessage(URI, await toInputs(inputs));
    const bodies = await Promise.all(work.inputs.map(messageOf));
    opened = { served: serve(work.model, redisUrl, { batchSize }), work, redisUrl, bodies };
  },

  /** Every drain of every process has new uris, because a message whose result was taken gets no other one. @throws when a result is missing or wrong */
  async drain({ records, eventRecords }: { readonly records: number; readonly eventRecords: number }) {
    const { served, bodies, ...rest } = opened as Opened;
    const prefix = `drain-${process.pid}-${drains++}`;
    const all = Array.from({ length: records }, (_, i) =>
      elementAt(bodies, i % bodies.length, 'bodies').replace(URI, `${prefix}-${i}`),
    );
    const texts = Array.from({ length: Math.ceil(records / eventRecords) }, (_, i) =>
      JSON.stringify(queueEvent(all.slice(i * eventRecords, (i + 1) * eventRecords))),
    );
    const begin = performance.now();
    const cpuBegin = process.cpuUsage();
    for (const text of texts) {
      const { batchItemFailures } = await served.batch(JSON.parse(text));
      if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} records came back`);
    }
    const { user, system } = process.cpuUsage(cpuBegin);
    const took = { ms: performance.now() - begin, cpuMs: (user + system) / 1000 };
    const results = new OutputQueue({ name: JOB, url: rest.redisUrl });
    await checkResults(results, rest.work.answers, records);
    await results.close();
    return took;
  },
};

export type BatchProcess = typeof methods;

if (import.meta.main) serveParent(methods, async () => opened?.served.close());
