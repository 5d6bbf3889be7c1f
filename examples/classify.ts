/**
 * Classifies images through the queue: enqueues every image of examples/digits and waits for the results. Prints the
 * shape of the prediction and the class of each image, as the quick start of Cluster Serving did.
 */
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { InputQueue, OutputQueue } from 'cluster-serving';

const IMAGES = fileURLToPath(new URL('./digits/images/', import.meta.url));

const input = new InputQueue();
const output = new OutputQueue({ url: process.env['CLUSTER_SERVING_REDIS'] ?? 'redis://localhost:10022' });
try {
  const names = (await readdir(IMAGES)).filter((name) => name.endsWith('.png')).sort();
  // Use a uri once, because its first result stays.
  const run = Date.now().toString(36);
  const uris = names.map((name) => `${basename(name, '.png')}-${run}`);
  await Promise.all(
    uris.map((uri, i) => input.enqueue(uri, { image: { path: join(IMAGES, names[i] as string) } })),
  );
  for (const [i, uri] of uris.entries()) {
    const { outputs } = await output.wait(uri, { timeoutMs: 30_000 });
    const probabilities = Array.from(outputs[0]?.data ?? [], Number);
    const best = probabilities.indexOf(Math.max(...probabilities));
    console.log(`${names[i]} prediction layer shape: (${outputs[0]?.shape.join(',')})`);
    console.log(`the class index of prediction of ${names[i]} image result: ${best}`);
  }
} finally {
  await Promise.all([input.close(), output.close()]);
}
