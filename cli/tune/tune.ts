/**
 * `cluster-serving tune`: measures a model by batch size and threads, computes the cost of each memory setting, and
 * recommends settings for config.yaml. Times include the other load of this machine; docs/how-to/tune.md explains how
 * far they can be trusted.
 */
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, resolve } from 'node:path';
import { readConfig } from '../../lib/config/file.ts';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { resolveModelPath } from '../../lib/config/model-path.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { threadsForMemory } from '../../lib/inference/threads.ts';
import { overrideImage } from '../../lib/pipeline/bind/image-choice.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { canAsk } from '../confirm.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { writeConfig } from './config.ts';
import { documentOf, type TuneDocument } from './document.ts';
import { type Measurement, measurePoints } from './measure.ts';
import { type TuneModel, withModel } from './model.ts';
import { OPTIONS, type TuneOptions, tuneOptionsOf } from './options.ts';
import { reportText } from './report.ts';

export const command = defineCommand({
  name: 'tune',
  usage: ['[--model <dir | file.onnx>] [options]', '--write [config.yaml] [options]'],
  about: `Measures a model on this machine, by batch size and threads, and reports what a million predictions cost at each
memory setting of Lambda and which settings are the cheapest and the fastest. Each point runs in its own process.`,
  options: OPTIONS,
  examples: [
    'tune --model resnet50 --dim height=224 --dim width=224',
    'tune --model resnet50 --data cat.jpg --latency 50',
    'tune -c config.yaml --write --yes',
  ],
  async run(values, output, [argument, surplus]) {
    const { write = false, yes = false } = values;
    const stray = write ? surplus : argument;
    if (stray !== undefined)
      throw wrongUse(`tune: unexpected ${JSON.stringify(stray)}; the model is --model <path>`);
    if (write && argument !== undefined && values.config !== undefined && argument !== values.config) {
      throw wrongUse('tune: --write and --config name two files; give one');
    }
    const options = tuneOptionsOf(values);
    const config = configPath(argument ?? values.config, values.model, write);
    // Checked before a minute of measuring.
    if (write && !yes && !canAsk())
      throw wrongUse(
        'tune: --write asks before it changes the file, and there is no terminal to ask at; pass --yes',
      );
    const job = jobOf(config, output);
    const path = values.model ?? (config && resolveModelPath(dirname(config), job.modelPath));
    if (path === undefined) {
      throw wrongUse('tune: which model? Give --model <dir or file.onnx>, or a config with -c');
    }
    const { withSource } = await import('../model/source.ts');
    const run = (here: string) =>
      interruptible('the measurement', output, (signal) =>
        withModel({ name: path, path: here }, job, output, signal, async (model) => {
          const document = documentOf(
            model,
            await measure(model, job, options, output, signal),
            job,
            options,
          );
          if (!output.json) output.answer(document, reportText(document));
          const written =
            write && config !== undefined ? await writeTo(config, document, options, yes, output) : undefined;
          if (output.json) output.answer({ ...document, ...written }, '');
          return written?.written === false ? EXIT.failed : EXIT.ok;
        }),
      );
    return withSource(path, output, run);
  },
});

function configPath(given: string | undefined, model: string | undefined, write: boolean) {
  if (given !== undefined) return resolve(given);
  const usual = resolve('config.yaml');
  if (existsSync(usual)) return write || model === undefined ? usual : undefined;
  const advice = 'There is no config.yaml here; `cluster-serving init` writes one';
  if (write) throw wrongUse(`tune: --write into which file? ${advice}`);
  return undefined;
}

function jobOf(config: string | undefined, output: Output): JobConfig {
  if (config === undefined) return DEFAULT_JOB;
  const { job, notes } = readConfig(config);
  for (const note of notes) output.note(`note: ${note}`);
  return job;
}

function measure(
  { file, shapeless, verification, image: stored }: TuneModel,
  { inputAlreadyBatched, image: own, postProcessing, batching, inputs, outputs }: JobConfig,
  { memories, maxBatch, limitMs, sizes, data, traffic }: TuneOptions,
  output: Output,
  signal: AbortSignal,
): Promise<Measurement> {
  const image = overrideImage(stored, own);
  const cores = availableParallelism();
  const threads = new Set([1, ...memories.map((memoryMB) => Math.min(cores, threadsForMemory(memoryMB)))]);
  const progress = showProgress(output.json);
  const total = limitMs / 1000;
  return measurePoints({
    open: {
      file,
      shapeless,
      verification,
      sizes,
      data,
      job: { inputAlreadyBatched, image, postProcessing, batching, inputs, outputs },
    },
    threads: [...threads].toSorted((a, b) => a - b),
    endpoints: traffic === 'both' ? ['predict', 'batch'] : [traffic],
    maxBatch,
    mostMB: Math.max(...memories),
    limitMs,
    signal,
    onTurn: (ms, label) => progress.update({ done: Math.min(total, ms / 1000), total, unit: 's', label }),
  }).finally(progress.end);
}

async function writeTo(
  config: string,
  { recommendations }: TuneDocument,
  { aim, latencyMs }: TuneOptions,
  isYes: boolean,
  output: Output,
): Promise<{ written: boolean; changes: readonly string[] }> {
  const found = recommendations.find((each) => each.aim === aim);
  if (!found) {
    const isLimited = aim === 'latency' && latencyMs !== undefined;
    const why = isLimited ? `stays below ${latencyMs} ms` : 'holds the model';
    throw new ServingError('bad_config', `nothing was written: no setting that was measured ${why}`);
  }
  const changes = await writeConfig(config, found.config, isYes, output);
  if (changes === undefined) output.note('nothing was written');
  else if (changes.length > 0) output.note(`written to ${config}`);
  return { written: changes !== undefined, changes: changes ?? [] };
}
