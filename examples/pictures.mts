/**
 * Classifies the pictures of a folder, and of the folders in it: `node pictures.mts <folder> > classes.csv`. A few are in
 * flight at a time, and no more of them in memory. A picture that fails is a line with its error. The uris begin with a
 * name of this run, and each wait is for one enqueue, so the results of other programs are left alone.
 */
import { readdir } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { connect, InputQueue, OutputQueue, type Result, ServingError } from 'cluster-serving';

const IN_FLIGHT = 32;
const TIMEOUT_MS = 120_000;
/** Without them, every other picture would fail as well. */
const OF_ALL = ['unauthorized', 'forbidden', 'bad_config', 'queue_unavailable', 'results_unavailable'];

const folder = process.argv[2];
if (folder === undefined) throw new Error('which folder? node pictures.mts <folder> > classes.csv');

const url = process.env['CLUSTER_SERVING_URL'] ?? 'http://localhost:10020';
const { input, output } = process.env['CLUSTER_SERVING_STACK']
  ? await connect()
  : { input: new InputQueue({ frontendUrl: url }), output: new OutputQueue({ url }) };

const names = (await readdir(folder, { recursive: true }))
  .filter((name) => /\.(jpe?g|png)$/i.test(name))
  .sort();
const run = `${basename(resolve(folder))}-${crypto.randomUUID().slice(0, 8)}`;
let done = 0;
let failed = 0;

/**
 * The likeliest class and its probability: of a filter `topN(n)` the first entry, with its label if there are labels;
 * otherwise the largest value of the first output.
 */
function bestOf({ filtered, outputs }: Result): [label: string | number, probability: number] {
  const [first] = outputs;
  // The data of a float16 is its bits.
  const all = first && /^float(32|64)$/.test(first.dtype) ? Array.from(first.data, Number) : [];
  const probability = Math.max(...all);
  const found: unknown = Array.isArray(filtered) ? filtered[0] : [all.indexOf(probability), probability];
  const [index, value, label = index] = found as [number, number, string?];
  if (!Number.isFinite(value)) throw new ServingError('bad_model', 'expected probabilities');
  return [label, value];
}

const cell = (value: string | number) => `"${String(value).replaceAll('"', '""')}"`;

async function classify(name: string): Promise<void> {
  const uri = `${run}/${name}`;
  try {
    const { identity } = await input.enqueue(uri, { image: { path: join(folder as string, name) } });
    const [label, probability] = bestOf(await output.wait(uri, { identity, timeoutMs: TIMEOUT_MS }));
    console.log(`${cell(uri)},${cell(label)},${probability},`);
  } catch (error) {
    if (!(error instanceof ServingError) || OF_ALL.includes(error.code)) throw error;
    console.log(`${cell(uri)},,,${cell(`${error.code}: ${error.message}`)}`);
    failed++;
  }
  done++;
  process.stderr.write(`\r${done} of ${names.length} pictures, ${failed} failed`);
}

try {
  console.log('uri,label,probability,error');
  // Each of these takes the next name until there is none.
  const left = names.values();
  const next = async () => {
    for (const name of left) await classify(name);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, next));
  process.stderr.write('\n');
  if (failed > 0) process.exitCode = 1;
} finally {
  await Promise.all([input.close(), output.close()]);
}
