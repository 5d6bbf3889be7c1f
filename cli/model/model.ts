/**
 * `cluster-serving model`. In: a model directory of any kind the contract names. Out: the model as ONNX with its
 * passport, or only what an import of it would say; or a version of it in S3, and which of those serves.
 * Trap: the converters are loaded when there is something to convert; `model --help` is as fast as any help.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import type { ConvertOptions } from '../../convert/conversion.ts';
import type { ImportOptions } from '../../convert/import.ts';
import { COMMON_HELP, defineCommand, wholeNumber, wrongUse } from '../command.ts';
import { interruptible } from '../interruption.ts';
import { EXIT, type Output } from '../output.ts';
import { uploadRefusal } from '../upload-refusal.ts';
import { importHere } from './import.ts';
import { convertOptionsOf, toleranceOf } from './options.ts';
import { withPlace } from './place.ts';
import { assertPlace, type PlaceValues, placeOf, publishTo } from './publish.ts';

const HELP = `Usage: cluster-serving model <import | check | push | list | rollback | prune | ops> [<dir>] [options]

  import <dir>    make an ONNX model of the model in <dir>, check it by running it, and write its passport
  check <dir>     the same without writing anything: does it convert, and does it run? Exit code 1 when it could not be
                  run: no made-up inputs fit, and there is no --reference
  push <dir>      upload the model in <dir>, imported on the way if need be, as a version, and let it serve
  list            the versions there are: size, when, from what, which one serves
  rollback [<version>]  let the version before serve again, or the one that is named, after a look at its files
  prune --keep <n>      delete all versions but the newest ones and the one that serves, after a question
  ops             the layers and operations that are converted

Kinds of models, by file name: *.onnx; saved_model.pb with variables/; frozen_inference_graph.pb with
graph_meta.json; a TensorFlow checkpoint (*.meta, *.index, *.data-*); Caffe (*.prototxt with *.caffemodel).

  -c, --config <file>           take the section import: of this config.yaml; options on the line come before it
      --out <dir>               where the model goes (default: <dir>-onnx, beside <dir>)
      --force                   also into a directory with other files; they stay
      --input <name[:shape]>    input, with its shape where the file leaves it open: data:N,3,224,224 (a word is a free
                                size); naming another tensor cuts off what comes before it; may be given again
      --output <name>           output to keep; may be given again
      --constant <name=number>  input to replace by a number: keep_prob=1; may be given again
      --signature <name>        of a SavedModel (default serving_default)
      --tag <name>              of a SavedModel's meta graph (default serve); may be given again
      --reference <path>        directory with in*.npy and out*.npy, or an .npz: the outputs must be these
      --tolerance <number>      how far they may be off (default 0.0001, and 0.001 of the value)
      --to <s3://bucket/prefix> the place: import uploads the model there and lets it serve
      --job <name>              the place of this job: of the local service, or of the one whose --bucket is given
                                (default of push, list, rollback, prune: the first of the local service)
      --bucket <name>           bucket of a deployed service
      --data-dir <dir>          folder of the local service (default .cluster-serving)
      --no-activate             of push: upload it, and let serve what serves
      --keep <n>                of prune: how many versions stay
  -y, --yes                     of prune: do not ask; without a terminal this is needed
${COMMON_HELP}

Examples:
  cluster-serving model push resnet50 --bucket my-bucket --job images
  cluster-serving model list --bucket my-bucket --job images
  cluster-serving model rollback --bucket my-bucket --job images
  cluster-serving model prune --keep 5 --bucket my-bucket --job images`;

const ACTIONS = ['import', 'check', 'push', 'list', 'rollback', 'prune', 'ops'] as const;
type Action = (typeof ACTIONS)[number];

/** Which options belong to which actions; --json and --help to all. */
const MAKING = [
  'config',
  'input',
  'output',
  'constant',
  'signature',
  'tag',
  'reference',
  'tolerance',
] as const;
const PLACE = ['to', 'job', 'bucket', 'data-dir'] as const;
const TAKEN: Readonly<Record<Action, readonly string[]>> = {
  import: [...MAKING, ...PLACE, 'out', 'force'],
  check: MAKING,
  push: [...MAKING, ...PLACE, 'no-activate'],
  list: PLACE,
  rollback: PLACE,
  prune: [...PLACE, 'keep', 'yes'],
  ops: [],
};
/** More is no pruning. */
const MAX_KEPT = 1_000;

