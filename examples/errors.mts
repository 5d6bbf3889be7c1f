/** What comes back when something is wrong: test `code`, show `message`. */
import { connect, InputQueue, OutputQueue, ServingError } from 'cluster-serving';

const url = process.env['CLUSTER_SERVING_URL'] ?? 'http://localhost:10020';
const run = Date.now().toString(36);

const { input, output } = process.env['CLUSTER_SERVING_STACK']
  ? await connect()
  : { input: new InputQueue({ frontendUrl: url }), output: new OutputQueue({ url }) };

async function show(what: string, work: () => Promise<unknown>): Promise<void> {
  try {
    console.log(`${what}:`, await work());
  } catch (error) {
    if (!(error instanceof ServingError)) throw error;
    console.log(`${what}: ${error.code} (${error.status}) ${error.message}`);
  }
}

try {
  await show('a shape that does not fit', () => input.predict({ instances: [{ image: [1, 2, 3] }] }));

  await input.enqueue(`bad-${run}`, { image: [1, 2, 3] });
  await show('the same through the queue', () => output.wait(`bad-${run}`));

  await show('too late to cancel', () => output.cancel(`bad-${run}`));

  await show('no result yet', () => output.query(`nobody-${run}`));

  await show('a wait that ends', () => output.wait(`nobody-${run}`, { timeoutMs: 50 }));

  await show('cancelled before anybody sent it', async () => {
    await output.cancel(`late-${run}`);
    return output.status(`late-${run}`);
  });
} finally {
  await Promise.all([input.close(), output.close()]);
}
