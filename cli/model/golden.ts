/**
 * `model golden`: records requests with their right answers in a model directory, lists them, and asks the model. Each
 * way to make a version serve asks them too, so an update that changes the answers is refused.
 */
import { statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, dirname, resolve } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { isRemote } from '../../lib/config/model-path.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { processorFeatures } from '../../lib/inference/processor.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import type { ConvertOptions } from '../../onnx-import/index.ts';
import {
  DEFAULT_TOLERANCE,
  type GoldenRequest,
  goldenRequests,
  writeGolden,
} from '../../release/golden/file.ts';
import type { ImportOptions } from '../../release/import.ts';
import { wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { inputText, readInput } from '../records.ts';
import { findService, notRunning, post, type ServiceValues, textsOf } from '../service.ts';
import { withImport } from './import.ts';

export interface GoldenValues extends ServiceValues {
  readonly request?: string | undefined;
  readonly reference?: string | undefined;
  readonly name?: string | undefined;
  readonly tolerance?: string | undefined;
  /** The further model of the running service that answers. */
  readonly model?: string | undefined;
  readonly force?: boolean | undefined;
}

interface Settings {
  readonly job: JobConfig;
  readonly convert: ConvertOptions;
}

export async function golden(
  [action, directory, surplus]: readonly string[],
  values: GoldenValues,
  settings: Settings,
  output: Output,
): Promise<number> {
  if (action !== 'add' && action !== 'list' && action !== 'run') {
    throw wrongUse('model golden: expected add, list or run, and a model directory');
  }
  if (directory === undefined) throw wrongUse(`model golden ${action}: which directory?`);
  if (surplus !== undefined) throw wrongUse(`model golden ${action}: unexpected ${JSON.stringify(surplus)}`);
  if (isRemote(directory)) {
    throw wrongUse(`model golden ${action}: expected a directory on this machine, got ${directory}`);
  }
  if (action === 'add') return add(directory, values, settings, output);
  if (action === 'run') return run(directory, settings, output);
  const requests = await goldenRequests(homeOf(directory));
  const lines = requests.map(({ name, predictions, tolerance }) => {
    return `${name}  ${predictions.length} instances, tolerance ${tolerance}`;
  });
  const none = `no golden request in ${directory}; \`model golden add\` records one`;
  output.answer({ requests: requests.map(summaryOf) }, lines.join('\n') || none);
  return EXIT.ok;
}

function summaryOf({ name, predictions, tolerance }: GoldenRequest) {
  return { name, instances: predictions.length, tolerance };
}

async function add(directory: string, values: GoldenValues, settings: Settings, output: Output) {
  const { request, reference, force = false } = values;
  if ((request === undefined) === (reference === undefined)) {
    throw wrongUse('model golden add: expected --request, which a running service answers, or --reference');
  }
  const tolerance = toleranceOf(values.tolerance);
  const source = request ?? reference ?? '';
  const name = values.name ?? basename(source).replace(/\.\w+$/, '');
  const folder = resolve(directory);
  const recorded =
    request === undefined
      ? await ofReference(folder, source, settings, output)
      : await ask(request, values, settings.job);
  if (!recorded) return notRunning(values, output);
  const path = await writeGolden(homeOf(directory), { name, tolerance, ...recorded }, force);
  const { length } = recorded.predictions;
  output.answer(
    { path, name, instances: length, tolerance },
    `${path}: ${length} instances, tolerance ${tolerance}`,
  );
  return EXIT.ok;
}

/** Undefined when no service runs. */
async function ask(path: string, values: GoldenValues, job: JobConfig) {
  const service = await findService(values);
  if (!service) return undefined;
  const request = inputText(await readInput(path), path);
  const sent = {
    path: '/predict',
    body: request,
    command: 'model golden add --request',
    model: values.model,
  };
  const answer = await post(service, sent, ({ predictions }) => textsOf(predictions));
  const isHere = /^https?:\/\/(localhost|127\.|\[::1\])/.test(service.http ?? '');
  const threads = job.threadPerModel || availableParallelism();
  return {
    request,
    predictions: answer,
    made: isHere ? { threads, features: processorFeatures() } : undefined,
  };
}

async function ofReference(folder: string, path: string, { job, convert }: Settings, output: Output) {
  const { goldenOfReference } = await import('../../release/golden/reference.ts');
  const { check, readFacts } = await import('../../onnx-import/index.ts');
  const { parseFilter } = await import('../../lib/pipeline/answer/postprocess.ts');
  return withModel(folder, { convert, job }, output, async (file) => {
    const { shapelessInputs: shapeless } = await readFacts(file);
    const ports = await check(file, { shapeless, measure: false });
    return goldenOfReference(resolve(path), ports, parseFilter(job.postProcessing));
  });
}

async function run(directory: string, { job, convert }: Settings, output: Output): Promise<number> {
  const { goldenText, isFailure } = await import('../../release/golden/ask.ts');
  const { goldenAnswer } = await import('../../release/golden/check.ts');
  const { proofOptions } = await import('../../release/options.ts');
  const { verify } = await import('../../onnx-import/index.ts');
  const { newModelProcess } = await import('../../release/model-process.ts');
  const folder = resolve(directory);
  const process = newModelProcess();
  return interruptible('the golden requests', output, (signal) =>
    withModel(folder, { convert, job, process }, output, async (file) => {
      const verification = await verify(file, { ...proofOptions(job), signal, process });
      const { results } = await goldenAnswer(homeOf(directory), { file, job, verification, signal, process });
      output.answer({ results }, results.map(goldenText).join('\n') || `no golden request in ${directory}`);
      return results.some(isFailure) ? EXIT.failed : EXIT.ok;
    }),
  ).finally(() => process.close());
}

/** Calls `work` with the ONNX file of a model directory of any kind. */
async function withModel<T>(
  folder: string,
  options: Pick<ImportOptions, 'convert' | 'job' | 'process'>,
  output: Output,
  work: (file: string) => Promise<T>,
): Promise<T> {
  const { needsImport } = await import('../../onnx-import/index.ts');
  if (!(await needsImport(folder, options.convert))) return work(await findModelFile(folder));
  return withImport(folder, { ...options, measure: false }, output, async (made) =>
    work(await findModelFile(made.directory)),
  );
}

/** Returns the folder of the golden requests: that of the model, or the one that holds a model given as a file. */
function homeOf(directory: string): string {
  const path = resolve(directory);
  return statSync(path, { throwIfNoEntry: false })?.isFile() ? dirname(path) : path;
}

/** @throws bad_config */
function toleranceOf(text: string | undefined): number {
  const tolerance = text === undefined ? DEFAULT_TOLERANCE : Number(text);
  if (text?.trim() !== '' && tolerance >= 0 && tolerance < 1) return tolerance;
  throw new ServingError(
    'bad_config',
    `--tolerance ${JSON.stringify(text)}: expected a number from 0 to below 1`,
  );
}
