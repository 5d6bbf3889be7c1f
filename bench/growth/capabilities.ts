/** Curves of what a service does beside its answers: jobs over files, captured requests, and notices. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, openResults } from '../../lib/compose/store.ts';
import { present } from '../../lib/contract/present.ts';
import type { Message } from '../../lib/jobs/store.ts';
import { encodeObjectEvent, readParcels } from '../../lib/notify/parcels.ts';
import { announceOutcomes } from '../../lib/results/announce.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { CaptureWriter } from '../../lib/s3/captures.ts';
import { openS3 } from '../../lib/s3/client.ts';
import { JobObjects } from '../../lib/s3/job-store.ts';
import { getBytes } from '../../lib/s3/objects.ts';
import { OutboxWriter } from '../../lib/s3/outbox.ts';
import { OutboxReader } from '../../lib/s3/outbox-reader.ts';
import { removeObjects } from '../../lib/s3/pages.ts';
import { copyCaptures } from '../../release/replay/copy.ts';
import { entriesOf } from '../../release/replay/file.ts';
import type { Work } from '../sample.ts';
import { captureTo } from '../scenarios/capture.ts';
import { assertTaken, jobsOf } from '../scenarios/jobs.ts';
import { CONTEXT, JOB, predictEvent, queueEvent, serve } from '../served.ts';
import { type Curve, sampled } from './curve.ts';
import { growingModel } from './models.ts';

const NUMBERS = 8;
const CHUNK = 100;
const RESULT_BYTES = 1e9;

/** The model of curves whose points make their own requests. */
const prepareMean: Curve['prepare'] = async (_, __, bench) => ({
  model: await growingModel('mean', 1, bench.folder),
  input: '',
  warm: '',
});

interface JobOfRows {
  readonly id: string;
  readonly rows: number;
}

/** A whole job: the function's messages are delivered to it one by one, the looks at its progress when nothing else is left. */
const jobs: Curve = {
  name: 'jobs',
  xLabel: 'rows of a job',
  series: { NDJSON: [1_000, 10_000, 100_000] },
  prepare: prepareMean,
  measure: sampled(async ({ x, redisUrl, endpoint, ...point }) => {
    const model = present(point.model, 'model');
    const served = serve(model, redisUrl, { batchSize: 256 });
    const s3 = openS3({ endpoint, region: 'local' });
    const store = new JobObjects(s3, JOB);
    const waiting: Message[] = [];
    const looks: Message[] = [];
    const handle = jobsOf(
      served,
      store,
      async (message) => void (message.do === 'watch' ? looks : waiting).push(message),
    );
    const deliver = async (body: string) => assertTaken('jobs', await handle(queueEvent([body]), CONTEXT));
    let made = 0;
    return {
      async input(warm) {
        const job = { id: `growth-${process.pid}-${made++}`, rows: warm ? 10 : x };
        const lines = Array.from({ length: job.rows }, (_, i) =>
          JSON.stringify({ [model.input]: Array<number>(NUMBERS).fill(i) }),
        );
        const key = `${job.id}.ndjson`;
        await store.putObject({ bucket: JOB, key }, Buffer.from(`${lines.join('\n')}\n`));
        const request = { input: `s3://${JOB}/${key}`, output: `s3://${JOB}/${job.id}/` };
        await store.put(`jobs/${JOB}/in/${job.id}.job.json`, JSON.stringify(request));
        return job;
      },
      async call({ id }) {
        await deliver(encodeObjectEvent(`jobs/${JOB}/in/${id}.job.json`));
        for (let next = waiting.shift() ?? looks.shift(); next; next = waiting.shift() ?? looks.shift())
          await deliver(JSON.stringify(next));
      },
      async check(_, { id, rows }) {
        const results = await getBytes(s3, { bucket: JOB, key: `${id}/results.ndjson` }, RESULT_BYTES);
        const lines = Buffer.from(results).toString().split('\n').slice(0, -1);
        assert.equal(lines.length, rows);
        const last: { outputs: Record<string, readonly (readonly number[])[]> } = JSON.parse(
          lines.at(-1) ?? '',
        );
        assert.equal(last.outputs[model.output]?.flat()[0], rows - 1);
      },
      close: async () => {
        s3.destroy();
        await served.close();
      },
    } satisfies Work<JobOfRows, void>;
  }),
};

