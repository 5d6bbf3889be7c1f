/** Asks a model its golden requests, and says of each answer whether it is the right one. */
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { modelSettings } from '../../lib/compose/model.ts';
import { type OnnxRunner, openOnnx, RUNTIME } from '../../lib/compose/onnx.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { predictionTexts } from '../../lib/http/predictions.ts';
import { parseFilter } from '../../lib/pipeline/answer/postprocess.ts';
import { serveRequest } from '../../lib/pipeline/serve.ts';
import { type Difference, firstDifference } from './compare.ts';
import type { GoldenRequest } from './file.ts';

export interface GoldenSettings {
  /** Its settings of images, batching and postprocessing are part of what a request means. */
  readonly job: JobConfig;
  readonly verification: Verification | undefined;
}

/** Requests, and the model that is asked. */
export interface Asked extends GoldenSettings {
  readonly file: string;
  readonly requests: readonly GoldenRequest[];
}

export interface GoldenResult {
  readonly name: string;
  readonly tolerance: number;
  /** The first difference, and the instance that has it. */
  readonly difference?: Difference & { readonly instance: number };
  /** Why it may differ: numbers of threads and kernels under which it was made, and does not differ. */
  readonly because?: string | undefined;
  /** Why there is no answer. */
  readonly error?: string;
}

/** The threads of a job that sets none: the same on every machine, so that sums have the same order. */
const THREADS = 1;

/** @returns the model as it is asked. @throws model_unavailable */
export function openGolden({ file, job, verification }: Omit<Asked, 'requests'>): Promise<OnnxRunner> {
  return openOnnx(file, 'golden', { ...modelSettings(job, THREADS), verification });
}

/** Opens the model for its golden requests alone. @throws model_unavailable */
export async function answersTo(asked: Asked): Promise<GoldenResult[]> {
  const runner = await openGolden(asked);
  try {
    return await explained(await askRequests(runner, asked), asked);
  } finally {
    await runner.close();
  }
}

/** @returns one result for each request, in their order */
export async function askRequests(runner: OnnxRunner, asked: Asked): Promise<GoldenResult[]> {
  const filter = parseFilter(asked.job.postProcessing);
  const results: GoldenResult[] = [];
  for (const request of asked.requests) results.push(await ask(runner, request, filter));
  return results;
}

async function ask(
  runner: OnnxRunner,
  { name, body, predictions, tolerance }: GoldenRequest,
  filter: ReturnType<typeof parseFilter>,
): Promise<GoldenResult> {
  try {
    const outcomes = await serveRequest(decodeInstances(body), runner, {});
    const got = predictionTexts(outcomes, filter);
    const comparison = { outputs: runner.outputs.length, tolerance };
    const differences = predictions.map((expected, instance) => {
      const difference = firstDifference(expected, elementAt(got, instance, 'got'), comparison);
      return difference && { ...difference, instance };
    });
    const difference = differences.find((one) => one !== undefined);
    return { name, tolerance, ...(difference && { difference }) };
  } catch (error) {
    return { name, tolerance, error: ServingError.from(error).message };
  }
}

/** Says of answers that differ whether the number of threads makes the difference: sums of int8 may follow it. */
export async function explained(results: readonly GoldenResult[], run: Asked): Promise<GoldenResult[]> {
  const { file, requests, job, verification } = run;
  const { threads } = modelSettings(job, THREADS);
  const reasons = new Map<string, string[]>();
  const differing = requests.filter((_, i) => results[i]?.difference !== undefined);
  for (const { name, made } of differing) {
    const features = RUNTIME.features ?? [];
    const isElsewhere = made !== undefined && made.features.join() !== features.join();
    const shown = (names: readonly string[]) => names.join(', ') || 'no features that are known';
    const elsewhere = `it was recorded on a processor with ${shown(made?.features ?? [])}, and this one has ${shown(features)}`;
    reasons.set(name, isElsewhere ? [elsewhere] : []);
  }
  const counts = new Set([...differing.map(({ made }) => made?.threads ?? 2), 2]);
  counts.delete(threads);
  for (const count of differing.length > 0 ? counts : []) {
    const runner = await openOnnx(file, 'golden', {
      ...modelSettings(job, count),
      threads: count,
      verification,
    });
    for (const request of differing) {
      const { difference, error } = await ask(runner, request, parseFilter(job.postProcessing));
      const isCause = difference === undefined && error === undefined;
      const cause = `with ${count} threads the answer is the expected one, with ${threads} it is not: set threadPerModel, or record the request again`;
      if (isCause) reasons.get(request.name)?.push(cause);
    }
    await runner.close();
  }
  return results.map((result) => ({ ...result, because: reasons.get(result.name)?.join('; ') || undefined }));
}

export function isFailure({ difference, error }: GoldenResult): boolean {
  return difference !== undefined || error !== undefined;
}

/** One line for a person. */
export function goldenText(result: GoldenResult): string {
  const text = differenceText(result);
  return result.because === undefined ? text : `${text}; ${result.because}`;
}

function differenceText({ name, tolerance, difference, error }: GoldenResult): string {
  if (error !== undefined) return `${name}: failed: ${error}`;
  if (!difference) return `${name}: ok`;
  const { instance, output, element, expected, got, spread } = difference;
  const place = `${name}: instance ${instance}, output ${output}`;
  if (element === undefined) return `${place}: expected ${expected}, got ${got}`;
  const allowed = spread > 0 ? ` (tolerance ${tolerance} of the output's spread, ${spread})` : '';
  return `${place}, element ${element}: expected ${expected}, got ${got}${allowed}`;
}
