/** Refuses a model whose answers are not those of its golden requests. The model runs in a process that can be killed. */
import { badModel } from '../../lib/contract/errors.ts';
import { type GivenShapes, readFacts } from '../../onnx-import/index.ts';
import { inModelProcess, type ModelProcess, withModelProcess } from '../../onnx-import/process.ts';
import type { AnsweredSample } from '../gate/sample.ts';
import { newModelProcess } from '../model-process.ts';
import { type GoldenSettings, goldenText, isFailure } from './ask.ts';
import { goldenRequests } from './file.ts';
import type { GateRun, GoldenAnswer } from './run.ts';
import { GOLDEN } from './tasks.ts';

const LIMIT_MS = 300_000;

/** Golden requests of the version that serves now. */
interface ServedGolden {
  readonly version: string;
  /** Laid out like a model directory. */
  readonly directory: string;
}

interface GoldenOptions extends GoldenSettings {
  /** The model's file. Its folder need not be that of the requests. */
  readonly file: string;
  /** True: also asks one made-up request through each endpoint. Default false. */
  readonly gate?: boolean | undefined;
  /** Shapes of the inputs, for that request, where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
  /** Also asks for a request that a person can paste. */
  readonly sample?: GateRun['sample'];
  readonly signal?: AbortSignal | undefined;
  /** Asked as well. Default: none. */
  readonly kept?: ServedGolden | undefined;
  /** Where the model runs. Default: a process of its own. */
  readonly process?: ModelProcess | undefined;
}

/**
 * One result for each golden request of `directory`, in the order of their names, and the sample that was asked for.
 * @throws bad_model when a file is not a golden request, or the model does not run; the signal's reason
 */
export async function goldenAnswer(
  directory: string,
  { file, job, verification, gate: isAsked = false, sizes, sample, kept, signal, process }: GoldenOptions,
): Promise<GoldenAnswer> {
  const requests = await goldenRequests(directory, kept?.directory);
  if (requests.length === 0 && !isAsked) return { openMs: 0, results: [] };
  const gate = isAsked ? { shapeless: (await readFacts(file)).shapelessInputs, sizes, sample } : undefined;
  const run = { file, requests, gate, job, verification };
  const limits = { ms: LIMIT_MS, signal };
  const ask = (given: ModelProcess) => inModelProcess(GOLDEN, run, limits, given);
  return withModelProcess(process, ask, newModelProcess);
}

/** @returns how many there are, and the sample. @throws bad_model with what was expected and what came */
export async function assertGolden(
  directory: string,
  options: GoldenOptions,
): Promise<{ readonly count: number; readonly sample: AnsweredSample | undefined }> {
  const { results, sample } = await goldenAnswer(directory, options);
  const failed = results.filter(isFailure);
  if (failed.length === 0) return { count: results.length, sample };
  const lines = failed.map((result) => `  ${goldenText(result)}`).join('\n');
  const own = new Set((await goldenRequests(directory)).map(({ name }) => name));
  const served = options.kept && failed.some(({ name }) => !own.has(name)) ? advice(options.kept) : '';
  throw badModel(
    `${failed.length} of ${results.length} golden requests got another answer, so this version does not serve:\n${lines}${served}`,
  );
}

function advice({ version }: ServedGolden): string {
  return `\nVersion ${version}, which serves, brought golden requests that this directory does not have. If its answers may change, record them again in this directory under the same names, or pass --drop-golden to \`model push\`, \`start\` or \`serverless publish\`.`;
}
