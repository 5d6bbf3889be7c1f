/** Records of the queue that name further models. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SQSEvent } from 'aws-lambda';
import { enqueueOf, newAttributes, replayAttributes } from '../../../lib/codecs/attributes.ts';
import { decodeDeadLetter, encodeDeadLetter, replayOf } from '../../../lib/codecs/dead-letter.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { modelUnavailable } from '../../../lib/contract/errors.ts';
import type { Model, Outcome } from '../../../lib/contract/values.ts';
import { serveEvent } from '../../../lib/pipeline/event.ts';
import { type NamedModels, unknownModel } from '../../../lib/pipeline/named-models.ts';
import type { Sink } from '../../../lib/pipeline/serve.ts';
import { submit } from '../../../lib/pipeline/submit.ts';
import { quietObservers } from '../../support/observers.ts';

const JOB = 'shop';

/** Answers with its version; half of the keys, those that begin with "c", go to its canary. */
function modelOf(version: string, hasCanary = false): Model {
  const one = (name: string): Model => ({
    use: (work) =>
      work({
        version: name,
        run: async (records) =>
          records.map(
            (): Outcome => ({
              ok: true,
              outputs: [{ name: 'v', dtype: 'string', shape: [1], data: [name] }],
            }),
          ),
        close: async () => undefined,
      }),
  });
  if (!hasCanary) return one(version);
  return {
    ...one(version),
    canary: { takes: (key) => key.startsWith('c'), model: one(`${version}-canary`) },
  };
}

interface Sent {
  readonly uri: string;
  readonly model?: string;
  readonly group?: string;
}

function eventOf(sent: readonly Sent[]): SQSEvent {
  const tensor = { dtype: 'float32' as const, shape: [1], data: Float32Array.of(1) };
  const Records = sent.map(({ uri, model, group }) => ({
    messageId: `m-${uri}`,
    attributes: { SentTimestamp: '0', ApproximateReceiveCount: '1', MessageGroupId: group },
    messageAttributes: model === undefined ? {} : { model: { stringValue: model } },
    body: encodeMessage(uri, new Map([['x', { kind: 'tensor', tensor }]])),
  }));
  return { Records } as unknown as SQSEvent;
}

const OWN_AWAY: Model = { use: () => Promise.reject(modelUnavailable('the own model is away')) };

async function serve(sent: readonly Sent[], own: Model = modelOf('own')) {
  const ends = new Map<string, string>();
  const sink: Sink = {
    async save(finished, version) {
      for (const { uri, outcome } of finished) ends.set(uri, outcome.ok ? version : outcome.error.code);
      return [];
    },
  };
  const finds: (number | undefined)[] = [];
  const further: NamedModels = {
    list: async () => [],
    async find(name, since) {
      finds.push(since);
      if (name === 'broken')
        return { model: OWN_AWAY, observers: quietObservers(), statistics: { of: () => ({}) } };
      if (!/^[a-z]$/.test(name)) throw unknownModel(name, JOB, ['a', 'b']);
      const model = modelOf(name, name === 'b');
      return { model, observers: quietObservers(), statistics: { of: () => ({}) } };
    },
  };
  const { batchItemFailures } = await serveEvent({
    model: own,
    jobName: JOB,
    further: async () => further,
    sink,
    running: { begin: () => async () => undefined },
    payloads: { resolve: async (bodies) => [...bodies] },
    observers: quietObservers(),
    now: () => 42,
  })(eventOf(sent));
  const again = batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  return { ends: Object.fromEntries(ends), again, finds };
}

test('each record is run by the model that it names, one that cannot open comes again alone, and one that is unknown fails alone', async () => {
  const { ends, again, finds } = await serve([
    { uri: '1' },
    { uri: '2', model: 'a' },
    { uri: '3', model: 'b' },
    { uri: 'c4', model: 'b' },
    { uri: '5', model: JOB },
    { uri: '6', model: '../a' },
    { uri: '7', model: 'broken' },
    { uri: '8', model: 'a' },
  ]);
  assert.deepEqual(ends, { 1: 'own', 2: 'a', 3: 'b', c4: 'b-canary', 5: 'own', 6: 'not_found', 8: 'a' });
  assert.deepEqual(again, ['m-7']);
  // A model that was pushed before the event began is found.
  assert.deepEqual([...new Set(finds)], [42]);
});

test('records of further models do not wait for the own model of the job, and its records come again', async () => {
  assert.deepEqual(await serve([{ uri: '1', model: 'a' }], OWN_AWAY), {
    ends: { 1: 'a' },
    again: [],
    finds: [42],
  });
  const both = await serve([{ uri: '1', model: 'a' }, { uri: '2' }], OWN_AWAY);
  assert.deepEqual(both.again, ['m-1', 'm-2']);
});

test('a message group that is the name of the model is not a tenant: a canary takes the record by its uri', async () => {
  const { ends } = await serve([
    { uri: 'c1', model: 'b', group: 'b' },
    { uri: '2', model: 'b', group: 'b' },
    { uri: '3', model: 'b', group: 'customer' },
  ]);
  assert.deepEqual(ends, { c1: 'b-canary', 2: 'b', 3: 'b-canary' });
});

test('the name of the model is in the message, is its group unless a tenant is, and comes through dead letters and replays', async () => {
  const groups: (string | undefined)[] = [];
  const sender = { send: async (_: string, __: unknown, group?: string) => void groups.push(group) };
  const record = { uri: 'u', identity: 'i', message: '{}' };
  await submit(sender, undefined, { ...record, model: 'a' });
  await submit(sender, undefined, { ...record, model: 'a', groupId: 'tenant' });
  await submit(sender, undefined, record);
  assert.deepEqual(groups, ['a', 'tenant', undefined]);
  const delivered = (attributes: ReturnType<typeof newAttributes>) => ({
    messageId: 'm',
    attributes: { SentTimestamp: '7' },
    messageAttributes: Object.fromEntries(
      Object.entries(attributes).map(([name, { StringValue }]) => [name, { stringValue: StringValue }]),
    ),
  });
  const enqueue = enqueueOf(delivered(newAttributes('i', undefined, { model: 'a' })));
  assert.equal(enqueue.model, 'a');
  const letter = encodeDeadLetter({ messageId: 'm', ...enqueue, attempts: 1, body: '{}' });
  const replayed = replayOf(decodeDeadLetter(letter));
  assert.equal(enqueueOf(delivered(replayAttributes(replayed))).model, 'a');
});
