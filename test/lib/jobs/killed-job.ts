/**
 * A job over files while its function and the server of queues and objects are killed again and again (SIGKILL), with an ONNX model and
 * the real clients: no row is missing, none is there twice, all are in order.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { JobPlace } from '../../../local/console/job-place.ts';
import { childEnvironment } from '../../support/environment.ts';
import { killAgain } from '../../support/faults/kills.ts';
import { lineModel } from '../../support/faults/model.ts';
import { type Random, seeded } from '../../support/faults/seeds.ts';
import { freePort } from '../../support/free-port.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { until } from '../../support/until.ts';
import { BUCKET, clientsOf, JOB, type Places, type Role } from './killed-process.ts';

const PROGRAM = fileURLToPath(new URL('killed-process.ts', import.meta.url));
const HOURS_MS = 3 * 3_600_000;
const MiB = 1024 * 1024;
/** V8 collects later what it may keep, so that memory would follow that of the machine. */
const HEAP_MB = 128;

/** A process that is started again whenever it ends. */
class Part {
  kills = 0;
  /** Its code and last output, for each time that it ended by itself. */
  readonly ownEnds: string[] = [];
  /** The most memory that it had, of all lives. */
  peakBytes = 0;
  readonly #role: Role;
  readonly #places: Places;
  #child: ChildProcess | undefined;
  #isReady = false;
  #isClosed = false;
  #running: Promise<void> | undefined;

  constructor(role: Role, places: Places) {
    this.#role = role;
    this.#places = places;
  }

