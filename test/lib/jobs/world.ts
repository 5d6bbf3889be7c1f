/**
 * S3 and a queue in memory, in which jobs over files are killed at any call, messages come twice and at the same time, and time runs out.
 * A seed decides all of it.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { endpoints } from '../../../lib/compose/endpoints.ts';
import { badRequest, ServingError } from '../../../lib/contract/errors.ts';
import type { Inputs, Outcome, Runner } from '../../../lib/contract/values.ts';
import { plainAnswer } from '../../../lib/http/plain.ts';
import { serveJobs } from '../../../lib/jobs/serve.ts';
import type { JobDeps, JobStore } from '../../../lib/jobs/store.ts';
import { together } from '../../../lib/observe/together.ts';
import type { Random } from '../../support/faults/seeds.ts';

export const JOB = 'digits';
export const BUCKET = 'own';

interface Queued {
  readonly body: string;
  attempts: number;
}

interface Faults {
  /** The chance that a call ends its function: before it or after it. */
  readonly kill: number;
  /** The chance that a message is delivered to two functions at once. */
  readonly twice: number;
  /** The chance that there is time for some of the rows only. */
  readonly late: number;
}

interface Life {
  isOver: boolean;
  /** Resolves when it is killed. */
  readonly ended: PromiseWithResolvers<void>;
}

/** Bytes are never changed here, and a store is asked for the tag of the same ones again and again. */
const etags = new WeakMap<Buffer, string>();

function etagOf(body: Buffer): string {
  const etag = etags.get(body) ?? `"${createHash('md5').update(body).digest('hex')}"`;
  etags.set(body, etag);
  return etag;
}

const newLife = (): Life => ({ isOver: false, ended: Promise.withResolvers<void>() });

export const NO_FAULTS: Faults = { kill: 0, twice: 0, late: 0 };

export class World {
  readonly objects = new Map<string, Buffer>();
  readonly queue: Queued[] = [];
  readonly uploads = new Map<string, Map<number, Buffer>>();
  kills = 0;
  /** Each row that ran, as often as it did. */
  ran = 0;
  /** Calls of the store and the queue, and the one of them that fails. */
  calls = 0;
  failAt: number | undefined;
  readonly #random: Random;
  readonly #faults: Faults;
  readonly answer: (record: Inputs) => Outcome;

  constructor(random: Random, faults: Faults, answer: (record: Inputs) => Outcome = double) {
    this.#random = random;
    this.#faults = faults;
    this.answer = answer;
  }

  put(address: string, body: string | Uint8Array): void {
    this.objects.set(address, Buffer.from(body));
  }

  text(address: string): string {
    return this.objects.get(address)?.toString() ?? assert.fail(`no ${address}`);
  }

  /** Drops a file or a request below `in/`, as S3 tells it. */
  drop(name: string, body: string): void {
    const key = `jobs/${JOB}/in/${name}`;
    this.put(`${BUCKET}/${key}`, body);
    this.queue.push({ body: JSON.stringify({ Records: [{ s3: { object: { key } } }] }), attempts: 0 });
  }

  request(id: string, request: object): void {
    this.drop(`${id}.job.json`, JSON.stringify(request));
  }

