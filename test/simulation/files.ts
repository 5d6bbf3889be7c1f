/** Jobs over files of a deployment: files that somebody puts into S3 with a request, its events, the queue of jobs, and what they wrote. */
import { fileJobsPrefix } from '../../lib/contract/names.ts';
import { encodeObjectEvent } from '../../lib/notify/parcels.ts';
import type { FilesFact } from './history.ts';
import type { Choices } from './machine/random.ts';
import type { Scheduler } from './machine/scheduler.ts';
import type { S3Model } from './models/s3.ts';
import { SqsQueue } from './models/sqs.ts';
import { BUCKET, JOB, QUEUE_URL, type Stage } from './stage.ts';
import type { FilesStep, Plan } from './steps.ts';

const DAY_MS = 86_400_000;
const FILES_URL = `${QUEUE_URL}-jobs`;
/** No record has one of these numbers. */
const FIRST_NUMBER = 1_000_000;

export const FILES_VARIABLES: Readonly<Record<string, string>> = {
  CLUSTER_SERVING_JOBS_QUEUE_URL: FILES_URL,
};

type Surroundings = Pick<Stage, 'history' | 'tell'> & {
  readonly choices: Choices;
  readonly scheduler: Scheduler;
  readonly s3: S3Model;
  readonly nowMs: number;
};

export class Files {
  readonly queue: SqsQueue;
  readonly #stage: Surroundings;
  #jobs = 0;
  #number = FIRST_NUMBER;

  constructor(stage: Surroundings, { settings }: Plan, now: () => number) {
    this.#stage = stage;
    const visibilityMs = Math.max(90_000, 6_000 * settings.timeoutSeconds);
    const options = { name: 'job', visibilityMs, retentionMs: 14 * DAY_MS };
    this.queue = new SqsQueue(options, stage.choices, now);
  }

  queueOf(input: object): SqsQueue | undefined {
    const { QueueUrl }: { readonly QueueUrl?: string } = input;
    return QueueUrl === FILES_URL ? this.queue : undefined;
  }

  /** Somebody puts files and a request for a job over them. */
  begin({ rows }: FilesStep): void {
    const { s3, history, nowMs } = this.#stage;
    const id = `files-${++this.#jobs}`;
    const input = `data/${id}/`;
    const expected = rows.map((count, i) => ({
      file: `part-${i}.ndjson`,
      numbers: Array.from({ length: count }, () => this.#number++),
    }));
    for (const { file, numbers } of expected) {
      const Body = numbers.map((number) => JSON.stringify({ x: [number, 0] })).join('\n');
      s3.serve('PutObject', { Key: `${input}${file}`, Body });
    }
    history.files.push({ id, expected, atMs: nowMs });
    const asked = { input: `s3://${BUCKET}/${input}`, output: `s3://${BUCKET}/answers/${id}/` };
    const request = { Key: `${fileJobsPrefix(JOB)}in/${id}.job.json`, Body: JSON.stringify(asked) };
    s3.serve('PutObject', request);
    const total = rows.reduce((sum, count) => sum + count, 0);
    this.#stage.tell('operator', 'S3', `Somebody asks for ${id}: ${total} rows in ${rows.length} files.`, []);
    this.onPut(request);
  }

  /** S3 sends an event about each new object at least once, and sometimes late. */
  onPut(input: object): void {
    const { Key = '' }: { readonly Key?: string } = input;
    if (!Key.startsWith(`${fileJobsPrefix(JOB)}in/`)) return;
    const { choices, scheduler } = this.#stage;
    for (let count = choices.chance('files event', 0.2) ? 2 : 1; count > 0; count--) {
      const lateMs = choices.chance('files event', 0.1) ? choices.between('files event', 0, 60_000) : 0;
      const send = () => void this.queue.add(encodeObjectEvent(Key), {});
      scheduler.after(choices.between('files event', 50, 2_000) + lateMs, undefined, send);
    }
  }

  /** Reads what the jobs wrote. */
  readAll(): void {
    for (const fact of this.#stage.history.files) {
      const body = this.#stage.s3.objects.get(`answers/${fact.id}/results.ndjson`)?.body.toString();
      fact.lines = body?.split('\n').slice(0, -1).map(lineOf);
    }
  }
}

type Line = NonNullable<FilesFact['lines']>[number];

function lineOf(text: string): Line {
  const { file, row, outputs, model, error }: LineText = JSON.parse(text);
  const [number, version, place = 0] = Object.values(outputs ?? {}).flat(2);
  const answer = number === undefined || version === undefined ? undefined : { number, version, place };
  return { file, row, model, answer, error };
}

interface LineText {
  readonly file: string;
  readonly row: number;
  readonly outputs?: Readonly<Record<string, readonly (readonly number[])[]>>;
  readonly model?: string;
  readonly error?: string;
}
