/** Which targets of notices are paused: an object of the job's bucket for each. */
import { pausedPrefix } from '../contract/names.ts';
import { getText, putText, type S3Client } from './objects.ts';
import { listPages, removeObjects } from './pages.ts';

/** How long a target counts as not paused. One that is paused is asked for each time, so that it can go on at once. */
const KEPT_MS = 10_000;

export class PausedTargets {
  readonly #s3: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #now: () => number;
  readonly #asked = new Map<string, { readonly atMs: number; readonly isPaused: Promise<boolean> }>();

  /** @param now a clock in ms */
  constructor(s3: S3Client, { bucket, job, now }: { bucket: string; job: string; now: () => number }) {
    this.#s3 = s3;
    this.#bucket = bucket;
    this.#prefix = pausedPrefix(job);
    this.#now = now;
  }

  /** @throws S3's error */
  isPaused(target: string): Promise<boolean> {
    const asked = this.#asked.get(target);
    if (asked && this.#now() - asked.atMs < KEPT_MS) return asked.isPaused;
    const isPaused = getText(this.#s3, this.#address(target)).then((text) => text !== undefined);
    this.#asked.set(target, { atMs: this.#now(), isPaused });
    const forget = () => this.#asked.delete(target);
    isPaused.then((paused) => paused && forget(), forget);
    return isPaused;
  }

  async pause(target: string, reason: string): Promise<void> {
    await putText(this.#s3, this.#address(target), JSON.stringify({ reason }));
    this.#asked.delete(target);
  }

  async list(): Promise<string[]> {
    const names: string[] = [];
    for await (const page of listPages(this.#s3, this.#bucket, this.#prefix))
      names.push(...page.map(({ key }) => key.slice(this.#prefix.length)));
    return names;
  }

  async resume(target: string): Promise<void> {
    await removeObjects(this.#s3, this.#bucket, [this.#address(target).key]);
    this.#asked.delete(target);
  }

  #address(target: string) {
    return { bucket: this.#bucket, key: this.#prefix + target };
  }
}
