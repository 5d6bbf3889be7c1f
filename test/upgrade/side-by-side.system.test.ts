/**
 * A deployment replaces environments one by one, so that functions and clients of two versions share a queue, Redis and a
 * bucket for a while. Here `old` is the previous landed version, as it kept itself (keep.ts), and `new` is today's code.
 */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { SQSRecord } from 'aws-lambda';
import { Redis } from 'ioredis';
import type { Fetch, Result, ServingError } from '../../sdk/index.ts';
import { writePng } from '../support/png.ts';
import { until } from '../support/until.ts';
import * as today from './code.ts';
import type { FunctionEnvironment } from './function-environment.ts';
import { type Code, openKeptCode, readKept } from './kept.ts';
import { plainFailure, plainResult, plainValues } from './plain.ts';
import { RECORDS, type RecordInputs } from './records.ts';
import { openInput, openOutput, openServers, type Servers, startFunctions } from './servers.ts';

const JOB = 'line';
const CONFIG = 'jobName: line\nmodelRefreshSeconds: 1\n';
const RECORDS_SENT = 300;
const MiB = 1024 * 1024;
/** Nothing is sent there: see fetchFrom. */
const API = 'https://api.example.com';

/** The clients and functions of one version. */
interface Side {
  readonly name: 'old' | 'new';
  readonly code: Code;
  readonly functions: FunctionEnvironment;
  /** Announces nothing, as a client without access to Redis. */
  readonly input: InstanceType<Code['InputQueue']>;
  readonly announcing: InstanceType<Code['InputQueue']>;
  readonly output: InstanceType<Code['OutputQueue']>;
}

let servers: Servers;
let sides: readonly [old: Side, now: Side];
/** Folders of the model's versions: y is 2x + 1, 3x + 1, 4x + 1. */
let models: readonly string[];

async function openSide(name: Side['name'], code: Code): Promise<Side> {
  const job = { name: JOB, config: CONFIG, load: ['batch', 'predictions', 'predict'] } as const;
  const functions = await startFunctions(code, servers, job);
  const input = openInput(code, servers, JOB, false);
  const announcing = openInput(code, servers, JOB, true);
  const output = openOutput(code, servers, JOB);
  servers.onClose(() => Promise.all([input.close(), announcing.close(), output.close()]));
  return { name, code, functions, input, announcing, output };
}

/** The stored versions of the model, the oldest first. */
async function modelFolders(): Promise<string[]> {
  const { objects, facts } = (await readKept()).stored;
  return Promise.all(
    ['line 1', 'line 2', 'line 3'].map(async (name) => {
      const key = `models/line/versions/${facts.versions[name]}/model.onnx`;
      const folder = join(servers.folder, name);
      await mkdir(folder);
      const bytes = objects.find((object) => object.key === key)?.base64 ?? '';
      await writeFile(join(folder, 'model.onnx'), Buffer.from(bytes, 'base64'));
      return folder;
    }),
  );
}

const model = () => ({ s3: servers.aws.s3, bucket: servers.bucket, job: JOB });

/** Each version with the other one. */
function bothWays(): readonly (readonly [one: Side, other: Side])[] {
  const [old, now] = sides;
  return [
    [old, now],
    [now, old],
  ];
}

/** @param pathAndQuery of the request's url */
function httpEvent(
  method: string,
  pathAndQuery: string,
  body?: string,
  headers: RequestInit['headers'] = {},
): unknown {
  const { pathname, search, searchParams } = new URL(pathAndQuery, API);
  return {
    version: '2.0',
    routeKey: `${method} ${pathname}`,
    rawPath: pathname,
    rawQueryString: search.slice(1),
    headers: { 'content-type': 'application/json', ...Object.fromEntries(new Headers(headers)) },
    queryStringParameters: Object.fromEntries(searchParams),
    requestContext: { http: { method, path: pathname } },
    isBase64Encoded: false,
    ...(body === undefined ? {} : { body }),
  };
}

const resultPath = (uri: string) => `/predictions?uri=${encodeURIComponent(uri)}`;

/** A fetch that calls the functions of a version, as API Gateway does. */
function fetchFrom({ functions }: Side): Fetch {
  return async (url, { method = 'GET', headers = {}, body }) => {
    const event = httpEvent(method, url, typeof body === 'string' ? body : undefined, headers);
    const answer = await functions.request('predictions', event);
    return new Response(answer.body ?? '', { status: answer.statusCode ?? 500 });
  };
}

