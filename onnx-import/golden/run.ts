/** Asks a model one request through each endpoint, then its golden requests. Runs in a process that can be killed. */
import { decodeInstances } from '../../lib/codecs/instances.ts';
import { modelSettings } from '../../lib/compose/model.ts';
import { type OnnxRunner, openOnnx, RUNTIME } from '../../lib/compose/onnx.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { predictionTexts } from '../../lib/http/predictions.ts';
import { parseFilter } from '../../lib/pipeline/answer/postprocess.ts';
import { serveRequest } from '../../lib/pipeline/serve.ts';
import { assertReachable, type GateOptions, withoutPrompts } from '../verify/gate.ts';
import { type AnsweredSample, type SampleOptions, sampleRequest } from '../verify/sample.ts';
import { type Difference, firstDifference } from './compare.ts';
import type { GoldenRequest } from './file.ts';

export interface GoldenSettings {
  /** Its settings of images, batching and postprocessing are part of what a request means. */
  readonly job: JobConfig;
  readonly verification: Verification | undefined;
}

export interface GateRun extends Pick<GateOptions, 'shapeless' | 'sizes'> {
  /** Asks for a request that a person can paste, of a model with these inputs of pictures. */
  readonly sample?: Pick<SampleOptions, 'pictures'> | undefined;
}

export interface GoldenAnswer {
  /** How long opening the model took, with its warm-up. */
  readonly openMs: number;
  readonly results: readonly GoldenResult[];
  readonly sample?: AnsweredSample | undefined;
}

export interface GoldenRun extends GoldenSettings {
  readonly file: string;
  readonly requests: readonly GoldenRequest[];
  /** Its inputs of unknown rank; undefined where the model was asked through each endpoint before. */
  readonly gate: GateRun | undefined;
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

/** Of a job that sets none: the same on every machine, so that sums have the same order. */
const THREADS = 1;

/** @throws model_unavailable when the model does not open; bad_model when no request reaches it */
export async function runGolden(run: GoldenRun): Promise<GoldenAnswer> {
  const { file, requests, gate, job, verification } = run;
  const filter = parseFilter(job.postProcessing);
  const startedMs = performance.now();
  const runner = await openOnnx(file, 'golden', { ...modelSettings(job, THREADS), verification });
  const openMs = performance.now() - startedMs;
  const results: GoldenResult[] = [];
  let sample: AnsweredSample | undefined;
  try {
    if (gate) {
      const { inputAlreadyBatched } = job;
      const options = { ...gate, inputAlreadyBatched, filter, image: runner.image };
      const feeds = await assertReachable(file, runner, options);
      if (feeds && gate.sample)
        sample = await sampleRequest(withoutPrompts(runner), feeds, { ...options, ...gate.sample });
    }
    for (const request of requests) results.push(await ask(runner, request, filter));
  } finally {
    await runner.close();
  }
  return { openMs, results: await explained(results, run), sample };
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
      const difference = firstDifference(expected, got[instance] as string, comparison);
      return difference && { ...difference, instance };
    });
    const difference = differences.find((one) => one !== undefined);
    return { name, tolerance, ...(difference && { difference }) };
  } catch (error) {
    return { name, tolerance, error: ServingError.from(error).message };
  }
}

/** Says of answers that differ whether the number of threads makes the difference: sums of int8 may follow it. */
async function explained(results: readonly GoldenResult[], run: GoldenRun): Promise<GoldenResult[]> {
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
