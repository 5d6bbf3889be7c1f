/** Asks a model one request through each endpoint, then its golden requests. Runs in a process that can be killed. */

import { parseFilter } from '../../lib/pipeline/answer/postprocess.ts';
import { assertReachable, type GateOptions, withoutPrompts } from '../gate/gate.ts';
import { type AnsweredSample, type SampleOptions, sampleRequest } from '../gate/sample.ts';
import { type Asked, askRequests, explained, type GoldenResult, openGolden } from './ask.ts';

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

export interface GoldenRun extends Asked {
  /** Its inputs of unknown rank; undefined where the model was asked through each endpoint before. */
  readonly gate: GateRun | undefined;
}

/** @throws model_unavailable when the model does not open; bad_model when no request reaches it */
export async function runGolden(run: GoldenRun): Promise<GoldenAnswer> {
  const { file, gate, job } = run;
  const filter = parseFilter(job.postProcessing);
  const startedMs = performance.now();
  const runner = await openGolden(run);
  const openMs = performance.now() - startedMs;
  let results: GoldenResult[] = [];
  let sample: AnsweredSample | undefined;
  try {
    if (gate) {
      const { inputAlreadyBatched } = job;
      const options = { ...gate, inputAlreadyBatched, filter, image: runner.image };
      const feeds = await assertReachable(file, runner, options);
      if (feeds && gate.sample)
        sample = await sampleRequest(withoutPrompts(runner), feeds, { ...options, ...gate.sample });
    }
    results = await askRequests(runner, run);
  } finally {
    await runner.close();
  }
  return { openMs, results: await explained(results, run), sample };
}
