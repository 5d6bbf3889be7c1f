/**
 * The soak test of the local service: records of a queue, or calls of a client, while workers, Redis and the whole
 * service are killed at random. A kill of a worker may fail the one record that it ran alone, and nothing else.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { ServingError } from '../../lib/contract/errors.ts';
import { openSqs } from '../../lib/queue/sender.ts';
import { InputQueue } from '../../sdk/index.ts';
import { WKRClient } from '../../sdk/worker-client.ts';
import { SDK } from '../lib/workers/child.ts';
import { useAws } from '../support/environment.ts';
import { count, type Source } from '../support/faults/events.ts';
import { assertNothingFound, History, takeAll } from '../support/faults/history.ts';
import { killAgain } from '../support/faults/kills.ts';
import { LocalService } from '../support/faults/local-service.ts';
import { lineModel, lineOf, mismatched, modelFolder, poison, record } from '../support/faults/model.ts';
import { seeded } from '../support/faults/seeds.ts';
import { PYTHON } from '../support/python.ts';
import { temporaryFolder } from '../support/runner.ts';
import { until } from '../support/until.ts';

/** What answers: a worker in one of its languages, or a model in a process of its own. */
export type Kind = 'python' | 'typescript' | 'onnx';

const JOB = 'soak';
/** The least: a message of a service that was killed is hidden for six times that. */
const TIMEOUT_SECONDS = 3;

/** As lineModel, and a square for the calls of a client. */
const PYTHON_WORKER = `from wkr_serving.server import WKRHardWorker

class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None

    def predict(self, model, items):
        return [self.one(item) for item in items]

    def one(self, item):
        if "call" in item: return {"call": item["call"], "square": item["call"] ** 2}
        if item["k"][0] == 99: raise ValueError("poison")
        return 2 * item["x"] + 1
`;

const TYPESCRIPT_WORKER = `import { WKRHardWorker } from './SDK';

export class Worker extends WKRHardWorker {
  getModel() {}
  predict(_model, items) {
    return items.map((item) => this.one(item));
  }
  one(item) {
    if ('call' in item) return { call: item.call, square: item.call ** 2 };
    if (item.k.data[0] === 99n) throw new RangeError('poison');
    return { ...item.x, data: item.x.data.map((x) => 2 * x + 1) };
  }
}
`.replace('./SDK', SDK);

async function writeService(t: TestContext, kind: Kind): Promise<string> {
  const folder = await temporaryFolder(t, 'cs-service-soak-');
  const common = `jobName: ${JOB}
resultTtlSeconds: 86400
batchSize: 50
queue: {batchSize: 50, windowSeconds: 1, maxReceiveCount: 1000}
function: {timeoutSeconds: ${TIMEOUT_SECONDS}}
`;
  if (kind === 'onnx') {
    await modelFolder(folder, lineModel());
    await writeFile(join(folder, 'config.yaml'), `${common}modelPath: model\nprocesses: 1\n`);
    return folder;
  }
  const code = kind === 'python' ? PYTHON_WORKER : TYPESCRIPT_WORKER;
  await writeFile(join(folder, kind === 'python' ? 'server.py' : 'server.ts'), code);
  const worker = `worker: {class: server.Worker, python: ${PYTHON}, numWorker: 2}\n`;
  await writeFile(join(folder, 'config.yaml'), common + worker);
  return folder;
}

/** Of the service, its Redis and its workers, while there is something to do. */
async function killAll(
  service: LocalService,
  seed: number,
  total: number,
  { progress, isOver }: { readonly progress: () => number; readonly isOver: () => boolean },
) {
  const plan = (kind: number, least: number, each: number) => ({
    random: seeded(10 * seed + kind),
    // A small run has its share too, the first one before half of it is done.
    every: Math.max(1, Math.min(each, total / (4 * least))),
    progress,
    isOver,
  });
  // One after the other: a service that is being started has no Redis to kill.
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn = (kill: () => Promise<boolean>) => () => {
    const killing = turn.then(kill);
    turn = killing.catch(() => undefined);
    return killing;
  };
  const workers = plan(1, 2, 500);
  const [workerKills, redisKills, serviceKills] = await Promise.all([
    killAgain(
      workers,
      inTurn(() => service.killWorker(workers.random)),
    ),
    killAgain(
      plan(2, 1, 2_500),
      inTurn(() => service.killRedis()),
    ),
    killAgain(
      plan(3, 1, 5_000),
      inTurn(async () => {
        await service.restart();
        return true;
      }),
    ),
  ]);
  return { workerKills, redisKills, serviceKills };
}

