/**
 * Processes many records: a generator creates them, `enqueueMany` sends them ten per call, and `drain` yields the
 * results as they arrive, in constant memory.
 */
import { connect, InputQueue, OutputQueue } from 'cluster-serving';

const COUNT = Number(process.argv[2] ?? 200);

function* records(run: string) {
  for (let i = 0; i < COUNT; i++) {
    const pixels = Float32Array.from({ length: 3 * 8 * 8 }, (_, j) => (i * 31 + j * 7) % 256);
    yield { uri: `${run}-${i}`, inputs: { image: { data: pixels, shape: [3, 8, 8] } } };
  }
}

const redis = process.env['CLUSTER_SERVING_REDIS'] ?? 'redis://localhost:10022';
const { input, output } = process.env['CLUSTER_SERVING_STACK']
  ? await connect()
  : { input: new InputQueue(), output: new OutputQueue({ url: redis }) };
try {
  const run = `batch-${Date.now().toString(36)}`;
  await input.enqueueMany(records(run), (sent) => process.stderr.write(`\r${sent} of ${COUNT} sent`));
  process.stderr.write('\n');
  const classes = new Map<number, number>();
  const deadline = Date.now() + 60_000;
  for (let got = 0; got < COUNT && Date.now() < deadline; ) {
    for await (const one of output.drain()) {
      // The job may hold results of others.
      if (!one.uri.startsWith(run)) continue;
      if ('error' in one) throw one.error;
      const values = Array.from(one.result.outputs[0]?.data ?? [], Number);
      const best = values.indexOf(Math.max(...values));
      classes.set(best, (classes.get(best) ?? 0) + 1);
      got++;
    }
    if (got < COUNT) await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const counted = [...classes.values()].reduce((sum, count) => sum + count, 0);
  console.log(`${counted} results`);
  for (const [digit, count] of [...classes].toSorted(([a], [b]) => a - b))
    console.log(`  class ${digit}: ${count}`);
} finally {
  await Promise.all([input.close(), output.close()]);
}