  async start(): Promise<void> {
    this.#running = this.#run();
    await until(() => this.#isReady);
  }

  async kill(): Promise<boolean> {
    if (!this.#isReady) return false;
    this.kills++;
    this.#isReady = false;
    this.#child?.kill('SIGKILL');
    await until(() => this.#isReady || this.#isClosed);
    return true;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#child?.kill('SIGKILL');
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const child = fork(PROGRAM, [this.#role, JSON.stringify(this.#places)], {
        stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
        env: childEnvironment({}),
        execArgv: this.#role === 'jobs' ? [`--max-old-space-size=${HEAP_MB}`] : [],
      });
      this.#child = child;
      child.on('message', (message) => {
        if (message === 'ready') this.#isReady = true;
        else this.peakBytes = Math.max(this.peakBytes, Number(message));
      });
      let printed = '';
      child.stderr?.on('data', (piece) => {
        printed = (printed + piece).slice(-4_000);
      });
      const [code, signal] = await once(child, 'close');
      if (signal !== 'SIGKILL') this.ownEnds.push(`${code ?? signal}: ${printed}`);
      this.#isReady = false;
    }
  }
}

/** Each hundredth row is one that the model fails at, and each thousandth no JSON. */
function rowText(row: number): string {
  if (row % 1_000 === 7) return '{"x": oh';
  return `{"x":[${row % 65_536}],"k":[${row % 100 === 3 ? 99 : 1}]}`;
}

/** The answer of a row, as it is in the line. */
function expectedOf(row: number): string {
  if (row % 1_000 === 7) return 'bad_request';
  return row % 100 === 3 ? 'model_failed' : String(2 * (row % 65_536) + 1);
}

interface Line {
  readonly file: string;
  readonly row: number;
  readonly code?: string;
  readonly outputs?: { readonly y: readonly (readonly number[])[] };
}

export interface ThroughKills {
  readonly rows: number;
  /** Progress in rows between two kills of the function; 0: it is not killed. */
  readonly every: number;
  readonly seed: number;
}

/** @returns the most memory of the function in MiB */
export async function jobThroughKills(t: TestContext, { rows, every, seed }: ThroughKills): Promise<number> {
  const folder = await temporaryFolder(t);
  const model = join(folder, 'model.onnx');
  await writeFile(model, lineModel());
  const credentials = { accessKeyId: 'AKIDKILLED', secretAccessKey: 'made-up' };
  const places: Places = { port: await freePort(), credentials, dataDir: join(folder, 'data'), model };
  const parts = (['aws', 'jobs'] as const).map((role) => new Part(role, places));
  t.after(async () => void (await Promise.all(parts.map((part) => part.close()))));
  for (const part of parts) await part.start();
  const { s3, sqs } = clientsOf(places);
  sqs.destroy();
  t.after(async () => s3.destroy());
  const place = new JobPlace(s3, BUCKET, JOB, true);
  const half = Math.ceil(rows / 2);
  const texts = [0, half].map((first) =>
    Array.from({ length: Math.min(half, rows - first) }, (_, i) => rowText(first + i)),
  );
  for (const [i, lines] of texts.entries())
    await place.objects.putObject({ bucket: BUCKET, key: `in/f${i}.ndjson` }, Buffer.from(lines.join('\n')));
  await place.ask('j1', { input: `s3://${BUCKET}/in/`, output: `s3://${BUCKET}/out/` });
  const far = await killWhile(place, parts, { rows, every, random: seeded(seed) });
  const [server, jobs] = parts;
  t.diagnostic(
    `${rows} rows, ${far}; killed: server ${server?.kills}, function ${jobs?.kills}; ${Math.round((jobs?.peakBytes ?? 0) / MiB)} MiB`,
  );
  if (every > 0) assert.ok((jobs?.kills ?? 0) > 0 && (server?.kills ?? 0) > 0, 'nothing was killed');
  assert.deepEqual(jobs?.ownEnds, [], 'the function ended by itself');
  await assertLines(place, half, rows);
  return (jobs?.peakBytes ?? 0) / MiB;
}

async function killWhile(
  place: JobPlace,
  parts: readonly Part[],
  { rows, every, random }: Pick<ThroughKills, 'rows' | 'every'> & { readonly random: Random },
): Promise<string> {
  let done = 0;
  let isOver = false;
  const begun = performance.now();
  const kills =
    every === 0
      ? []
      : parts.map((part, i) =>
          // The server of all less often: each function that runs meanwhile fails.
          killAgain(
            { random, every: i === 0 ? 3 * every : every, progress: () => done, isOver: () => isOver },
            () => part.kill(),
          ),
        );
  await until(
    async () => {
      // The server is dead at the moment.
      const found = await place.state('j1').catch(() => undefined);
      if (found?.state === 'failed') assert.fail(found.error);
      done = found && 'progress' in found ? Math.max(done, found.progress?.rows ?? 0) : done;
      return found?.state === 'done';
    },
    HOURS_MS,
    250,
  );
  isOver = true;
  await Promise.all(kills);
  const seconds = (performance.now() - begun) / 1000;
  return `${seconds.toFixed(1)} s, ${Math.round(rows / seconds)} rows a second`;
}

async function assertLines({ objects }: JobPlace, half: number, rows: number): Promise<void> {
  const file = { bucket: BUCKET, key: 'out/results.ndjson', etag: '' };
  const bytes = await objects.size(file);
  assert.ok(bytes !== undefined);
  let row = 0;
  let rest = '';
  for (let at = 0; at < bytes; at += 8 * MiB) {
    // Lines are ASCII.
    const piece = await objects.read(file, at, Math.min(bytes, at + 8 * MiB));
    const lines: string[] = (rest + Buffer.from(piece).toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const text of lines) {
      const line: Line = JSON.parse(text);
      const [name, number] = row < half ? ['f0.ndjson', row + 1] : ['f1.ndjson', row - half + 1];
      const answer = line.code ?? String(line.outputs?.y[0]?.[0]);
      const expected = `${name} ${number} ${expectedOf(row)}`;
      if (`${line.file} ${line.row} ${answer}` !== expected) assert.fail(`${text} is not ${expected}`);
      row++;
    }
  }
  assert.equal(row, rows);
  assert.equal(rest, '');
}
