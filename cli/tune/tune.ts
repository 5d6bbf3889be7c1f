/**
 * `cluster-serving tune`. In: a model. Out: its time by batch size, threads and memory, what a million predictions cost
 * at each point, and the settings that follow; on request they are written into config.yaml.
 * Trap: times are of this machine, with whatever else it does; docs/tune.md says what they are good for.
 */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { dirname, resolve } from 'node:path';
import { machineFacts } from '../../convert/machine.ts';
import { readConfig } from '../../lib/config/file.ts';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { threadsForMemory } from '../../lib/inference/session.ts';
import { COMMON_HELP, defineCommand, wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { type SettingResult, settingResults } from './cost.ts';
import { documentOf, type Examined, notesOf } from './document.ts';
import { type Measurement, measurePoints } from './measure.ts';
import { type TuneModel, withModel } from './model.ts';
import {
  DEFAULT_MAX_BATCH,
  DEFAULT_MEMORIES,
  DEFAULT_OVERHEAD_MS,
  DEFAULT_SECONDS,
  type TuneOptions,
  tuneOptionsOf,
} from './options.ts';
import { svg } from './plot.ts';
import { showTurns } from './progress.ts';
import { recommend, type Traffic, type Wishes } from './recommend.ts';
import { chartsOf, type Report, reportText } from './report.ts';
import { assertAskable, writeConfig } from './write.ts';

const HELP = `Usage: cluster-serving tune [--model <dir | file.onnx>] [options]
       cluster-serving tune --write [config.yaml] [options]

Measures a model on this machine, by batch size and threads, and says what a million predictions cost at each memory
setting of Lambda and which settings are the cheapest and the fastest. Each point runs in a process of its own.

      --model <path>        directory or *.onnx file (default: modelPath of the config)
  -c, --config <file>       its image, filter and timeout count (default: ./config.yaml, without --model or to --write)
      --seconds <n>         about how long it may take (default ${DEFAULT_SECONDS})
      --max-batch <n>       most records of an event (default ${DEFAULT_MAX_BATCH}, or what 6 MB hold)
      --memory <MB,MB,...>  values of function.memoryMB (default ${DEFAULT_MEMORIES.join(',')})
      --dim <name=size>     a free size of the model, beside the batch: --dim height=224; may be given again
      --shape <input=sizes> the whole shape of an input: --shape data=1,3,224,224; may be given again
      --data <[input=]file> in place of random numbers: .npy, a picture, or a request in .json; may be given again
      --for <traffic>       predict, batch or both: what the settings are for (default both)
      --latency <ms>        p99 that a call should keep below
      --aim <aim>           cheapest or latency: what --write writes (default cheapest; with --latency, latency)
      --arch <arch>         x86_64 or arm64: whose price counts (default x86_64)
      --overhead <ms>       what Lambda and Redis add to a call (default ${DEFAULT_OVERHEAD_MS})
      --svg <file>          draw the curves into this file
      --write               write the settings into the config, which keeps its comments; shows them and asks first
  -y, --yes                 do not ask; without a terminal this is needed
${COMMON_HELP}

Examples:
  cluster-serving tune --model resnet50 --dim height=224 --dim width=224
  cluster-serving tune --model resnet50 --data cat.jpg --latency 50 --svg resnet50.svg
  cluster-serving tune -c config.yaml --write --yes`;

export const tune = defineCommand({
  name: 'tune',
  help: HELP,
  takesArguments: true,
  options: {
    model: { type: 'string' },
    config: { type: 'string', short: 'c' },
    seconds: { type: 'string' },
    'max-batch': { type: 'string' },
    memory: { type: 'string' },
    dim: { type: 'string', multiple: true },
    shape: { type: 'string', multiple: true },
    data: { type: 'string', multiple: true },
    for: { type: 'string' },
    latency: { type: 'string' },
    aim: { type: 'string' },
    arch: { type: 'string' },
    overhead: { type: 'string' },
    svg: { type: 'string' },
    write: { type: 'boolean' },
    yes: { type: 'boolean', short: 'y' },
  },
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
    if (write) assertAskable(yes);
    const job = jobOf(config, output);
    const path = values.model ?? (config && resolve(dirname(config), job.modelPath));
    if (path === undefined) {
      throw wrongUse('tune: which model? Give --model <dir or file.onnx>, or a config with -c');
    }
    const aimed = { ...options, job };
    return interruptible('the measurement', output, (signal) =>
      withModel(path, job, output, signal, async (model) => {
        const examined = await examine(model, aimed, output, signal);
        if (values.svg !== undefined) await writeSvg(values.svg, examined.report);
        if (!output.json) output.answer(undefined, reportText(examined.report));
        const written =
          write && config !== undefined ? await writeTo(config, examined, aimed, yes, output) : undefined;
        if (output.json) output.answer({ ...documentOf(examined, options), ...written }, '');
        return written?.written === false ? EXIT.failed : EXIT.ok;
      }),
    );
  },
});

/** What was asked for, and the job it is for. */
interface Aimed extends TuneOptions {
  readonly job: JobConfig;
}