  /** Delivers until nothing is left. @param step called before each delivery */
  async run(step: (deliveries: number) => void = () => undefined, most = 20_000): Promise<void> {
    for (let deliveries = 0; this.queue.length > 0; deliveries++) {
      assert.ok(deliveries < most, `${deliveries} deliveries, and ${this.queue.length} messages are left`);
      step(deliveries);
      const at = Math.floor(this.#random() * this.queue.length);
      const [message] = this.queue.splice(at, 1);
      if (!message) break;
      const times = this.#random() < this.#faults.twice ? 2 : 1;
      await Promise.all(Array.from({ length: times }, () => this.#deliver(message)));
    }
  }

  async #deliver(message: Queued): Promise<void> {
    const attempts = ++message.attempts;
    const life = newLife();
    let leftMs = 30_000;
    const isShort = this.#random() < this.#faults.late;
    const clock = { getRemainingTimeInMillis: () => (isShort ? (leftMs -= 3_000) : leftMs) };
    const attributes = { ApproximateReceiveCount: String(attempts) };
    const event = { Records: [{ messageId: 'm', body: message.body, attributes }] };
    const serve = serveJobs(this.#depsOf(life));
    const served = serve(event as never, clock);
    const answer = await Promise.race([served, life.ended.promise]);
    if (!answer || answer.batchItemFailures.length > 0) this.queue.push(message);
  }

  /** A call of a function that may be killed before it or after it; nothing that it does later has an effect. */
  async #call<T>(life: Life, work: () => T): Promise<T> {
    const { kill } = this.#faults;
    await new Promise((resolve) => setImmediate(resolve));
    if (life.isOver) return new Promise(() => undefined);
    if (++this.calls === this.failAt) throw new ServingError('queue_unavailable', 'away');
    const before = this.#random() < kill / 2;
    const result = before ? undefined : work();
    if (!before && this.#random() >= kill / 2) return result as T;
    this.kills++;
    life.isOver = true;
    life.ended.resolve();
    return new Promise(() => undefined);
  }

  #depsOf(life: Life): JobDeps {
    return {
      job: JOB,
      bucket: BUCKET,
      store: this.#storeOf(life),
      observers: together([], () => performance.now()),
      send: (message) =>
        this.#call(life, () => void this.queue.push({ body: JSON.stringify(message), attempts: 0 })),
      endpoint: endpoints(JOB, undefined),
      answerText: (outcome, version) => plainAnswer([outcome], undefined, version),
      most: 5,
      memoryMB: 1769,
      arch: 'x64',
      now: Date.now,
      model: { use: (work) => work(this.#runner(life)) },
    };
  }

  #runner(life: Life): Runner {
    const run = (records: readonly Inputs[], isOver: () => boolean): Promise<Outcome[]> =>
      this.#call(life, () =>
        records.map((record, i): Outcome => {
          // A quarter of the rows at a time.
          if (i % Math.ceil(records.length / 4) === 0 && isOver())
            return { ok: false, error: new ServingError('timeout', 'no time was left') };
          this.ran++;
          return this.answer(record);
        }),
      ).then((outcomes) => {
        const first = outcomes.findIndex((one) => !one.ok && one.error.retryable);
        return first === -1
          ? outcomes
          : outcomes.map((one, i) => (i < first ? one : (outcomes[first] ?? one)));
      });
    return {
      version: 'v1',
      run: (records, policy) => run(records, policy?.isOver ?? (() => false)),
      runIsolated: (records) => run(records, () => false),
      close: async () => undefined,
    };
  }

  /** The store of a function that is never killed. */
  store(): JobStore {
    return this.#storeOf(newLife());
  }

  #storeOf(life: Life): JobStore {
    const nameOf = ({ bucket, key }: { bucket: string; key: string }) => `${bucket}/${key}`;
    const own = (key: string) => nameOf({ bucket: BUCKET, key });
    const call = <T>(work: () => T) => this.#call(life, work);
    const { objects, uploads } = this;
    return {
      text: (key) =>
        call(() => {
          const body = objects.get(own(key));
          return body && { text: body.toString(), etag: etagOf(body) };
        }),
      put: (key, text) => call(() => void objects.set(own(key), Buffer.from(text))),
      putNew: (key, text) =>
        call(() => {
          if (objects.has(own(key))) return this.text(own(key)) === text;
          objects.set(own(key), Buffer.from(text));
          return true;
        }),
      async *pages(address, after) {
        const prefix = nameOf(address);
        const keys = await call(() =>
          [...objects.keys()]
            .filter((key) => key.startsWith(prefix) && (after === undefined || key > own(after)))
            .toSorted()
            .map((key) => {
              const body = objects.get(key) ?? Buffer.alloc(0);
              return { key: key.slice(address.bucket.length + 1), bytes: body.length, etag: etagOf(body) };
            }),
        );
        for (let at = 0; at < keys.length; at += 7) yield keys.slice(at, at + 7);
      },
      remove: (keys) => call(() => keys.forEach((key) => objects.delete(own(key)))),
      read: (file, start, end) =>
        call(() => {
          // The only piece of a file in pieces.
          const body = objects.get(nameOf(file) + (file.key.endsWith('/') ? '000000' : ''));
          if (!body || (file.etag !== '' && etagOf(body) !== file.etag))
            throw new ServingError('conflict', `${file.key} was changed`);
          return body.subarray(start, end);
        }),
      size: (address) => call(() => objects.get(nameOf(address))?.length),
      putObject: (address, body) => call(() => void objects.set(nameOf(address), Buffer.from(body))),
      begin: (address) =>
        call(() => {
          const id = `${nameOf(address)}-${uploads.size}`;
          uploads.set(id, new Map());
          return id;
        }),
      putPart: (_, upload, number, body) =>
        call(() => {
          const part = Buffer.from(body);
          return uploads.get(upload)?.set(number, part) && etagOf(part);
        }),
      complete: (address, upload, parted) =>
        call(() => {
          const parts = uploads.get(upload);
          if (!parts) return false;
          assert.deepEqual(
            [...parts].toSorted(([a], [b]) => a - b).map(([, body]) => etagOf(body)),
            parted,
          );
          const bodies = [...parts].toSorted(([a], [b]) => a - b).map(([, body]) => body);
          objects.set(nameOf(address), Buffer.concat(bodies));
          return uploads.delete(upload);
        }),
    };
  }
}

/** Twice the value of `x`, or an error for a negative one. */
function double(record: Inputs): Outcome {
  const [value] = record.values();
  const x = Number(value?.kind === 'json' ? value.value : Number.NaN);
  if (!(x >= 0)) return { ok: false, error: badRequest(`x is ${x}`) };
  const data = new Float64Array([2 * x]);
  return { ok: true, outputs: [{ name: 'y', dtype: 'float64', shape: [1], data }] };
}
