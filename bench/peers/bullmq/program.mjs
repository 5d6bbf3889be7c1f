/**
 * BullMQ and onnxruntime-node: jobs in, scores as return values. One program for both sides: as a client it fills the
 * queue and reads the outcomes of the jobs, as a worker it drains it. Each is a process of its own. Two ways to work:
 * one run for a job, as its documentation has it, with `concurrency`; and the jobs that are under way at once collected
 * into one run by hand (batches are part of BullMQ Pro, which is not public).
 */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { serveParent } from '../../processes/child.ts';

const installed = createRequire(`${process.env.BENCH_INSTALLED}/package.json`);
const { Queue, Worker } = await import(pathToFileURL(installed.resolve('bullmq')).href);

const QUEUE = 'bench';
const ADDED_AT_ONCE = 1_000;

let session;
let model;
let connection;

async function open(question) {
  ({ model, connection } = question);
  session = await InferenceSession.create(model.path, {
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  });
}

/** Jobs take turns with the rows; a job's row is its number modulo their count. */
async function fill({ jobs, rows }) {
  const queue = new Queue(QUEUE, { connection });
  for (let from = 0; from < jobs; from += ADDED_AT_ONCE) {
    const length = Math.min(ADDED_AT_ONCE, jobs - from);
    const bulk = Array.from({ length }, (_, i) => {
      const features = Array.from(rows[(from + i) % rows.length], (value) => Number(value.toPrecision(9)));
      return { name: 'predict', data: { number: from + i, features } };
    });
    await queue.addBulk(bulk);
  }
  await queue.close();
}

/** The results of all jobs, by number. */
async function results({ jobs }) {
  const queue = new Queue(QUEUE, { connection });
  const values = new Array(jobs);
  for (let from = 0; from < jobs; from += ADDED_AT_ONCE) {
    const done = await queue.getJobs(['completed'], from, from + ADDED_AT_ONCE - 1);
    for (const job of done) values[job.data.number] = job.returnvalue;
  }
  await queue.close();
  return values;
}

async function runRows(rows) {
  const data = new Float32Array(rows.length * rows[0].length);
  for (const [i, row] of rows.entries()) data.set(row, i * rows[0].length);
  const input = new Tensor('float32', data, [rows.length, ...model.rowShape]);
  const { scores } = await session.run({ [model.input]: input });
  const width = scores.dims[1];
  return rows.map((_, i) => Array.from(scores.data.subarray(i * width, (i + 1) * width)));
}

/** Jobs whose processor was called in the same turn of the event loop share a run. */
function batcher() {
  let waiting = [];
  const flush = async () => {
    const batch = waiting;
    waiting = [];
    try {
      const scores = await runRows(batch.map(({ row }) => row));
      for (const [i, { resolve }] of batch.entries()) resolve(scores[i]);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  };
  return (row) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(() => void flush());
      waiting.push({ row, resolve, reject });
    });
}

/** @returns ms from the start of the worker to its last job, and the processor time of this process */
async function drain({ jobs, concurrency, batched }) {
  const inBatch = batcher();
  const work = batched
    ? (job) => inBatch(job.data.features)
    : async (job) => (await runRows([job.data.features]))[0];
  const worker = new Worker(QUEUE, work, { connection, concurrency, autorun: false });
  await worker.waitUntilReady();
  const begin = performance.now();
  const cpuBegin = process.cpuUsage();
  let done = 0;
  const all = new Promise((resolve, reject) => {
    worker.on('completed', () => {
      if (++done === jobs) resolve();
    });
    worker.on('failed', (job, error) => reject(error));
    worker.on('error', reject);
  });
  const running = worker.run();
  await all;
  const ms = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpuBegin);
  await worker.close();
  await running;
  return { ms, cpuMs: (user + system) / 1000 };
}

serveParent({ open, fill, results, drain }, async () => session?.release());
