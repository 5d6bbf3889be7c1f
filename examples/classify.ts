/**
 * Classifies images through the queue: enqueues every image of examples/digits and waits for the results. Prints the
 * shape of the prediction and the class of each image, as the quick start of Cluster Serving did.
 */
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect, InputQueue, OutputQueue } from 'cluster-serving';

const IMAGES = fileURLToPath(new URL('./digits/images/', import.meta.url));

const url = process.env['CLUSTER_SERVING_URL'] ?? 'http://localhost:10020';
const { input, output } = process.env['CLUSTER_SERVING_STACK']
  ? await connect()
  : { input: new InputQueue({ frontendUrl: url }), output: new OutputQueue({ url }) };
try {
  const names = (await readdir(IMAGES)).filter((name) => name.endsWith('.png')).sort();
  const sent = await Promise.all(
    names.map((name) => input.enqueue(basename(name, '.png'), { image: { path: join(IMAGES, name) } })),
  );
  // A uri may be used again, as in a second run of this: the identity says which of its enqueues is waited for.
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