/** The answer of GET /predictions. */
async function got({ functions }: Side, uri: string): Promise<Record<string, unknown>> {
  const { body = '' } = await functions.request('predictions', httpEvent('GET', resultPath(uri)));
  return JSON.parse(body) as Record<string, unknown>;
}

async function deliver({ functions }: Side, records: readonly SQSRecord[]): Promise<void> {
  assert.deepEqual(await functions.deliver('batch', records), []);
}

/** Receives the only message in the queue. */
async function theOnly(): Promise<SQSRecord> {
  const records = await servers.receive(JOB);
  assert.equal(records.length, 1);
  return records[0] as SQSRecord;
}

/** A tensor of its own for each record. */
function numbers(i: number): RecordInputs {
  return { x: { data: Float32Array.from({ length: 12 }, (_, at) => i + at), shape: [3, 2, 2] } };
}

function expected(i: number): unknown {
  if (isBad(i)) return 'bad_input';
  return { y: `float32 [3,2,2] ${Array.from({ length: 12 }, (_, at) => 2 * (i + at) + 1).join(' ')}` };
}

const isBad = (i: number) => i % 20 === 7;
const uriOf = (i: number) => `record ${i}`;

function outcomeOf(result: Result | Error | undefined): unknown {
  return result instanceof Error ? plainCode(result) : plainValues(result);
}

/** Values of a result, or the code of its failure. */
const query = (output: Side['output'], uri: string) => output.query(uri).then(outcomeOf, plainCode);

