/**
 * `cluster-serving model`: converts models to ONNX and manages versions in S3. The converters are loaded only to
 * convert, so that `model --help` is fast.
 */
import { basename, dirname, join, resolve } from 'node:path';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { isRemote, readHubAddress } from '../../lib/config/model-path.ts';
import { convertOptionsOf, toleranceOf } from '../../onnx-import/options.ts';
import type { ImportOptions } from '../../release/import.ts';
import { defineCommand, only, type Values, wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { dataDirOf, SERVICE_OPTIONS, YES } from '../service.ts';
import { described, withImport } from './import.ts';
import { acceptedOf, importTo } from './import-to.ts';
import { CONFIG_OPTION, IMPORT_OPTIONS } from './options.ts';
import { withPlace } from './place.ts';
import { exportFirst } from './with-python.ts';

/** Keeping more would not be pruning. */
const MAX_KEPT = 1_000;

const OPTIONS = {
  ...CONFIG_OPTION,
  ...IMPORT_OPTIONS,
  ...only(['import'], {
    out: {
      value: 'dir',
      about:
        'where the model is written (default: <dir>-onnx, beside <dir>; of s3://… and hf://… in this folder)',
    },
  }),
  ...only(['import'], {
    'with-python': {
      about:
        "have the framework's own exporter make ONNX of a file that only Python reads (scikit-learn, Keras 3, CatBoost, PaddlePaddle, torch.export), in an environment that is thrown away; PYTHON names the interpreter",
    },
  }),
  ...only(['import', 'golden'], {
    force: { about: 'write into a directory with other files, too; they stay; replace a golden request' },
  }),
  ...only(['golden'], {
    request: { value: 'file.json', about: 'request {"instances": [...]} that a running service answers now' },
    name: { value: 'name', about: 'name of the golden request (default: that of the file)' },
    url: SERVICE_OPTIONS.url,
    'token-file': SERVICE_OPTIONS['token-file'],
  }),
  ...only(['replay'], {
    since: {
      value: 'time',
      about: 'captures from here on: 24h, 30m, 7d or 2026-11-28T08:00Z (default 24h)',
    },
    'answered-by': { value: 'version', about: 'only what this version answered (default: each)' },
    by: { value: 'input', about: 'count the differences by the values of this input' },
    fresh: { about: 'start again, where a replay of the same was stopped and would go on' },
    'max-flips': {
      value: 'share',
      about:
        'records whose first class may change in another version: 0.005 or 0.5% (default: release.maxFlips, else any)',
    },
  }),
  ...only(['import', 'push', 'diff', 'replay', 'list', 'rollback', 'prune'], {
    to: { value: 's3://bucket/prefix', about: 'the place; an import uploads the model there' },
    bucket: { value: 'name', about: 'bucket of a deployed service' },
  }),
  ...only(['import', 'push', 'diff', 'replay', 'golden', 'list', 'rollback', 'prune'], {
    job: { value: 'name', about: 'the place of this job, locally or in --bucket (default: the first one)' },
    'data-dir': { value: 'dir', about: 'data folder of the local service (default .cluster-serving)' },
  }),
  ...only(['import', 'push'], {
    'drop-golden': { about: 'neither ask nor keep the golden requests of the version that serves now' },
  }),
  ...only(['import', 'push'], {
    accept: {
      value: 'name,...',
      about: 'changes of which clients know, by the names that `model diff` gives them, or all',
    },
  }),
  ...only(['push'], { 'no-activate': { about: 'upload the version, but keep serving the current one' } }),
  ...only(['import', 'prune'], { yes: YES }),
  ...only(['prune'], {
    keep: { value: 'n', range: [0, MAX_KEPT], about: 'how many versions to keep' },
  }),
} as const;

/** Loaded on demand. */
const WITH_OPTIONS = {
  golden: async () => (await import('./golden.ts')).golden,
  diff: async () => (await import('./diff.ts')).diff,
  replay: async () => (await import('./replay.ts')).replay,
};

export const command = defineCommand({
  name: 'model',
  usage: ['<import | check | push | diff | replay | golden | list | rollback | prune | ops> [<dir>]'],
  about: `Converts a model to ONNX, and manages the versions of a model in S3. Kinds of models, by file name: *.onnx;
saved_model.pb with variables/; frozen_inference_graph.pb with graph_meta.json; a TensorFlow checkpoint (*.meta,
*.index, *.data-*); Caffe (*.prototxt with *.caffemodel); OpenVINO (*.xml with *.bin); BigDL
(*.model or *.bigdl); a directory of MLflow, by its MLmodel. <dir> may be s3://bucket/prefix or
hf://org/name@revision of Hugging Face, which is copied.`,
  actions: {
    import: [
      '<dir>',
      'convert the model in <dir> to ONNX, check it by running it, and write its import report',
    ],
    check: [
      '<dir>',
      'the same without writing anything; exit code 1 if the model could not be run, because no made-up inputs fit and there is no --reference',
      'writes nothing',
    ],
    push: ['<dir>', 'upload the model in <dir> as a version, converted if necessary, and serve it'],
    diff: [
      '[<dir | version>] <dir | version>',
      'compare a model with the version that serves, or with another one: what changes for clients, how far answers differ; exit code 1 if clients would get wrong results',
      'writes nothing',
    ],
    replay: [
      '[<dir | version>]',
      'ask the version that serves, or another model, what was captured, and compare the answers; exit code 1 if they differ where they must not',
      'writes nothing',
    ],
    golden: [
      '<add | list | run> <dir>',
      'record a request with its right answer in <dir>, list these, or ask the model; import, push, rollback, start and deployments ask them, too',
    ],
    list: ['', 'list the versions: size, time, source format, and which one serves'],
    rollback: [
      '[<version>]',
      'serve the previous version again, or the given one, after a check of its files',
    ],
    prune: ['--keep <n>', 'delete all but the newest versions and the one that serves, after a confirmation'],
    ops: ['', 'list the layers and operations that can be converted'],
  },
  options: OPTIONS,
  examples: [
    'model push resnet50 --bucket my-bucket --job images',
    'model import s3://my-bucket/nets/resnet50',
    'model import hf://sentence-transformers/all-MiniLM-L6-v2',
    'model diff retrained --bucket my-bucket --job images',
    'model replay retrained --since 7d --bucket my-bucket --job images',
    'model list --bucket my-bucket --job images',
    'model rollback --bucket my-bucket --job images',
    'model prune --keep 5 --bucket my-bucket --job images',
  ],
  async run(values, output, args, action) {
    if (action === 'golden' || action === 'diff' || action === 'replay') {
      const work = await WITH_OPTIONS[action]();
      return work(args, values, await importOptions(values, output), output);
    }
    const [argument, surplus] = args;
    const stray = ['list', 'prune', 'ops'].includes(action) ? argument : surplus;
    if (stray !== undefined) throw wrongUse(`model ${action}: unexpected ${JSON.stringify(stray)}`);
    if (action === 'ops') {
      const { supported, supportedOpsText } = await import('../../onnx-import/index.ts');
      const operations = await supported();
      output.answer(operations, supportedOpsText(operations));
      return EXIT.ok;
    }
    if (action === 'list' || action === 'rollback' || action === 'prune') {
      const { keep, yes = false } = values;
      if (action === 'prune' && keep === undefined)
        throw wrongUse('model prune: how many versions to keep? Pass --keep');
      const { list, rollback, prune } = await import('./versions.ts');
      return withPlace(values, output, (place) => {
        if (action === 'list') return list(place, output);
        return action === 'rollback'
          ? rollback(place, argument, () => jobOf(values.config, output), output)
          : prune(place, keep ?? MAX_KEPT, yes, output);
      });
    }
    if (argument === undefined) throw wrongUse(`model ${action}: which directory?`);
    if (values.tolerance !== undefined && values.reference === undefined)
      throw wrongUse('--tolerance goes with --reference');
    const options = await importOptions(values, output);
    const { withSource } = await import('./source.ts');
    if (action === 'push') {
      const choice = {
        activate: !values['no-activate'],
        dropGolden: values['drop-golden'] ?? false,
        accept: acceptedOf(values),
      };
      const { push } = await import('./push.ts');
      return withPlace(values, output, (place) =>
        withSource(argument, dataDirOf(values), output, (directory) =>
          push(place, directory, { ...choice, ...options }, output),
        ),
      );
    }
    const { proofOptions } = await import('../../release/options.ts');
    const out = resolve(values.out ?? usualOutput(argument));
    return withSource(argument, dataDirOf(values), output, (directory) =>
      interruptible(`the ${action}`, output, async (signal) => {
        const stoppable = { ...options, proof: proofOptions(options.job), signal };
        if (action === 'check') return check(directory, stoppable, output);
        const run = (from: string, more = {}) =>
          importTo(from, { ...stoppable, ...more, out }, values, output);
        return exportFirst(directory, { ...values, ...stoppable }, output, run);
      }),
    );
  },
});

/** `model` -> `model-onnx`, in the same folder; of a model elsewhere in this one. */
function usualOutput(source: string): string {
  const path = isRemote(source) ? basename(readHubAddress(source)?.repo ?? source) : resolve(source);
  return join(dirname(path), `${basename(path)}-onnx`);
}

async function importOptions(values: Values<typeof OPTIONS>, output: Output) {
  const { force, reference, tolerance } = values;
  const { convertOptions } = await import('../../release/options.ts');
  const job = await jobOf(values.config, output);
  return {
    job,
    convert: { ...convertOptions(job.import), ...convertOptionsOf(values) },
    force,
    reference: reference === undefined ? undefined : resolve(reference),
    tolerance: toleranceOf(tolerance),
  };
}

/** Reads a config.yaml, or takes the defaults. */
async function jobOf(path: string | undefined, output: Output): Promise<JobConfig> {
  if (path === undefined) return DEFAULT_JOB;
  const { readConfig } = await import('../../lib/config/file.ts');
  const { job, notes } = readConfig(resolve(path));
  for (const note of notes) output.note(`note: ${note}`);
  return job;
}

type CheckOptions = Omit<ImportOptions, 'out' | 'version'> & { readonly job: JobConfig };

async function check(directory: string, options: CheckOptions, output: Output) {
  return withImport(directory, options, output, async ({ importReport }) => {
    const { text, imageAdvice } = await described(importReport, options.job);
    output.answer({ importReport, imageAdvice }, text);
    const { runs, reference } = importReport.check;
    if (runs || reference === 'agrees') return EXIT.ok;
    output.note(
      'not verified: the model was not run, because no made-up inputs fit; the notes say which options help',
    );
    return EXIT.failed;
  });
}
