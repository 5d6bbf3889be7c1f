/**
 * The questions of the upgrade test. keep.ts records the answers of the version that it keeps, upgrade.system.test.ts compares those
 * of the next. Servers are reset to the stored state before each question.
 */
import { isDeepStrictEqual } from 'node:util';
import type { SQSRecord } from 'aws-lambda';
import { indexKeyOf, JOB_NAMES, type Job, resultKeyOf } from './jobs.ts';
import type { Code } from './kept.ts';
import {
  digest,
  plainFailure,
  plainFields,
  plainOutcome,
  plainResponse,
  plainResult,
  plainValues,
} from './plain.ts';
import { DEAD_URIS, OTHER, RECORDS } from './records.ts';
import { recordsOf, type Stored, type StoredEvent, type StoredRequest } from './stored.ts';
import { dlq, release } from './today.ts';
import type { World } from './world.ts';

export interface Question {
  readonly name: string;
  /** Of the test: what is true when the answer equals that of the version before. */
  readonly title: string;
  readonly ask: (world: World, stored: Stored) => Promise<unknown>;
}

type Answers = Record<string, unknown>;
type Queue = InstanceType<Code['OutputQueue']>;

/** All uris of a job that Redis knows: those with a result and those with a state. */
function urisOf(stored: Stored, job: string): string[] {
  const prefixes = [resultKeyOf(job, ''), `cluster-serving-state_${job}:`];
  const uris = stored.redis.flatMap(({ key }) =>
    prefixes.flatMap((prefix) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : [])),
  );
  return [...new Set(uris)].sort();
}

async function eachUri(
  { output }: World,
  stored: Stored,
  ask: (queue: Queue, uri: string) => Promise<unknown>,
): Promise<Answers> {
  const answers: Answers = {};
  for (const job of JOB_NAMES) {
    await output(job, async (queue) => {
      for (const uri of urisOf(stored, job)) answers[`${job}: ${uri}`] = await ask(queue, uri);
    });
  }
  return answers;
}

const NOTHING = 'nothing';

/** Results are recorded once, by the question `query`; other questions record only what differs from it. */
function unlessEqual(queried: unknown, found: unknown): unknown {
  return isDeepStrictEqual(queried, found) ? 'as queried' : found;
}

async function unlessAs(queried: unknown, found: Promise<unknown>): Promise<unknown> {
  return unlessEqual(queried, await found);
}

/** The keys that an old Python client lists and reads as results. */
async function resultKeys({ redis }: World, job: string): Promise<string[]> {
  return (await redis.keys(resultKeyOf(job, '*'))).sort();
}

function eventOf(stored: Stored, name: string): StoredEvent {
  const event = stored.events.find((one) => one.name === name);
  if (!event) throw new Error(`no event ${JSON.stringify(name)} is stored`);
  return event;
}

function uriOf({ body }: SQSRecord): string | undefined {
  try {
    const { uri } = JSON.parse(body) as { uri?: unknown };
    return typeof uri === 'string' ? uri : undefined;
  } catch {
    return undefined;
  }
}

/** A result's fields in Redis, and its values as a client reads them. */
async function storedResult({ redis, output }: World, job: string, uri: string): Promise<unknown> {
  const key = resultKeyOf(job, uri);
  const type = await redis.type(key);
  if (type !== 'hash') return type;
  const fields = await redis.hgetall(key);
  const read = fields['status'] === 'succeeded' ? await output(job, (queue) => queue.query(uri)) : undefined;
  return { stored: plainFields(fields), read: plainValues(read) };
}

/** Delivers an event; returns the ids that failed, and the result that each uri has afterwards. */
async function delivered(world: World, event: StoredEvent): Promise<unknown> {
  const records = recordsOf(event);
  const failures = await world.functions[event.job as Job].deliver(event.function, records);
  const results: Answers = {};
  for (const uri of new Set(records.map(uriOf)))
    if (uri !== undefined) results[uri] = await storedResult(world, event.job, uri);
  return { failures, results };
}

async function requested({ functions }: World, request: StoredRequest): Promise<unknown> {
  return plainResponse(await functions[request.job as Job].request(request.function, request.event));
}

function requestOf(stored: Stored, name: string): StoredRequest {
  const request = stored.requests.find((one) => one.name === name);
  if (!request) throw new Error(`no request ${JSON.stringify(name)} is stored`);
  return request;
}

const model = ({ aws, bucket }: World, job: Job) => ({ s3: aws.s3, bucket, job });

