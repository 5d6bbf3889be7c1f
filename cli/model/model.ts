/**
 * `cluster-serving model`: converts models to ONNX and manages versions in S3. The converters are loaded only to
 * convert, so that `model --help` is fast.
 */
import { basename, dirname, join, resolve } from 'node:path';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { isRemote, readHubAddress } from '../../lib/config/model-path.ts';
import type { Trial } from '../../lib/registry/publish.ts';
import { convertOptionsOf, toleranceOf } from '../../onnx-import/options.ts';
import type { ImportOptions } from '../../release/import.ts';
import { defineCommand, type Values, wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { dataDirOf } from '../service.ts';
import { readShare } from '../share.ts';
import { described, withImport } from './import.ts';
import { acceptedOf, importTo } from './import-to.ts';
import { isPlaceAction, OPTIONS } from './options.ts';
import { withPlace } from './place.ts';
import { exportFirst } from './with-python.ts';

/** Loaded on demand. */
const WITH_OPTIONS = {
  golden: async () => (await import('./golden.ts')).golden,
  diff: async () => (await import('./diff.ts')).diff,
  replay: async () => (await import('./replay.ts')).replay,
};

export const command = defineCommand({
  name: 'model',
  usage: [
    '<import | check | push | diff | replay | golden> <dir>',
    '<list | trial | promote | rollback | prune | ops>',
  ],
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
    trial: ['', 'show the canary and the shadow beside the version that serves, and what was found of them'],
    promote: ['', 'serve the canary, or the shadow, instead of the version that serves'],
    rollback: [
      '[<version>]',
      'end the canary; without one, serve the previous version again, or the given one, after a check of its files',
    ],
    prune: ['--keep <n>', 'delete all but the newest versions and the one that serves, after a confirmation'],
    ops: ['', 'list the layers and operations that can be converted'],
  },
  options: OPTIONS,
  examples: [
    'model push resnet50 --bucket my-bucket --job images',
    'model push retrained --canary 5% --bucket my-bucket --job images',
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
    const stray = ['list', 'trial', 'promote', 'prune', 'ops'].includes(action) ? argument : surplus;
    if (stray !== undefined) throw wrongUse(`model ${action}: unexpected ${JSON.stringify(stray)}`);
    if (action === 'ops') {
      const { supported, supportedOpsText } = await import('../../onnx-import/index.ts');
      const operations = await supported();
      output.answer(operations, supportedOpsText(operations));
      return EXIT.ok;
    }
    const { keep = 0 } = values;
    if (action === 'prune' && values.keep === undefined)
      throw wrongUse('model prune: how many versions to keep? Pass --keep');
    if (isPlaceAction(action)) {
      const { ofPlace } = await import('./place-actions.ts');
      return withPlace(values, output, (place) =>
        ofPlace(
          action,
          place,
          { ...values, keep, argument, job: () => jobOf(values.config, output) },
          output,
        ),
      );
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
        trial: trialOf(values),
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

function trialOf({
  canary,
  shadow,
  'no-activate': isStored,
}: Pick<Values<typeof OPTIONS>, 'canary' | 'shadow' | 'no-activate'>): Trial | undefined {
  const given = [canary !== undefined && '--canary', shadow && '--shadow', isStored && '--no-activate'];
  const names = given.filter(Boolean);
  if (names.length > 1) throw wrongUse(`${names.join(' and ')}: which one?`);
  if (canary !== undefined) return { kind: 'canary', share: readShare('canary', canary) };
  return shadow ? { kind: 'shadow' } : undefined;
}

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
