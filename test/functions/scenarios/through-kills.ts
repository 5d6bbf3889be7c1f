/**
 * Outcomes on their way to a back end while each process on the way is killed again and again (SIGKILL): the batch function, the
 * notifier, the server of queues and objects, and the receiver. A tenth of the records ends a task of Step Functions instead.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { newAttributes } from '../../../lib/codecs/attributes.ts';
import { encodeMessage } from '../../../lib/codecs/message.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { present } from '../../../lib/contract/present.ts';
import { openSqs, QueueSender } from '../../../lib/queue/sender.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ResultStore } from '../../../lib/redis/results.ts';
import { childEnvironment } from '../../support/environment.ts';
import { killAgain } from '../../support/faults/kills.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { type Random, seeded } from '../../support/faults/seeds.ts';
import { freePort } from '../../support/free-port.ts';
import { PATIENT, redisUrl } from '../../support/redis.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { KEYS } from '../../support/signed-api.ts';
import { ROOT } from '../../support/start.ts';
import { startStepFunctions } from '../../support/step-functions.ts';
import { makeCertificate } from '../../support/tls.ts';
import { until } from '../../support/until.ts';
import { inputsOf } from './doubling.ts';
import { JOB, type Places, queueUrlOf, ROLES, type Role } from './killed-process.ts';

const PROGRAM = fileURLToPath(new URL('killed-process.ts', import.meta.url));
const COMPILED = join(ROOT, 'node_modules/.cache/compile');
const TOGETHER = 500;
const HOUR_MS = 3_600_000;
/** Restarts and deliveries after a kill take seconds, on a loaded machine half a minute. */
const STUCK_MS = 180_000;

/** A process that is started again whenever it ends. */
class Part {
  kills = 0;
  readonly #role: Role;
  readonly #places: Places;
  readonly #output: number;
  #child: ChildProcess | undefined;
  #working = Promise.withResolvers<void>();
  #isWorking = false;
  #isClosed = false;
  #running: Promise<void> | undefined;

  constructor(role: Role, places: Places) {
    this.#role = role;
    this.#places = places;
    this.#output = openSync(`${places.log}.${role}`, 'a');
  }

  /** Resolves when it works. */
  start(): Promise<void> {
    this.#running = this.#run();
    return this.#working.promise;
  }