export const model = defineCommand({
  name: 'model',
  help: HELP,
  takesArguments: true,
  options: {
    config: { type: 'string', short: 'c' },
    out: { type: 'string' },
    force: { type: 'boolean' },
    input: { type: 'string', multiple: true },
    output: { type: 'string', multiple: true },
    constant: { type: 'string', multiple: true },
    signature: { type: 'string' },
    tag: { type: 'string', multiple: true },
    reference: { type: 'string' },
    tolerance: { type: 'string' },
    to: { type: 'string' },
    job: { type: 'string' },
    bucket: { type: 'string' },
    'data-dir': { type: 'string' },
    'no-activate': { type: 'boolean' },
    keep: { type: 'string' },
    yes: { type: 'boolean', short: 'y' },
  },
  async run(values, output, [action, argument, surplus]) {
    if (surplus !== undefined) throw wrongUse(`model: unexpected ${JSON.stringify(surplus)}`);
    assertAction(action);
    assertTaken(action, Object.keys(values));
    if (action === 'rollback') {
      return withPlace(values, output, async (place) =>
        (await import('./versions.ts')).rollback(place, argument, output),
      );
    }
    if (action === 'ops' || action === 'list' || action === 'prune') {
      if (argument !== undefined) throw wrongUse(`model ${action}: unexpected ${JSON.stringify(argument)}`);
    }
    if (action === 'ops') return ops(output);
    if (action === 'list') {
      return withPlace(values, output, async (place) => (await import('./versions.ts')).list(place, output));
    }
    if (action === 'prune') {
      if (values.keep === undefined) throw wrongUse('model prune: how many stay? Say --keep');
      const keep = wholeNumber('--keep', values.keep, { otherwise: MAX_KEPT, most: MAX_KEPT });
      return withPlace(values, output, async (place) =>
        (await import('./versions.ts')).prune(place, keep, values.yes ?? false, output),
      );
    }
    if (argument === undefined) throw wrongUse(`model ${action}: which directory?`);
    const { out, force, reference, tolerance } = values;
    if (tolerance !== undefined && reference === undefined)
      throw wrongUse('--tolerance goes with --reference');
    const options = {
      convert: { ...(await configured(values.config, output)), ...convertOptionsOf(values) },
      force,
      reference: reference === undefined ? undefined : resolve(reference),
      tolerance: toleranceOf(tolerance),
    };
    if (action === 'check') {
      return interruptible('the check', output, (signal) => check(argument, { ...options, signal }, output));
    }
    if (action === 'push') {
      const activate = values['no-activate'] !== true;
      return withPlace(values, output, async (place) =>
        (await import('./push.ts')).push(place, argument, { activate, import: options }, output),
      );
    }
    return interruptible('the import', output, (signal) =>
      importTo(
        argument,
        { ...options, signal, out: out === undefined ? besides(argument) : resolve(out) },
        values,
        output,
      ),
    );
  },
});

function assertAction(action: string | undefined): asserts action is Action {
  if ((ACTIONS as readonly (string | undefined)[]).includes(action)) return;
  const found = action === undefined ? 'nothing' : JSON.stringify(action);
  const expected = `${ACTIONS.slice(0, -1).join(', ')} or ${ACTIONS.at(-1)}`;
  throw wrongUse(`model: expected ${expected}, got ${found}; \`cluster-serving model --help\` shows how`);
}

function assertTaken(action: Action, said: readonly string[]): void {
  const stray = said.find((name) => !TAKEN[action].includes(name));
  if (stray === undefined) return;
  const why = action === 'check' ? 'model check writes nothing; ' : '';
  const owners = ACTIONS.filter((one) => TAKEN[one].includes(stray)).map((one) => `model ${one}`);
  throw wrongUse(`${why}--${stray} belongs to ${owners.join(', ')}`);
}

async function importTo(
  directory: string,
  options: Omit<ImportOptions, 'version'>,
  values: PlaceValues,
  output: Output,
): Promise<number> {
  assertPlace(values);
  const place = await placeOf(values);
  const imported = await importHere(directory, options, output);
  const version =
    place &&
    (await publishTo(place, imported, options.signal).catch((error: unknown) => {
      throw uploadRefusal(error, place, imported.directory);
    }));
  const { passportText } = await import('../../convert/passport.ts');
  const written = `written to ${imported.directory}`;
  const served = place ? [`version ${version} serves from ${place.text}`] : [];
  output.answer(
    { ...imported, ...(place ? { published: { to: place.text, version } } : {}) },
    [passportText(imported.passport), '', written, ...served].join('\n'),
  );
  return EXIT.ok;
}

/** The section `import` of a config.yaml. */
async function configured(path: string | undefined, output: Output): Promise<ConvertOptions> {
  if (path === undefined) return {};
  const [{ readConfig }, { convertOptions }] = await Promise.all([
    import('../../lib/config/file.ts'),
    import('../../convert/options.ts'),
  ]);
  const { job, notes } = readConfig(resolve(path));
  for (const note of notes) output.note(`note: ${note}`);
  return convertOptions(job.import);
}

/** `model` -> `model-onnx`, in the same folder. */
function besides(directory: string): string {
  const path = resolve(directory);
  return join(dirname(path), `${basename(path)}-onnx`);
}

async function check(directory: string, options: Omit<ImportOptions, 'out' | 'version'>, output: Output) {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-check-'));
  try {
    const { passport } = await importHere(directory, { ...options, out: join(folder, 'model') }, output);
    const { passportText } = await import('../../convert/passport.ts');
    output.answer({ passport }, passportText(passport));
    const { batch, reference } = passport.check;
    if (batch !== 'not run' || reference === 'agrees') return EXIT.ok;
    output.note('not verified: the model was not run, for no made-up inputs fit; the notes say what to give');
    return EXIT.failed;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function ops(output: Output): Promise<number> {
  const { supportedOps, supportedOpsText } = await import('../../convert/supported.ts');
  const supported = await supportedOps();
  output.answer(supported, supportedOpsText(supported));
  return EXIT.ok;
}