type Kills = Awaited<ReturnType<typeof killAll>>;

/** Waits for the kills also where the work has failed: a service that is being started again is to be stopped with the others. */
async function bothEnd(
  killing: Promise<Kills>,
  work: Promise<unknown>,
  state: { isOver: boolean },
): Promise<Kills> {
  const end = () => {
    state.isOver = true;
  };
  try {
    const [kills] = await Promise.all([killing, work.finally(end)]);
    return kills;
  } finally {
    end();
    await killing.catch(() => undefined);
  }
}

function assertKilled(kills: Kills): void {
  for (const [what, times] of Object.entries(kills)) assert.ok(times > 0, `${what}: ${times}`);
}

export interface ServiceSoakOptions {
  readonly kind: Kind;
  readonly records: number;
  readonly seed: number;
}

export async function soakService(t: TestContext, options: ServiceSoakOptions): Promise<void> {
  const { kind, records, seed } = options;
  const folder = await writeService(t, kind);
  const service = await LocalService.open(t, { folder, syncsAlways: true });
  const { addresses } = service;
  useAws(addresses.environment);
  const history = new History();
  await history.listen(t, addresses.redisUrl, JOB);
  const sqs = openSqs({ endpoint: addresses.environment['AWS_ENDPOINT_URL'] });
  t.after(async () => sqs.destroy());
  const state = { isOver: false };
  const isOver = () => state.isOver;
  const startedMs = performance.now();
  // Some announcements are lost with Redis; what was sent is known.
  const progress = () => (history.size + history.announced) / 2;
  const killing = killAll(service, seed, records, { progress, isOver });
  const serving = sendAll(service, history, options, isOver).then(() =>
    emptied({ sqs, queueUrl: addresses.queueUrl }, isOver),
  );
  const kills = await bothEnd(killing, serving, state);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  // The last kill may have been that of Redis, which is then being started.
  await until(
    async () => (await fetch(new URL('/ready', addresses.http)).catch(() => undefined))?.ok === true,
  );
  const told = await takeAll(addresses.redisUrl, JOB);
  const summary = JSON.stringify({ kind, records, seed, seconds, ...kills });
  assertNothingFound(history.judge(told), `${summary}\n${service.output}`);
  assertKilled(kills);
  const failed = told.filter(([uri, outcome]) => outcome === 'model_failed' && fateOf(xOf(uri)) === 'good');
  assert.ok(failed.length <= kills.workerKills, `${failed.length} good records failed: ${summary}`);
  t.diagnostic(`${summary}, ${failed.length} good records failed with their process`);
}

/** Longer than a message of a service that was killed is hidden, however busy the machine is. */
const SILENT_MS = 300_000;

