/**
 * Sends each digit image to a running stack twice: to POST /predict and through the queue. The first result of a uri
 * stays, so every run uses new uris.
 */

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { elementAt, present } from '../../lib/contract/present.ts';
import { setVariables, variables } from '../../lib/contract/variables.ts';
import { rankingOf } from '../../lib/pipeline/answer/postprocess.ts';
import { InputQueue, OutputQueue, type Result } from '../../sdk/index.ts';
import type { Stack } from './stack.ts';

interface SampleRow {
  readonly image: string;
  readonly uri: string;
  /** The digit in the image. */
  readonly label: number;
  readonly predict: Answer;
  readonly queue: Answer;
}

interface Answer {
  /** The index of the largest probability. */
  readonly class: number;
  readonly probability: number;
  readonly ms: number;
}

export interface SampleReport {
  readonly rows: readonly SampleRow[];
  /** The number of images for which both answers are the label. */
  readonly right: number;
}

const WAIT_MS = 20_000;

/** Runs every PNG of `directory` through both paths. @throws the service's error */
export async function runSample(stack: Stack, directory: string, token?: string): Promise<SampleReport> {
  const labels = JSON.parse(await readFile(join(directory, 'labels.json'), 'utf8')) as Record<string, number>;
  const images = (await readdir(join(directory, 'images'))).filter((name) => name.endsWith('.png')).sort();
  const { aws, job, queueUrl } = stack;
  // Credentials for the local SQS, because the SDK would look for real ones.
  const missing = Object.entries(aws.environment).filter(([name]) => variables[name] === undefined);
  setVariables(Object.fromEntries(missing));
  const input = new InputQueue({
    name: job,
    queueUrl,
    endpoint: aws.url,
    region: aws.region,
    frontendUrl: stack.url,
    ...(token === undefined ? {} : { token }),
  });
  const output = new OutputQueue({ name: job, url: stack.redisUrl });
  const run = Date.now().toString(36);
  try {
    const rows: SampleRow[] = [];
    for (const image of images) {
      const path = join(directory, 'images', image);
      const bytes = await readFile(path);
      const uri = `sample-${run}-${image}`;
      const direct = await timed(() => input.predict({ instances: [{ image: bytes.toString('base64') }] }));
      const queued = await timed(async () => {
        await input.enqueue(uri, { image: { path } });
        return output.wait(uri, { timeoutMs: WAIT_MS });
      });
      rows.push({
        image,
        uri,
        label: present(labels[image], image),
        predict: { ...bestOf(dataOfPrediction(elementAt(direct.value, 0, 'direct.value'))), ms: direct.ms },
        queue: { ...bestOf(dataOfResult(queued.value)), ms: queued.ms },
      });
    }
    return { rows, right: rows.filter(isRight).length };
  } finally {
    await Promise.all([input.close(), output.close()]);
  }
}

function isRight({ label, predict, queue }: SampleRow): boolean {
  return predict.class === label && queue.class === label && predict.probability === queue.probability;
}

async function timed<T>(work: () => Promise<T>): Promise<{ value: T; ms: number }> {
  const start = performance.now();
  const value = await work();
  return { value, ms: performance.now() - start };
}

/** Parses the numbers of `{value={"data":[...],"shape":[10]}}`. */
function dataOfPrediction(prediction: string): readonly number[] {
  return (JSON.parse(prediction.slice('{value='.length, -1)) as { data: number[] }).data.map(Math.fround);
}

function dataOfResult(result: Result): readonly number[] {
  return Array.from(result.outputs[0]?.data as Float32Array);
}

function bestOf(probabilities: readonly number[]): { class: number; probability: number } {
  const [best = 0] = rankingOf({ dtype: 'float32', data: Float32Array.from(probabilities) })(1);
  return { class: best, probability: elementAt(probabilities, best, 'probabilities') };
}

/** The report as a table. */
export function sampleTable({ rows, right }: SampleReport): string {
  const lines = rows.map(({ image, uri, label, predict, queue }) => {
    const mark = predict.class === label && queue.class === label ? '' : `  WRONG, it is a ${label}`;
    const answer = (name: string, { class: index, probability, ms }: Answer) =>
      `${name} class ${index} p ${probability.toFixed(4)} ${ms.toFixed(1).padStart(6)} ms`;
    return `  ${image}  ${answer('predict', predict)}   ${answer('queue', queue)}   ${uri}${mark}`;
  });
  return [...lines, `  ${right} of ${rows.length} right, both ways the same`].join('\n');
}
