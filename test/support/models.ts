/**
 * A process in which the models of test files run one after another. Starting one and loading onnxruntime takes most of an
 * import, so only tests of memory, limits and cancelling let each import have its own. It ends with this process.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ModelProcess } from '../../onnx-import/process/model-process.ts';
import type { Task } from '../../onnx-import/process/task.ts';
import { PADDING, PROBE, REWRITES } from '../../onnx-import/verify/tasks.ts';

/** An option of imports, also of those of a service, which itself always measures: that takes a process of its own. */
export const UNMEASURED = { measure: false } as const;

/** They are the same for the same files and the same questions. */
const REPEATABLE = new Set([REWRITES, PROBE, PADDING].map(({ name }) => name));
/** A folder with more than that is not compared with others. */
const MOST_BYTES = 4_000_000;
const MOST_FILES = 50;

/** Several services ask at the same time, and often about the same small model, which is verified once for all of them. */
class OneByOne extends ModelProcess {
  #last: Promise<unknown> = Promise.resolve();
  readonly #answers = new Map<string, unknown>();

  override ask<Request extends object, Answer>(
    ...[task, request, limits]: [Task<Request, Answer>, Request, Parameters<ModelProcess['ask']>[2]]
  ): Promise<Answer> {
    const asked = this.#last.then(async () => {
      const key = REPEATABLE.has(task.name) ? digestOf(task.name, request) : undefined;
      const before = key === undefined ? undefined : this.#answers.get(key);
      limits.signal?.throwIfAborted();
      if (before !== undefined) return structuredClone(before) as Answer;
      const answer = await super.ask(task, request, limits);
      if (key !== undefined) this.#answers.set(key, structuredClone(answer));
      return answer;
    });
    this.#last = asked.catch(() => undefined);
    return asked;
  }
}

/** A digest of the question and of all files beside the model, wherever they lie; undefined where they are many or large. */
function digestOf(task: string, request: object): string | undefined {
  const file: unknown = Reflect.get(request, 'file');
  if (typeof file !== 'string' || !existsSync(file)) return undefined;
  const folder = dirname(file);
  const digest = createHash('sha256').update(JSON.stringify([task, request]).replaceAll(folder, ''));
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  if (paths.length > MOST_FILES) return undefined;
  let bytes = 0;
  for (const path of paths) {
    const place = join(folder, path);
    const about = statSync(place);
    bytes += about.size;
    if (bytes > MOST_BYTES) return undefined;
    digest.update(`\0${path}\0`);
    if (about.isFile()) digest.update(readFileSync(place));
  }
  return digest.digest('hex');
}

export const models: ModelProcess = new OneByOne(new URL('../../release/process.ts', import.meta.url));