export const QUESTIONS: readonly Question[] = [
  {
    name: 'query',
    title: 'query and status answer for every stored uri as before, and remove nothing',
    async ask(world, stored) {
      const answers = await eachUri(world, stored, async (queue, uri) => ({
        result: await plainOutcome(queue.query(uri)),
        status: await queue.status(uri).catch(plainFailure),
      }));
      return { answers, keys: await Promise.all(JOB_NAMES.map((job) => resultKeys(world, job))) };
    },
  },
  {
    name: 'wait',
    title: 'wait returns stored results at once',
    ask: (world, stored) =>
      eachUri(world, stored, async (queue, uri) => {
        const queried = await plainOutcome(queue.query(uri));
        return queried === NOTHING ? NOTHING : unlessAs(queried, plainOutcome(queue.wait(uri)));
      }),
  },
  {
    name: 'wait-for-message',
    title:
      'wait returns the result of a stored message once it has run, and times out on a record that does not finish',
    ask: (world, stored) =>
      world.output('line', async (queue) => {
        const waiting = plainOutcome(queue.wait('queued', { timeoutMs: 10_000 }));
        await delivered(world, eventOf(stored, 'queued'));
        const late = await queue.wait('running', { timeoutMs: 30 }).then(plainResult, (error) => {
          return (error as { code?: unknown }).code;
        });
        return { queued: await waiting, late, status: await queue.status('queued') };
      }),
  },
  {
    name: 'dequeue',
    title: 'dequeue returns every listed result once, and a cancelled uri stays cancelled',
    async ask(world, stored) {
      const answers: Answers = {};
      const queried = await eachUri(world, stored, (queue, uri) => plainOutcome(queue.query(uri)));
      for (const job of JOB_NAMES) {
        const taken = await world.output(job, (queue) => queue.dequeue());
        for (const [uri, result] of [...taken].sort(([a], [b]) => (a < b ? -1 : 1))) {
          const found = result instanceof Error ? plainFailure(result) : plainResult(result);
          answers[`${job}: ${uri}`] = unlessEqual(queried[`${job}: ${uri}`], found);
        }
        answers[`${job}, again`] = (await world.output(job, (queue) => queue.dequeue())).size;
        answers[`${job}, result keys left`] = await resultKeys(world, job);
        answers[`${job}, listed`] = await world.redis.zcard(indexKeyOf(job));
      }
      const statuses = await eachUri(world, stored, (queue, uri) => queue.status(uri).catch(plainFailure));
      return { answers, statuses };
    },
  },
  {
    name: 'take',
    title: 'queryAndDelete returns every stored result once',
    ask: (world, stored) =>
      eachUri(world, stored, async (queue, uri) => {
        const queried = await plainOutcome(queue.query(uri));
        const first = await unlessAs(queried, plainOutcome(queue.queryAndDelete(uri)));
        const second = await plainOutcome(queue.queryAndDelete(uri));
        return { first, second, status: await queue.status(uri).catch(plainFailure) };
      }),
  },
  {
    name: 'release',
    title: 'a result taken before the upgrade can be released whole, with the time to live it had left',
    async ask(world, stored) {
      const leaseKeys = async () => (await world.redis.keys('cluster-serving-held_*')).length;
      const before = await leaseKeys();
      const lease = { uri: 'taken', leaseId: stored.facts.leaseId, leftMs: 80_000_000 };
      await release(world.redisUrl, 'line', lease);
      const leftMs = await world.redis.pttl(resultKeyOf('line', 'taken'));
      const listed = await world.redis.zscore(indexKeyOf('line'), 'taken');
      return world.output('line', async (queue) => ({
        leases: [before, await leaseKeys()],
        fields: Object.keys(await world.redis.hgetall(resultKeyOf('line', 'taken'))).sort(),
        hours: Math.ceil(leftMs / 3_600_000),
        isListed: listed !== null,
        result: await plainOutcome(queue.query('taken')),
        dequeued: (await queue.dequeue()).has('taken'),
      }));
    },
  },
  {
    name: 'taken-message',
    title: 'a message whose result was taken before the upgrade produces no second result',
    ask: (world, stored) => delivered(world, eventOf(stored, 'taken, delivered again')),
  },
  {
    name: 'cancel',
    title: 'cancel decides by the stored state, and messages of cancelled uris produce no result',
    ask: (world, stored) =>
      world.output('line', async (queue) => {
        const answers: Answers = {};
        for (const uri of [
          'queued',
          'running',
          'dense',
          'bad shape',
          'dead',
          'cancelled',
          'never heard of',
        ]) {
          answers[uri] = { cancelled: await queue.cancel(uri), status: await queue.status(uri) };
        }
        for (const name of ['queued', 'cancelled', 'running, delivered again'])
          answers[`message ${name}`] = await delivered(world, eventOf(stored, name));
        return answers;
      }),
  },
  {
    name: 'announced',
    title: 'a uri of any state accepts a record',
    ask: (world) =>
      world.input('line', true, async (queue) => {
        const answers: Answers = {};
        for (const uri of ['queued', 'running', 'dense', 'cancelled', 'expired', 'unannounced', 'new'])
          for (const [what, inputs] of [
            ['another payload', OTHER],
            ['the same', RECORDS.dense],
          ] as const) {
            const outcome = await queue.enqueue(uri, inputs).then(() => 'accepted', plainCode);
            answers[`${uri}, ${what}`] = { outcome, sent: (await world.sent('line')).map(digest) };
          }
        return answers;
      }),
  },
  {
    name: 'messages',
    title: 'a client encodes a record as the same message, byte for byte',
    ask: (world) =>
      world.input('line', false, async (queue) => {
        const answers: Answers = {};
        for (const [name, inputs] of Object.entries(RECORDS)) {
          await queue.enqueue(name, inputs);
          answers[name] = await world.sent('line');
        }
        return answers;
      }),
  },
  {
    name: 'batch',
    title: 'each stored message in flight gets the same result or failure, or returns to the queue',
    async ask(world, stored) {
      const answers: Answers = {};
      for (const event of stored.events) {
        if (event.function !== 'batch') continue;
        answers[`${event.job}: ${event.name}`] = await delivered(world, event);
      }
      return answers;
    },
  },
  {
    name: 'requests',
    title: 'each stored HTTPS request gets the same response',
    async ask(world, stored) {
      const answers: Answers = {};
      for (const request of stored.requests) {
        if (request.name === 'limited' || request.function === 'status') continue;
        const answer = await requested(world, request);
        const sent = request.event.requestContext.http.method === 'POST' ? await world.sent('line') : [];
        answers[`${request.job}: ${request.name}`] = sent.length > 0 ? { answer, sent } : answer;
      }
      return answers;
    },
  },
  {
    name: 'metrics',
    title: 'GET /metrics reports what was measured before the upgrade, GET /ready the stored model',
    async ask(world, stored) {
      const metrics = await world.functions.line.request('status', requestOf(stored, 'metrics').event);
      return {
        // The rate depends on when the question is asked.
        metrics: JSON.parse(metrics.body ?? '', (name, value: unknown) =>
          name === 'meanRate' ? undefined : value,
        ) as unknown,
        ready: await requested(world, requestOf(stored, 'ready')),
        welcome: await requested(world, requestOf(stored, 'welcome')),
      };
    },
  },
  {
    name: 'rate-limit',
    title: 'the stored token bucket still limits POST /predict',
    async ask(world, stored) {
      const { functions } = world;
      const { statusCode, headers } = await functions.top.request(
        'predict',
        requestOf(stored, 'limited').event,
      );
      const seconds = Number(headers?.['retry-after']);
      // It was 20 seconds when the bucket was stored.
      return { statusCode, retryAfterIsRight: seconds > 10 && seconds <= 20 };
    },
  },
  {
    name: 'dead-letter',
    title: 'messages that ran out of deliveries during the upgrade fail their uris and are archived in S3',
    async ask(world, stored) {
      const answers: Answers = {};
      for (const event of stored.events)
        if (event.function === 'dead-letter') answers[event.name] = await delivered(world, event);
      return { answers, ...(await deadLetters(world)) };
    },
  },
  {
    name: 'dead-letters',
    title: 'dlq list and show describe the dead letters as before',
    ask: deadLetters,
  },
  {
    name: 'replay',
    title: 'dlq replay stores results for the dead letters that work now, and leaves the others',
    async ask(world) {
      const replayed = await dlq(world.deadLetters('line'), 'replay', '--all');
      const answers: Answers = {};
      await world.output('line', async (queue) => {
        for (const uri of DEAD_URIS) {
          const status = await queue.status(uri);
          answers[uri] = { status, result: await storedResult(world, 'line', uri) };
        }
      });
      return { replayed, left: (await listDeadLetters(world)).map(({ id }) => id), answers };
    },
  },
  {
    name: 'model',
    title:
      'the stored model versions are listed, and after a rollback the next environment serves the previous one',
    async ask(world, stored) {
      const { code } = world;
      const predicted = async (functions: World['functions'][Job]) =>
        plainResponse(await functions.request('predict', requestOf(stored, 'predict').event));
      const listed = (await code.listVersions(model(world, 'line'))).sort((a, b) =>
        a.version < b.version ? -1 : 1,
      );
      const before = await predicted(world.functions.line);
      const version = await code.rollBack(model(world, 'line'));
      const after = await predicted(await world.startFunctions('line'));
      const pointer = (await code.listVersions(model(world, 'line')))
        .filter(({ serves }) => serves)
        .map((one) => one.version);
      return { listed, before, version, pointer, after };
    },
  },
];

async function listDeadLetters(world: World) {
  const { deadLetters: list } = (await dlq(world.deadLetters('line'), 'list')) as {
    readonly deadLetters: readonly { readonly id: string; readonly readable?: boolean }[];
  };
  return list;
}

/** What dlq says of them, without the time of the archive. */
async function deadLetters(world: World) {
  const shown: unknown[] = [];
  const list = await listDeadLetters(world);
  for (const { id, readable = true } of list)
    if (readable) shown.push(await dlq(world.deadLetters('line'), 'show', id));
  return { listed: list.map((one) => ({ ...one, archivedAt: undefined })), shown };
}

function plainCode(error: unknown): string {
  return String((error as { code?: unknown }).code);
}
