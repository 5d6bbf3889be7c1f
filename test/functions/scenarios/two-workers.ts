/**
 * F5: the visibility timeout ends while a worker runs, and a second worker gets the same message. Afterwards every
 * field of the stored result comes from one worker. To tell them apart, each worker has its own model version with
 * its own numbers, output names and number of outputs.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Redis } from 'ioredis';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { resultKey } from '../../../lib/contract/names.ts';
import type { NamedTensor, Outcome, Runner } from '../../../lib/contract/values.ts';
import { serializeResult } from '../../../lib/results/fields.ts';
import { toInputs } from '../../../sdk/inputs.ts';
import { sqsRecord } from '../../support/faults/events.ts';
import { record } from '../../support/faults/model.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { type Random, seeded, shuffled, whole } from '../../support/faults/seeds.ts';
import { JOB, openWorker } from '../../support/faults/service.ts';
import { redisUrl } from '../../support/redis.ts';

const RECORDS = 10;

/** Outcomes that carry their maker in every field: version, names, dtype, count. */
function outcomeOf(version: string, outputs: number): Outcome {
  if (outputs === 0) return { ok: false, error: new ServingError('model_failed', `by ${version}`) };
  const made = Array.from({ length: outputs }, (_, i): NamedTensor => {
    const name = `${version}-${i}`;
    if (outputs === 2) return { name, dtype: 'int64', shape: [1], data: BigInt64Array.of(2n) };
    return { name, dtype: 'float32', shape: [1], data: Float32Array.of(outputs) };
  });
  return { ok: true, outputs: made };
}

function runnerOf(version: string, outputs: number, pauseMs: () => number): Runner {
  return {
    version,
    run: async (records) => {
      await new Promise((resolve) => setTimeout(resolve, pauseMs()));
      return records.map(() => outcomeOf(version, outputs));
    },
    close: async () => undefined,
  };
}

export async function twoWorkers(t: TestContext, { rounds }: { readonly rounds: number }): Promise<void> {
  quietLog(t);
  const url = await redisUrl(t);
  const redis = new Redis(url);
  t.after(() => redis.disconnect());
  const random = seeded(5);
  const workers = [];
  const expected = new Map<string, Record<string, string>>();
  // A failure has the field `error`, an int64 result `exact`, a float result neither.
  for (const [i, outputs] of [0, 1, 2, 3].entries()) {
    const version = `v${i}`;
    const runner = runnerOf(version, outputs, () => whole(random, 0, 3));
    workers.push(await openWorker(t, { redisUrl: url, runner }));
    const fields = Object.entries(serializeResult(outcomeOf(version, outputs), undefined));
    expected.set(version, Object.fromEntries(fields.filter(([, text]) => text !== '')));
  }
  const winners = new Set<string>();
  for (let round = 0; round < rounds; round++) {
    const uris = Array.from({ length: RECORDS }, (_, i) => `r${round}-${i}`);
    const events = shuffled(random, workers).slice(0, 2);
    await Promise.all(events.map(async (worker) => worker(await eventOf(uris, random))));
    for (const uri of uris) {
      const { model = '', finishedAt, identity, ...fields } = await redis.hgetall(resultKey(JOB, uri));
      winners.add(model);
      assert.equal(identity, uri);
      assert.ok(Number(finishedAt) > 0, uri);
      if (fields['status'] === 'failed') {
        assert.deepEqual(fields, expected.get('v0'), uri);
        assert.equal(model, 'v0');
      } else assert.deepEqual(fields, expected.get(model), `${uri} of ${model}`);
    }
  }
  assert.equal(winners.size, 4, 'every worker was first somewhere');
}

async function eventOf(uris: readonly string[], random: Random) {
  const inputs = await toInputs(record(1));
  return { Records: shuffled(random, uris).map((uri) => sqsRecord(uri, encodeMessage(uri, inputs))) };
}
