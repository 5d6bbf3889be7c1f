/**
 * The time that a canary adds to a request: one hash of its key, and the counts of both sides, which are delivered to Redis at most once a
 * second. The canary is the same model, opened once more, so that what differs is what choosing and counting take.
 */
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { elementAt } from '../../lib/contract/present.ts';
import { addedRows } from '../added.ts';
import type { Bench, Scenario } from '../bench.ts';
import { type Contender, interleave } from '../measure.ts';
import { randomRows } from '../models.ts';
import type { Row } from '../report.ts';
import { CONTEXT, nestedNumbers, predictEvent, type Served, serve } from '../served.ts';

const REPEAT_MS = 600;
const INPUTS = 16;
const SHARE = 0.05;
const MB = 1024 * 1024;
const NAME = 'MLP, 64 floats as JSON, a canary of 5 %';

export const canary: Scenario = {
  name: 'canary',
  about: 'time that a canary adds to a request of POST /predict, and its memory',
  run: async (bench) => (bench.wants(NAME) ? measureCanary(bench) : []),
};

async function measureCanary(bench: Bench): Promise<Row[]> {
  const model = await bench.model('mlp');
  const { url } = await bench.redis();
  const [off, on, again] = [undefined, SHARE, undefined].map((canaryShare) =>
    serve(model, url, { batchSize: 1, canaryShare }),
  );
  const events = randomRows(31, model.rowShape, INPUTS).map((row) =>
    predictEvent(JSON.stringify({ instances: [{ [model.input]: nestedNumbers(row, model.rowShape) }] })),
  );
  const seen = new Set<string>();
  try {
    await on?.model.ready();
    const before = process.memoryUsage.rss();
    await on?.model.refresh();
    const memory = (process.memoryUsage.rss() - before) / MB;
    const contenders = [
      contender('off', off, events),
      contender('on', on, events, seen),
      contender('off again', again, events),
    ];
    const measured = await interleave(contenders, {
      repeats: bench.repeats,
      repeatMs: bench.ms(REPEAT_MS),
    });
    if (seen.size !== 2) throw new Error(`${seen.size} versions answered`);
    const [first, second, third] = [0, 1, 2].map((i) => elementAt(measured, i, 'measured'));
    if (!first || !second || !third) throw new Error('three were measured');
    const note = `opening it took ${memory.toFixed(1)} MB of memory; its file has ${(model.bytes / MB).toFixed(1)} MB`;
    return addedRows('canary', NAME, { off: first, on: second, control: third }, note);
  } finally {
    for (const served of [off, on, again]) await served?.close();
  }
}

let requests = 0;

/** @param seen the versions that answered */
function contender(
  name: string,
  served: Served | undefined,
  events: readonly APIGatewayProxyEventV2[],
  seen?: Set<string>,
): Contender {
  return {
    name,
    async call(index) {
      const event = elementAt(events, index % events.length, 'events');
      const answer = await served?.predict(event, { ...CONTEXT, awsRequestId: `request-${requests++}` });
      seen?.add(String(answer?.headers?.['model-version']));
      await served?.observers.flush?.({ leftMs: CONTEXT.getRemainingTimeInMillis });
      return answer;
    },
    verify: (answers) => {
      if (!answers.every((answer) => Object(answer).statusCode === 200))
        throw new Error(`${name}: not answered`);
    },
  };
}