function configPath(
  given: string | undefined,
  model: string | undefined,
  write: boolean,
): string | undefined {
  if (given !== undefined) return resolve(given);
  const usual = resolve('config.yaml');
  if (!existsSync(usual)) {
    if (write)
      throw wrongUse(
        'tune: --write into which file? There is no config.yaml here; `cluster-serving init` writes one',
      );
    return undefined;
  }
  return write || model === undefined ? usual : undefined;
}

function jobOf(config: string | undefined, output: Output): JobConfig {
  if (config === undefined) return DEFAULT_JOB;
  const { job, notes } = readConfig(config);
  for (const note of notes) output.note(`note: ${note}`);
  return job;
}

async function examine(
  model: TuneModel,
  aimed: Aimed,
  output: Output,
  signal: AbortSignal,
): Promise<Examined> {
  const cores = availableParallelism();
  const measurement = await measureHere(model, aimed, cores, output, signal);
  const { memories, overheadMs, arch, job } = aimed;
  const { timeoutSeconds } = job.function;
  const computed = settingResults(measurement.points, measurement.facts, {
    memories,
    cores,
    overheadMs,
    timeoutSeconds,
  });
  const { facts, points } = measurement;
  const traffic = trafficOf(aimed.traffic, measurement);
  const wishes: Wishes = {
    arch,
    traffic,
    limitMs: aimed.latencyMs,
    job,
    hasFreeBatch: facts.shared && facts.fixedRows === null,
  };
  const { results, excluded } = computed;
  const recommendations = (['cheapest', 'latency'] as const)
    .map((aim) => recommend(aim, results, wishes))
    .filter((found) => found !== undefined);
  const report: Report = {
    name: model.name,
    modelBytes: model.bytes,
    machine: { cpu: machineFacts(cores).cpu, cores },
    measurement,
    shown: bestOfEach(results, wishes),
    excluded,
    arch,
    overheadMs,
    recommendations,
    notes: notesOf({ model, points, measurement, wishes, wanted: aimed.traffic, recommendations }),
  };
  return { report, results };
}

function measureHere(
  model: TuneModel,
  { memories, maxBatch, limitMs, sizes, data, job, traffic }: Aimed,
  cores: number,
  output: Output,
  signal: AbortSignal,
): Promise<Measurement> {
  const threads = new Set([1, ...memories.map((memoryMB) => Math.min(cores, threadsForMemory(memoryMB)))]);
  const { inputAlreadyBatched, image, postProcessing } = job;
  const turns = showTurns(process.stderr, output.json);
  const request = {
    file: model.file,
    shapeless: model.shapeless,
    sizes,
    data,
    job: { inputAlreadyBatched, image, postProcessing },
    threads: [...threads].toSorted((a, b) => a - b),
    doors: traffic === 'both' ? (['predict', 'batch'] as const) : [traffic],
    maxBatch,
    mostMB: Math.max(...memories),
    limitMs,
  };
  const hooks = { signal, onTurn: turns.show, now: () => performance.now() };
  return measurePoints(request, hooks).finally(turns.end);
}

/** A request that is too large for POST /predict leaves the queue. */
function trafficOf(wanted: Traffic, { points }: Measurement): Traffic {
  const doors = new Set(points.map(({ door }) => door));
  if (wanted === 'both' && doors.size === 1) return doors.has('batch') ? 'batch' : 'predict';
  return wanted;
}

/** For the tables: of each memory setting that can be judged here the thread count that would be chosen. */
function bestOfEach(results: readonly SettingResult[], wishes: Wishes): SettingResult[] {
  const byMemory = Map.groupBy(results, ({ setting }) => setting.memoryMB);
  const best = [...byMemory.values()].flatMap((group) => {
    const chosen = recommend('cheapest', group, wishes)?.setting;
    return group.find(({ setting }) => setting === chosen) ?? [];
  });
  const known = best.filter(({ setting }) => setting.basis !== 'fewer cores');
  return known.length > 0 ? known : best;
}

async function writeSvg(path: string, report: Report): Promise<void> {
  try {
    await writeFile(path, svg(report.name, chartsOf(report)));
  } catch (error) {
    throw new ServingError('bad_config', `--svg ${path} cannot be written: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function writeTo(
  config: string,
  { report }: Examined,
  { aim, latencyMs }: Aimed,
  isYes: boolean,
  output: Output,
): Promise<{ written: boolean; changes: readonly string[] }> {
  const found = report.recommendations.find((each) => each.aim === aim);
  if (!found) {
    const why =
      aim === 'latency' && latencyMs !== undefined ? `stays below ${latencyMs} ms` : 'holds the model';
    throw new ServingError('bad_config', `nothing was written: no setting that was measured ${why}`);
  }
  const changes = await writeConfig(config, found.config, isYes, output);
  if (changes === undefined) output.note('nothing was written');
  else if (changes.length > 0) output.note(`written to ${config}`);
  return { written: changes !== undefined, changes: changes ?? [] };
}