const captures: Curve = {
  name: 'captures',
  xLabel: 'captured requests',
  series: { 'captured, copied and read': [100, 1_000, 10_000] },
  prepare: prepareMean,
  measure: sampled(async ({ x, redisUrl, endpoint, ...point }) => {
    const model = present(point.model, 'model');
    const s3 = openS3({ endpoint, region: 'local' });
    const captured = { job: JOB };
    const reader = new CaptureReader(s3, JOB, captured);
    const version = `growth-${process.pid}`;
    const writer = new CaptureWriter(s3, { bucket: JOB, now: Date.now, id: version });
    const observer = captureTo(writer, { job: JOB, version, share: 1 }, { lines: 0 });
    const served = serve(model, redisUrl, { batchSize: 1, observers: [observer] });
    const folder = await mkdtemp(join(tmpdir(), 'captures-'));
    const file = join(folder, 'copy');
    const event = predictEvent(
      JSON.stringify({ instances: [{ [model.input]: Array<number>(NUMBERS).fill(1) }] }),
    );
    let requests = 0;
    return {
      async input(warm) {
        for await (const page of reader.pages({ version }))
          await removeObjects(
            s3,
            JOB,
            page.map(({ key }) => key),
          );
        return warm ? 1 : x;
      },
      async call(count) {
        for (let i = 0; i < count; i++) {
          observer.functionCalled({ ids: {}, messages: undefined, bytes: () => 0 });
          await served.predict(event, { ...CONTEXT, awsRequestId: `request-${requests++}` });
          await observer.flush();
        }
        await observer.close();
        await copyCaptures(file, { version }, { captures: reader });
        let read = 0;
        for await (const entry of entriesOf(file, captured)) if ('line' in entry) read++;
        return read;
      },
      check: (read, count) => assert.equal(read, count),
      close: async () => {
        await rm(folder, { recursive: true });
        s3.destroy();
        await served.close();
      },
    } satisfies Work<number, number>;
  }),
};

const notices: Curve = {
  name: 'notices',
  xLabel: 'records with a target',
  series: { 'stored and announced': [100, 1_000, 10_000] },
  prepare: async () => ({ input: '', warm: '' }),
  measure: sampled(async ({ x, redisUrl, endpoint }) => {
    const s3 = openS3({ endpoint, region: 'local' });
    const results = openResults(connect({ redisUrl }), { job: JOB, ttlSeconds: 600, now: Date.now });
    const job = `growth-${process.pid}`;
    const [writer, reader] = [new OutboxWriter(s3, JOB, job), new OutboxReader(s3, JOB, job)];
    const targets = { shop: { url: 'https://shop.example/' } };
    const put: OutboxWriter['put'] = (several) => writer.put(several);
    const sink = resultSink(results, {
      announce: announceOutcomes({ targets, results, put, job, place: JOB }),
    });
    const data = new Float32Array(10);
    const outputs = [{ name: 'y', dtype: 'float32' as const, shape: [10], data }];
    let made = 0;
    return {
      async input(warm) {
        for await (const page of reader.pages()) await reader.remove(page.map(({ key }) => key));
        return Array.from({ length: warm ? 1 : x }, (_, i) => ({
          id: `m${i}`,
          uri: `${job}-${made++}`,
          enqueue: { identity: `i-${made}`, sentAt: 1, replays: 0, notify: 'shop' },
          outcome: { ok: true as const, outputs },
        }));
      },
      async call(finished) {
        for (let at = 0; at < finished.length; at += CHUNK)
          assert.deepEqual(await sink.save(finished.slice(at, at + CHUNK), 'v1'), []);
        let read = 0;
        for await (const page of reader.pages())
          for (const { key } of page)
            read += (await readParcels(encodeObjectEvent(key), (of) => reader.read(of))).parcels.length;
        return read;
      },
      check: (read, finished) => assert.equal(read, finished.length),
      close: async () => {
        s3.destroy();
        await results.close();
      },
    } satisfies Work<Parameters<typeof sink.save>[0], number>;
  }),
};

export const CAPABILITY_CURVES: readonly Curve[] = [jobs, captures, notices];