/** Waits until the queue has no message. @throws when nothing happens any more */
async function emptied(queue: Source, isOver: () => boolean): Promise<void> {
  let [last, sinceMs] = [Number.POSITIVE_INFINITY, performance.now()];
  while (!isOver()) {
    const left = await count(queue).catch((error: unknown) => String(error));
    if (left === 0) return;
    if (typeof left === 'number' && left !== last) [last, sinceMs] = [left, performance.now()];
    if (performance.now() - sinceMs > SILENT_MS) throw new Error(`nothing happens any more: ${left}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

type Fate = 'good' | 'poison' | 'mismatched' | 'http';

function fateOf(x: number): Fate {
  const kind = x % 100;
  return kind === 7 ? 'mismatched' : kind === 13 ? 'poison' : kind === 50 ? 'http' : 'good';
}

const xOf = (uri: string) => Number(uri.slice(2));

const SENDERS = 100;
const PAUSE_MS = 200;

/** A record that was refused is sent again under its identity: the queue may have it. */
async function sendAll(
  { addresses }: LocalService,
  history: History,
  { kind, records }: ServiceSoakOptions,
  isOver: () => boolean,
): Promise<void> {
  const { queueUrl, http, environment } = addresses;
  const direct = new InputQueue({ name: JOB, queueUrl, endpoint: environment['AWS_ENDPOINT_URL'] as string });
  const overHttp = new InputQueue({ name: JOB, frontendUrl: http });
  let next = 0;
  const sender = async () => {
    for (let x = next++; x < records && !isOver(); x = next++) {
      const uri = `r-${x}`;
      const identity = randomUUID();
      const fate = fateOf(x);
      // A worker gets what was sent, whatever its shape.
      const isMismatched = fate === 'mismatched' && kind === 'onnx';
      const inputs = isMismatched ? mismatched(x) : fate === 'poison' ? poison(x) : record(x);
      const queue = fate === 'http' ? overHttp : direct;
      const untilMs = performance.now() + SILENT_MS;
      while (!isOver()) {
        const refused = await queue.enqueue(uri, inputs, { identity }).then(
          () => undefined,
          (error: unknown) => error,
        );
        if (refused === undefined) break;
        if (performance.now() > untilMs) throw refused;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
      if (isMismatched) history.enqueued(uri, 'bad_input');
      else if (fate === 'poison') history.enqueued(uri, 'model_failed');
      // A kill may come while it runs alone.
      else history.enqueued(uri, lineOf(x), 'model_failed');
    }
  };
  try {
    await Promise.all(Array.from({ length: SENDERS }, sender));
  } finally {
    await Promise.all([direct.close(), overHttp.close()]);
  }
}

/** The service answers again; the last kill may still end the first of these calls. */
async function answerAfterKills(client: WKRClient): Promise<unknown> {
  const untilMs = performance.now() + CALL_MS;
  for (;;) {
    try {
      return await client.encode({ call: 3 });
    } catch (error) {
      if (performance.now() > untilMs || !EXPLAINED.includes(ServingError.from(error).code)) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

export interface ClientSoakOptions {
  readonly kind: Exclude<Kind, 'onnx'>;
  readonly calls: number;
  readonly seed: number;
}

const CLIENTS = 4;
const CALLS_AT_ONCE = 4;
const CALL_MS = 10_000;
/** For a machine that is too busy to run a timer. */
const LATE_MS = 10_000;
/** An error that does not say what happened is a bug. */
const EXPLAINED = ['model_failed', 'model_unavailable', 'queue_unavailable', 'timeout', 'rate_limited'];

export async function soakClients(t: TestContext, { kind, calls, seed }: ClientSoakOptions): Promise<void> {
  const folder = await writeService(t, kind);
  const service = await LocalService.open(t, { folder, syncsAlways: true });
  const url = service.addresses.http;
  const codes = new Map<string, number>();
  const wrong: string[] = [];
  const state = { ended: 0, right: 0, longestMs: 0, isOver: false };
  let next = 0;
  const caller = async (client: WKRClient) => {
    for (let call = next++; call < calls && !state.isOver; call = next++) {
      const startedMs = performance.now();
      try {
        const answer = JSON.stringify(await client.encode({ call }));
        if (answer === JSON.stringify({ call, square: call ** 2 })) state.right++;
        else wrong.push(`${call}: ${answer}`);
      } catch (error) {
        const { code } = ServingError.from(error);
        codes.set(code, (codes.get(code) ?? 0) + 1);
        if (!EXPLAINED.includes(code)) wrong.push(`${call}: ${code}: ${(error as Error).message}`);
        // A service that is being started refuses at once.
        await new Promise((resolve) => setTimeout(resolve, 2 * PAUSE_MS));
      }
      state.longestMs = Math.max(state.longestMs, performance.now() - startedMs - 2 * PAUSE_MS);
      state.ended++;
    }
  };
  const clients = Array.from({ length: CLIENTS }, () => new WKRClient({ url, timeoutMs: CALL_MS }));
  const progress = () => state.ended;
  const killing = killAll(service, seed, calls, { progress, isOver: () => state.isOver });
  const calling = Promise.all(
    clients.flatMap((client) => Array.from({ length: CALLS_AT_ONCE }, () => caller(client))),
  );
  const startedMs = performance.now();
  const kills = await bothEnd(killing, calling, state);
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  const longestMs = Math.round(state.longestMs);
  const errors = Object.fromEntries(codes);
  const summary = JSON.stringify({
    kind,
    calls,
    seed,
    seconds,
    right: state.right,
    longestMs,
    errors,
    ...kills,
  });
  assert.deepEqual(wrong.slice(0, 5), [], `${wrong.length} wrong: ${summary}`);
  assert.equal(state.ended, calls);
  assert.ok(longestMs <= CALL_MS + LATE_MS, summary);
  assertKilled(kills);
  assert.ok(state.right >= calls / 2, `most calls failed: ${summary}`);
  assert.deepEqual(await answerAfterKills(clients[0] as WKRClient), { call: 3, square: 9 });
  t.diagnostic(summary);
}