  async kill(): Promise<boolean> {
    if (!this.#isWorking) return false;
    this.kills++;
    this.#isWorking = false;
    this.#working = Promise.withResolvers();
    this.#child?.kill('SIGKILL');
    await this.#working.promise;
    return true;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#child?.kill('SIGKILL');
    await this.#running;
    closeSync(this.#output);
  }

  /** Others may be dead when it starts, so that it ends and has to be started several times. */
  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const child = fork(PROGRAM, [this.#role, JSON.stringify(this.#places)], {
        stdio: ['ignore', this.#output, this.#output, 'ipc'],
        // A start takes seconds without it.
        env: childEnvironment({ NODE_COMPILE_CACHE: COMPILED }),
      });
      this.#child = child;
      child.once('message', () => {
        this.#isWorking = true;
        this.#working.resolve();
      });
      await once(child, 'exit');
      if (this.#isWorking) this.#working = Promise.withResolvers();
      this.#isWorking = false;
    }
  }
}

/** The log of the receiver: the ids of each identity, and what was said under each id. */
class Received {
  readonly ids = new Map<string, Set<string>>();
  readonly said = new Map<string, Set<string>>();
  lines = 0;
  #offset = 0;
  #rest = '';

  async read(path: string): Promise<void> {
    const file = await open(path, 'a+');
    try {
      const { size } = await file.stat();
      const { buffer, bytesRead } = await file.read(
        Buffer.alloc(size - this.#offset),
        0,
        size - this.#offset,
        this.#offset,
      );
      this.#offset += bytesRead;
      const lines = (this.#rest + buffer.toString('utf8', 0, bytesRead)).split('\n');
      this.#rest = lines.pop() ?? '';
      for (const line of lines) this.#add(line);
    } finally {
      await file.close();
    }
  }

  #add(line: string): void {
    const [what, id = '', identity = '', uri, status] = line.split(' ');
    assert.equal(what, 'got', line);
    this.lines++;
    this.ids.set(identity, (this.ids.get(identity) ?? new Set()).add(id));
    this.said.set(id, (this.said.get(id) ?? new Set()).add(`${uri} ${status}`));
  }
}

const isTask = (i: number) => i % 10 === 9;

async function placesOf(t: TestContext, tasksUrl: string): Promise<Places | undefined> {
  const folder = await temporaryFolder(t);
  const files = makeCertificate(folder);
  if (!files) return undefined;
  const { accessKeyId, secretAccessKey, sessionToken } = KEYS;
  return {
    ...files,
    awsPort: await freePort(),
    receiverPort: await freePort(),
    credentials: { accessKeyId: 'AKIDKILLED', secretAccessKey: 'made-up' },
    dataDir: join(folder, 'data'),
    redisUrl: await redisUrl(t),
    log: join(folder, 'received.log'),
    tasksUrl,
    tasksCredentials: { accessKeyId, secretAccessKey, sessionToken },
  };
}

/** Sends each record until the queue has it, and cancels some of them. */
async function sendAll(records: number, places: Places, states: RecordStates): Promise<void> {
  const { awsPort, credentials } = places;
  const sqs = openSqs({ endpoint: `http://127.0.0.1:${awsPort}`, region: 'us-east-1', credentials });
  const sender = new QueueSender(sqs, { queueUrl: queueUrlOf(places, 'records') });
  const send = async (i: number): Promise<void> => {
    const notified = isTask(i) ? { notify: 'flow', taskToken: `token-${i}` } : { notify: 'shop' };
    for (;;) {
      try {
        await sender.send(
          encodeMessage(`uri-${i}`, inputsOf(i)),
          newAttributes(`i-${i}`, undefined, notified),
        );
        break;
      } catch {
        // The queue is dead at the moment.
      }
    }
    if (i % 50 === 0) await states.cancel(`uri-${i}`);
  };
  for (let i = 0; i < records; i += TOGETHER)
    await Promise.all(Array.from({ length: Math.min(TOGETHER, records - i) }, (_, j) => send(i + j)));
  sqs.destroy();
}

/** @param random decides when something is killed @returns how often each process was killed */
export async function allAnnouncedThroughKills(
  t: TestContext,
  records: number,
  random: Random,
): Promise<void> {
  quietLog(t);
  const every = Math.max(150, Math.floor(records / 12));
  const numbers = Array.from({ length: records }, (_, i) => i);
  const chance = seeded(3);
  const tokens = numbers.filter(isTask).map((i) => `token-${i}`);
  // Before their folder is removed.
  const parts: { readonly role: Role; readonly part: Part }[] = [];
  t.after(async () => void (await Promise.all(parts.map(({ part }) => part.close()))));
  const flow = await startStepFunctions(t, tokens, () => chance() < 0.03);
  const places = await placesOf(t, flow.url);
  if (!places) return t.skip('needs openssl');
  for (const role of ROLES) parts.push({ role, part: new Part(role, places) });
  for (const { part } of parts) await part.start();
  const connection = new RedisConnection(places.redisUrl, PATIENT);
  const results = new ResultStore(connection, { job: JOB, ttlSeconds: 86_400, now: Date.now });
  t.after(() => results.close());
  const states = new RecordStates(connection, { job: JOB, now: Date.now });

  const received = new Received();
  const ended = () => tokens.filter((token) => flow.tasks.get(token) !== undefined).length;
  let done = 0;
  const began = performance.now();
  let progressAt = began;
  const isDone = async () => {
    await received.read(places.log);
    const before = done;
    done = received.ids.size + ended();
    if (done > before) progressAt = performance.now();
    assert.ok(performance.now() - progressAt < STUCK_MS, `stuck at ${done} of ${records} outcomes`);
    return done >= records;
  };
  const kills = parts.map(({ part }) =>
    killAgain({ random, every, progress: () => done, isOver: () => done >= records }, () => part.kill()),
  );
  const sending = sendAll(records, places, states);
  await until(isDone, 6 * HOUR_MS, 250);
  const seconds = (performance.now() - began) / 1000;
  await Promise.all([sending, ...kills]);

  const counts = { succeeded: 0, failed: 0, cancelled: 0 };
  const check = async (i: number) => {
    const status = await statusOf(results, `uri-${i}`, `i-${i}`);
    counts[status]++;
    if (isTask(i)) {
      const { output, error } = present(flow.tasks.get(`token-${i}`), 'end of the task');
      assert.equal(error === undefined ? 'succeeded' : error === 'cancelled' ? error : 'failed', status);
      if (output !== undefined) assert.match(output, new RegExp(`"uri":"uri-${i}"`));
      return;
    }
    const ids = [...present(received.ids.get(`i-${i}`), `ids of i-${i}`)];
    assert.equal(ids.length, 1, `i-${i} was announced under several ids`);
    assert.deepEqual([...(received.said.get(ids[0] ?? '') ?? [])], [`uri-${i} ${status}`]);
  };
  for (let i = 0; i < records; i += TOGETHER) await Promise.all(numbers.slice(i, i + TOGETHER).map(check));
  assert.equal(received.said.size + tokens.length, records);
  const killed = parts.map(({ role, part }) => `${role} ${part.kills}`).join(', ');
  t.diagnostic(
    `${records} outcomes in ${seconds.toFixed(0)} s: ${JSON.stringify(counts)}; ${received.lines} calls of the receiver, ${flow.calls} of Step Functions for ${tokens.length} tasks; killed: ${killed}`,
  );
  for (const { role, part } of parts) assert.ok(part.kills > 0, `${role} was never killed`);
  assert.ok(received.lines > received.said.size, 'nothing was repeated');
  for (const count of Object.values(counts)) assert.ok(count > 0, JSON.stringify(counts));
}

async function statusOf(results: ResultStore, uri: string, identity: string) {
  try {
    assert.ok(await results.get(uri, { identity }));
    return 'succeeded';
  } catch (error) {
    return ServingError.from(error).code === 'cancelled' ? 'cancelled' : 'failed';
  }
}
