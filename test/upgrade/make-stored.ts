/**
 * Makes stored/: what ae017ae leaves in Redis, S3 and SQS, and what it answers when it runs on that data again. Running
 * it again produces the same files.
 *
 * Usage: node test/upgrade/make-stored.ts <a checkout of ae017ae with its node_modules>
 */
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dumpBucket, dumpRedis, Ids } from './make/dump.ts';
import { recordRequests, requests } from './make/requests.ts';
import { makeStates, STRANGE_URI } from './make/states.ts';
import { load, OLD_COMMIT, oldCode } from './old-code.ts';
import { QUESTIONS } from './questions.ts';
import { readStored, STORED } from './stored.ts';
import { openWorld } from './world.ts';

const MOST_BYTES = 200_000;
const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

interface Pngs {
  readonly writePng: (image: {
    readonly width: number;
    readonly height: number;
    readonly depth: number;
    readonly colourType: number;
    readonly sample: (x: number, y: number) => readonly number[];
  }) => Uint8Array;
}

async function write(name: string, content: unknown): Promise<void> {
  await writeFile(new URL(name, STORED), JSON.stringify(content));
}

/** With the project's formatter. */
function format(): void {
  execFileSync(join(PROJECT, 'node_modules/.bin/biome'), ['format', '--write', fileURLToPath(STORED)]);
}

async function makeData(root: string): Promise<void> {
  const product = await oldCode(root);
  const { writePng } = await load<Pngs>(root, 'test/support/png.ts');
  const sample = (x: number, y: number) => [10 * x, 20 * y, 30];
  const png = writePng({ width: 2, height: 2, depth: 8, colourType: 2, sample });
  const world = await openWorld(product);
  try {
    const ids = new Ids();
    const { events, leaseId, versions } = await makeStates(root, world, ids, png);
    await write('redis.json', await dumpRedis(world.redis, ids));
    await write('s3.json', await dumpBucket(world.aws.s3, world.bucket, ids));
    await write('sqs.json', events);
    await write('http.json', await recordRequests(root, requests(png, STRANGE_URI)));
    await write('facts.json', { leaseId, versions });
  } finally {
    await world.close();
  }
}

async function makeAnswers(root: string): Promise<void> {
  const world = await openWorld(await oldCode(root));
  try {
    const stored = await readStored();
    const answers: Record<string, unknown> = {};
    for (const { name, ask } of QUESTIONS) {
      await world.restore(stored);
      answers[name] = await ask(world, stored);
    }
    await write('answers.json', answers);
  } finally {
    await world.close();
  }
}

const [checkout] = process.argv.slice(2);
if (checkout === undefined) throw new Error('which checkout? node test/upgrade/make-stored.ts <folder>');
const root = resolve(checkout);
const commit = execFileSync('git', ['rev-parse', '--short=7', 'HEAD'], { cwd: root }).toString().trim();
if (commit !== OLD_COMMIT) throw new Error(`${root} is at ${commit}, expected ${OLD_COMMIT}`);
await mkdir(STORED, { recursive: true });
await makeData(root);
await makeAnswers(root);
format();
let bytes = 0;
for (const name of await readdir(STORED)) bytes += (await stat(new URL(name, STORED))).size;
if (bytes > MOST_BYTES) throw new Error(`${bytes} bytes are over ${MOST_BYTES}`);
console.log(`${bytes} bytes in ${fileURLToPath(STORED)}`);
