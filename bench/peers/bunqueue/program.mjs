/**
 * bunqueue and onnxruntime-node under Bun: jobs into one file of SQLite, each written before it counts as added, and scores as their
 * return values. A line of stdin is a drain, a line of stdout its outcome. Queue and worker are one process, as it is embedded.
 */
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { InferenceSession, Tensor } from 'onnxruntime-node';

const { BENCH_INSTALLED, BENCH_MODEL, BENCH_INPUT, BENCH_ROW_SHAPE, BENCH_DATA } = process.env;
const installed = createRequire(`${BENCH_INSTALLED}/package.json`);
const { Queue, Worker } = await import(pathToFileURL(installed.resolve('bunqueue/client')).href);

const ADDED_AT_ONCE = 1_000;
const rowShape = JSON.parse(BENCH_ROW_SHAPE);
const session = await InferenceSession.create(BENCH_MODEL, {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  extra: { session: { intra_op: { allow_spinning: '0' } } },
});
const place = { embedded: true, dataPath: `${BENCH_DATA}/jobs.db` };

async function predict({ data: { features } }) {
  const { scores } = await session.run({
    [BENCH_INPUT]: new Tensor('float32', Float32Array.from(features), [1, ...rowShape]),
  });
  return Array.from(scores.data);
}

/** Jobs take turns with the rows. @returns ms from the start of the worker to its last job, and the results by number */
async function drain({ queue: name, jobs, rows, concurrency }) {
  const queue = new Queue(name, place);
  for (let from = 0; from < jobs; from += ADDED_AT_ONCE) {
    const length = Math.min(ADDED_AT_ONCE, jobs - from);
    const jobOf = (number) => ({
      name: 'predict',
      data: { number, features: rows[number % rows.length] },
      opts: { durable: true },
    });
    await queue.addBulk(Array.from({ length }, (_, i) => jobOf(from + i)));
  }
  const results = Array.from({ length: jobs });
  const worker = new Worker(name, predict, { ...place, concurrency, batchSize: concurrency, autorun: false });
  let done = 0;
  const all = new Promise((resolve, reject) => {
    worker.on('completed', ({ data }, scores) => {
      results[data.number] = scores;
      if (++done === jobs) resolve();
    });
    worker.on('failed', (_, error) => reject(error));
    worker.on('error', reject);
  });
  const begin = performance.now();
  worker.run();
  await all;
  const ms = performance.now() - begin;
  await worker.close();
  queue.obliterate();
  await queue.close();
  return { ms, results };
}

for await (const line of createInterface({ input: process.stdin })) {
  const outcome = await drain(JSON.parse(line)).catch((error) => ({ error: String(error.stack ?? error) }));
  console.log(`\n${JSON.stringify(outcome)}`);
}
process.exit();
