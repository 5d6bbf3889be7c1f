/** The jobs over files of a service: what their objects say of each. */
import { fileJobsPrefix } from '../../lib/contract/names.ts';
import type { Begun } from '../../lib/jobs/begin.ts';
import { readPart } from '../../lib/jobs/cover.ts';
import { countProgress } from '../../lib/jobs/progress.ts';
import { type JobRequest, keysOf, type Progress, readRequest, type Summary } from '../../lib/jobs/request.ts';
import { readJson } from '../../lib/jobs/store.ts';
import { JobObjects } from '../../lib/s3/job-store.ts';
import type { S3Client } from '../../lib/s3/objects.ts';

/** As lib/jobs/run.ts writes it. */
const ERROR = /^\{"file":"(?:[^"\\]|\\.)*","row":\d+,"error":/;
const EXAMPLES = 3;

export type JobState =
  | { readonly state: 'done'; readonly summary: Summary }
  | {
      readonly state: 'failed';
      readonly error: string;
      /** Some rows whose answer is an error. */
      readonly examples: readonly string[];
      readonly progress: Progress | undefined;
    }
  | { readonly state: 'cancelled' | 'running' | 'waiting'; readonly progress: Progress | undefined };

export class JobPlace {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly job: string;
  /** True for a single machine, where nothing costs anything. */
  readonly isLocal: boolean;
  readonly objects: JobObjects;

  constructor(s3: S3Client, bucket: string, job: string, isLocal: boolean) {
    this.s3 = s3;
    this.bucket = bucket;
    this.job = job;
    this.isLocal = isLocal;
    this.objects = new JobObjects(s3, bucket);
  }

  keys(id: string) {
    return keysOf(this.job, id);
  }

  ids(): Promise<string[]> {
    return this.objects.folders(`${fileJobsPrefix(this.job)}run/`);
  }

  /** Asks the functions for a job, or to go on with it. */
  async ask(id: string, request: JobRequest): Promise<void> {
    const key = `${fileJobsPrefix(this.job)}in/${id}.job.json`;
    await this.objects.put(key, JSON.stringify(request));
  }

  /** Functions notice it within seconds. */
  cancel(id: string): Promise<void> {
    return this.objects.put(this.keys(id).cancelled, JSON.stringify({ atMs: Date.now() }));
  }

  /** @returns undefined where there is no such job */
  async request(id: string): Promise<JobRequest | undefined> {
    const { manifest } = this.keys(id);
    const kept = await this.objects.text(manifest);
    const asked = kept ?? (await this.objects.text(`${fileJobsPrefix(this.job)}in/${id}.job.json`));
    return asked && readRequest(asked.text);
  }

  /** The lines of a part that are errors. */
  async #examples(id: string): Promise<string[]> {
    const { objects, bucket } = this;
    const { parts } = this.keys(id);
    for await (const page of objects.pages({ bucket, key: parts })) {
      for (const { key, bytes } of page) {
        if (!readPart(key.slice(parts.length), bytes)?.errors) continue;
        const text = Buffer.from(await objects.read({ bucket, key, etag: '' }, 0, bytes)).toString();
        return text
          .split('\n')
          .filter((line) => ERROR.test(line))
          .slice(0, EXAMPLES);
      }
    }
    return [];
  }

  async state(id: string): Promise<JobState> {
    const keys = this.keys(id);
    const { objects, bucket } = this;
    const done = await readJson<Summary>(objects, keys.summary);
    if (done) return { state: 'done', summary: done };
    const [error, end, begun] = await Promise.all([
      readJson<{ readonly error: string }>(objects, keys.failed),
      objects.text(keys.cancelled),
      readJson<Begun>(objects, keys.begun),
    ]);
    const progress = begun && (await countProgress(keys, begun, { store: objects, bucket })).progress;
    if (error) return { state: 'failed', error: error.error, examples: await this.#examples(id), progress };
    if (end) return { state: 'cancelled', progress };
    return { state: progress ? 'running' : 'waiting', progress };
  }
}
