/** Run by proxy.test.ts, one after the other: predictions over HTTPS, a record to SQS, and others that go through S3. */
import { InputQueue, ServingError } from '../../sdk/index.ts';

const url = process.argv[2] as string;
const options = {
  endpoint: url,
  queueUrl: `${url}/0/q`,
  region: 'local',
  bucket: 'bucket',
  frontendUrl: url,
};
const input = new InputQueue(options);
const large = { data: new Float32Array(300_000), shape: [300_000] };
const done: (string | undefined)[] = [];
for (const call of [
  async () => (await input.predict({ instances: [{}] }))[0],
  async () => (await input.enqueue('a', { x: 1 })).uri,
  async () => (await input.enqueue('b', { x: large })).uri,
  async () => (await input.predict({ instances: [{}] }))[0],
  async () => (await input.enqueue('c', { x: large })).uri,
])
  done.push(
    await call().catch((error: unknown) => {
      const { code, message } = ServingError.from(error);
      return `${code} ${message}`;
    }),
  );
await input.close();
process.stdout.write(JSON.stringify(done));