describe('the version before beside today', () => {
  before(async () => {
    const kept = await openKeptCode();
    servers = await openServers([JOB]);
    servers.onClose(() => kept.remove());
    models = await modelFolders();
    await kept.code.publish(model(), models[0] as string);
    sides = await Promise.all([openSide('old', kept.code), openSide('new', today)]);
  });
  after(() => servers?.close());

  test('both poll one queue, some messages go to both at once, and each uri gets exactly one right result', async (t) => {
    const [old, now] = sides;
    const announced = new Map<string, number>();
    const listener = new Redis(servers.redisUrl);
    t.after(() => listener.quit());
    const channel = `cluster-serving-done_${JOB}:`;
    listener.on('pmessage', (_pattern: string, heardOn: string) => {
      const uri = heardOn.slice(channel.length);
      announced.set(uri, (announced.get(uri) ?? 0) + 1);
    });
    await listener.psubscribe(`${channel}*`);

    const all = Array.from({ length: RECORDS_SENT }, (_, i) => i);
    await Promise.all(
      all.map((i) => {
        const { input } = i % 2 === 0 ? old : now;
        return input.enqueue(uriOf(i), isBad(i) ? { x: [i] } : numbers(i));
      }),
    );
    const delivered = { old: 0, new: 0, both: 0 };
    const poll = async (own: Side, other: Side) => {
      for (let count = 0; ; count++) {
        const records = await servers.receive(JOB);
        if (records.length === 0) return;
        const isForBoth = count % 3 === 2;
        await Promise.all(
          isForBoth ? [deliver(own, records), deliver(other, records)] : [deliver(own, records)],
        );
        // Redelivered, as when the deletion was lost.
        if (count % 5 === 4) await deliver(other, records);
        await servers.remove(JOB, records);
        delivered[isForBoth ? 'both' : own.name] += records.length;
      }
    };
    await Promise.all([poll(old, now), poll(now, old)]);
    for (const share of Object.values(delivered)) assert.ok(share > 0, JSON.stringify(delivered));

    const right = all.map(expected);
    for (const { output } of sides)
      assert.deepEqual(await Promise.all(all.map((i) => query(output, uriOf(i)))), right);
    const bodies = await Promise.all(sides.map((side) => Promise.all(all.map((i) => got(side, uriOf(i))))));
    assert.deepEqual(bodies[0], bodies[1]);
    await until(() => announced.size === RECORDS_SENT);
    assert.deepEqual(
      all.filter((i) => announced.get(uriOf(i)) !== 1),
      [],
    );

    const taken = await Promise.all(sides.map(({ output }) => output.dequeue()));
    const found = taken.flatMap((results) => [...results.keys()]);
    assert.equal(found.length, RECORDS_SENT);
    assert.deepEqual(new Set(found), new Set(all.map(uriOf)));
    const values = new Map(
      taken.flatMap((results) => [...results].map(([uri, one]) => [uri, outcomeOf(one)])),
    );
    assert.deepEqual(
      all.map((i) => values.get(uriOf(i))),
      right,
    );
  });

  test('a record of any kind sent by one client is answered by the other version, and read by both', async () => {
    const image = { x: { bytes: png(0) } };
    // Larger than a message can be: sent through S3.
    const large = { x: { bytes: png(MiB) } };
    const values: unknown[][] = [];
    for (const [one, other] of bothWays()) {
      const made: (readonly [kind: string, read: unknown])[] = [];
      for (const [kind, inputs] of Object.entries({ ...RECORDS, image, large })) {
        if (kind === 'strings') continue;
        const uri = `${kind} by ${one.name}`;
        // Waits before there is a result, for the notification of the other version.
        const waiting = one.output.wait(uri, { timeoutMs: 10_000 }).then(outcomeOf, plainCode);
        await one.input.enqueue(uri, inputs);
        const record = await theOnly();
        assert.equal(record.body.includes('"pointer"'), kind === 'large');
        await deliver(other, [record]);
        await servers.remove(JOB, [record]);
        const read = await waiting;
        assert.deepEqual(await query(other.output, uri), read);
        assert.deepEqual(await got(one, uri), await got(other, uri));
        made.push([kind, read]);
      }
      // Finds what the other version listed.
      const listed = await one.output.dequeue();
      assert.deepEqual(new Set(listed.keys()), new Set(made.map(([kind]) => `${kind} by ${one.name}`)));
      values.push(made);
    }
    assert.deepEqual(values[0], values[1]);
    assert.match(JSON.stringify(values[0]), /\["nested","bad_input"\]/);
    assert.match(JSON.stringify(values[0]), /\["sparse",\{"y":"float32 \[3,2,2\] 1 11 1 /);
  });

  test('a record accepted by POST /predictions of one is answered by the other, and taken by DELETE of the first', async () => {
    for (const [one, other] of bothWays()) {
      const uri = `posted to ${one.name}`;
      const x = Array.from({ length: 3 }, () => [
        [0, 1],
        [2, 3],
      ]);
      const body = JSON.stringify({ uri, instances: [{ x }] });
      const { statusCode } = await one.functions.request(
        'predictions',
        httpEvent('POST', '/predictions', body),
      );
      assert.equal(statusCode, 202);
      const record = await theOnly();
      await deliver(other, [record]);
      await servers.remove(JOB, [record]);
      assert.deepEqual(await query(one.output, uri), { y: 'float32 [3,2,2] 1 3 5 7 1 3 5 7 1 3 5 7' });
      const seen = await got(other, uri);
      const take = await one.functions.request('predictions', httpEvent('DELETE', resultPath(uri)));
      assert.deepEqual(JSON.parse(take.body ?? ''), seen);
      for (const side of sides) assert.equal((await got(side, uri))['code'], 'not_found');
    }
  });

  test('the HTTPS client of one works with the functions of the other', async () => {
    for (const [one, other] of bothWays()) {
      const options = { name: JOB, fetch: fetchFrom(other) };
      const input = new one.code.InputQueue({ ...options, frontendUrl: API });
      const output = new one.code.OutputQueue({ ...options, url: API });
      const uris = ['good', 'bad?&/', 'cancelled', 'left'].map((name) => `${name} over HTTPS by ${one.name}`);
      const [good, bad, cancelled, left] = uris as [string, string, string, string];
      for (const uri of uris) await input.enqueue(uri, uri === bad ? { x: [1] } : numbers(5));
      assert.equal(await output.cancel(cancelled), true);
      const records = await servers.receive(JOB);
      assert.equal(records.length, uris.length);
      const waiting = output.wait(good, { timeoutMs: 10_000 });
      await deliver(one, records);
      await servers.remove(JOB, records);
      assert.deepEqual(outcomeOf(await waiting), expected(5));
      assert.deepEqual(plainResult(await output.query(good)), plainResult(await one.output.query(good)));
      assert.equal(await output.cancel(good), false);
      const statuses = await Promise.all([...uris, 'none'].map((uri) => output.status(uri)));
      assert.deepEqual(statuses, ['succeeded', 'failed', 'cancelled', 'succeeded', 'unknown']);
      await assert.rejects(output.query(bad), { code: 'bad_input', uri: bad });
      await assert.rejects(output.query(cancelled), { code: 'cancelled', uri: cancelled });
      assert.deepEqual(outcomeOf(await output.queryAndDelete(good)), expected(5));
      assert.equal(await output.query(good), undefined);
      const rest = await output.dequeue();
      assert.deepEqual(
        [bad, cancelled, left].map((uri) => outcomeOf(rest.get(uri))),
        ['bad_input', 'cancelled', expected(5)],
      );
      await Promise.all([input.close(), output.close()]);
    }
  });

  test('a record announced by one is queued for the other, and of the enqueues of both the last counts', async () => {
    for (const [one, other] of bothWays()) {
      const uri = `announced by ${one.name}`;
      await one.announcing.enqueue(uri, numbers(1));
      assert.equal(await other.output.status(uri), 'queued');
      await other.announcing.enqueue(uri, numbers(2));
      const records = await servers.receive(JOB);
      assert.equal(records.length, 2);
      await deliver(other, records.toReversed());
      await servers.remove(JOB, records);
      for (const { output } of sides) {
        assert.equal(await output.status(uri), 'succeeded');
        assert.deepEqual(await query(output, uri), expected(2));
      }
      await one.announcing.enqueue(uri, numbers(3));
      assert.equal(await other.output.status(uri), 'queued');
      const again = await theOnly();
      await deliver(one, [again]);
      await servers.remove(JOB, [again]);
      for (const { output } of sides) assert.deepEqual(await query(output, uri), expected(3));
    }
  });

  test('a uri cancelled by one gets no result from the other', async () => {
    for (const [one, other] of bothWays()) {
      const uri = `cancelled by ${one.name}`;
      await other.announcing.enqueue(uri, numbers(2));
      assert.equal(await one.output.cancel(uri), true);
      const record = await theOnly();
      await deliver(other, [record]);
      await servers.remove(JOB, [record]);
      for (const { output } of sides) {
        assert.equal(await output.status(uri), 'cancelled');
        await assert.rejects(output.query(uri), { code: 'cancelled', uri });
      }
      const known = await Promise.all(
        sides.map(({ output }) => output.query(uri).then(plainResult, plainFailure)),
      );
      assert.deepEqual(known[0], known[1]);
    }
  });

  test('a result of one that was taken by the other is not made again when its message is redelivered', async () => {
    for (const [one, other] of bothWays()) {
      const uri = `taken by ${other.name}`;
      await one.announcing.enqueue(uri, numbers(3));
      const record = await theOnly();
      await deliver(one, [record]);
      assert.deepEqual(outcomeOf(await other.output.queryAndDelete(uri)), expected(3));
      for (const side of sides) await deliver(side, [record]);
      await servers.remove(JOB, [record]);
      for (const { output } of sides) {
        assert.equal(await output.query(uri), undefined);
        assert.ok(!(await output.dequeue()).has(uri));
      }
    }
  });

  test('a model version published or rolled back by one is loaded by both while they serve', async () => {
    const [old, now] = sides;
    const ones = [
      [1, 1],
      [1, 1],
    ];
    const body = JSON.stringify({ instances: [{ x: [ones, ones, ones] }] });
    const served = async ({ functions }: Side) => {
      const answer = await functions.request('predict', httpEvent('POST', '/predict', body));
      return `${answer.headers?.['model-version']} ${/[\d.]+(?=,)/.exec(answer.body ?? '')?.[0]}`;
    };
    const bothServe = async (version: string, y: string) => {
      for (const side of sides) await until(async () => (await served(side)) === `${version} ${y}`, 10_000);
    };
    const first = (await old.code.listVersions(model()))[0]?.version ?? '';
    await bothServe(first, '3.0');
    const second = await now.code.publish(model(), models[1] as string);
    await bothServe(second, '4.0');
    const third = await old.code.publish(model(), models[2] as string);
    await bothServe(third, '5.0');
    const lists = await Promise.all(sides.map(({ code }) => code.listVersions(model())));
    assert.deepEqual(lists[0], lists[1]);
    assert.equal(lists[0]?.length, 3);
    // Each undoes what the other one published.
    assert.equal(await now.code.rollBack(model()), second);
    assert.equal(await old.code.rollBack(model()), first);
    await bothServe(first, '3.0');
  });
});

/** @param extraBytes size of an additional chunk that readers skip */
function png(extraBytes: number): Uint8Array {
  const sample = (x: number, y: number) => [10 * x, 20 * y, 30];
  const chunks = extraBytes > 0 ? [['zzZz', new Uint8Array(extraBytes)] as const] : [];
  return writePng({ width: 2, height: 2, depth: 8, colourType: 2, sample, chunks });
}

function plainCode(error: unknown): unknown {
  return (error as ServingError).code;
}
