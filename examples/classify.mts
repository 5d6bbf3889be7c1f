/**
 * Classifies images through the queue: enqueues every PNG of a folder, by default digits/images, and waits for the results.
 * Prints the shape of the prediction and the class of each image, as the quick start of Cluster Serving did.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect, InputQueue, OutputQueue } from 'cluster-serving';

const folder = process.argv[2] ?? fileURLToPath(new URL('./digits/images/', import.meta.url));

// The uris of this run are no other program's.
const run = crypto.randomUUID();
const url = process.env['CLUSTER_SERVING_URL'] ?? 'http://localhost:10020';
const { input, output } = process.env['CLUSTER_SERVING_STACK']
  ? await connect()
  : { input: new InputQueue({ frontendUrl: url }), output: new OutputQueue({ url }) };
try {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.png')).sort();
  const sent = await Promise.all(
    names.map((name) => input.enqueue(`${run}/${name}`, { image: { path: join(folder, name) } })),
  );
  // A uri may be used again: the identity says which of its enqueues is waited for.
  for (const [i, { uri, identity }] of sent.entries()) {
    const { outputs } = await output.wait(uri, { identity, timeoutMs: 30_000 });
    const probabilities = Array.from(outputs[0]?.data ?? [], Number);
    const best = probabilities.indexOf(Math.max(...probabilities));
    console.log(`${names[i]} prediction layer shape: (${outputs[0]?.shape.join(',')})`);
    console.log(`the class index of prediction of ${names[i]} image result: ${best}`);
  }
} finally {
  await Promise.all([input.close(), output.close()]);
}
