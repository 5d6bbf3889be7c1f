/**
 * `cluster-serving model`. In: a model directory of any kind the contract names. Out: the model as ONNX with its
 * passport, or only what an import of it would say.
 * Trap: the converters are loaded when there is something to convert; `model --help` is as fast as any help.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import type { Imported, ImportOptions } from '../convert/import.ts';
import { installation } from '../local/installation.ts';
import { COMMON_HELP, defineCommand, wrongUse } from './command.ts';
import { convertOptionsOf, toleranceOf } from './model-options.ts';
import { assertPlace, placeOf, publishTo } from './model-publish.ts';
import { showStages } from './model-stages.ts';
import { EXIT, type Output } from './output.ts';

const HELP = `Usage: cluster-serving model <import | check | ops> [<dir>] [options]

  import <dir>    make an ONNX model of the model in <dir>, check it by running it, and write its passport
  check <dir>     the same without writing anything: does it convert, and does it run?
  ops             the layers and operations that are converted

Kinds of models, by file name: *.onnx; saved_model.pb with variables/; frozen_inference_graph.pb with
graph_meta.json; a TensorFlow checkpoint (*.meta, *.index, *.data-*); Caffe (*.prototxt with *.caffemodel).

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
      --to <s3://bucket/prefix> upload the model there and let it serve
      --job <name>              upload it for this job: of the local service, or of the one whose --bucket is given
      --bucket <name>           bucket of a deployed service
      --data-dir <dir>          folder of the local service (default .cluster-serving)
${COMMON_HELP}`;

export const model = defineCommand({
  name: 'model',
  help: HELP,
  takesArguments: true,
  options: {
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
  },
  async run(values, output, [action, directory, surplus]) {
    if (surplus !== undefined) throw wrongUse(`model: unexpected ${JSON.stringify(surplus)}`);
    if (action === 'ops') return ops(directory, output);
    if (action !== 'import' && action !== 'check') {
      const found = action === undefined ? 'nothing' : JSON.stringify(action);
      throw wrongUse(
        `model: expected import, check or ops, got ${found}; \`cluster-serving model --help\` shows how`,
      );
    }
    if (directory === undefined) throw wrongUse(`model ${action}: which directory?`);
    const { out, force, reference, tolerance } = values;
    const options = {
      convert: convertOptionsOf(values),
      force,
      reference: reference === undefined ? undefined : resolve(reference),
      tolerance: toleranceOf(tolerance),
    };
    if (action === 'check') {
      const only = (['out', 'to', 'job', 'bucket', 'data-dir', 'force'] as const).find(
        (name) => values[name],
      );
      if (only) throw wrongUse(`model check writes nothing; --${only} belongs to model import`);
      return check(directory, options, output);
    }
    assertPlace(values);
    const place = await placeOf(values);
    const target = out === undefined ? besides(directory) : resolve(out);
    const imported = await convert(directory, { ...options, out: target }, output);
    const version = place && (await publishTo(place, imported.directory));
    const { passportText } = await import('../convert/passport.ts');
    const written = `written to ${imported.directory}`;
    const served = place ? [`version ${version} serves from ${place.text}`] : [];
    output.answer(
      { ...imported, ...(place ? { published: { to: place.text, version } } : {}) },
      [passportText(imported.passport), '', written, ...served].join('\n'),
    );
    return EXIT.ok;
  },
});

/** `model` -> `model-onnx`, in the same folder. */
function besides(directory: string): string {
  const path = resolve(directory);
  return join(dirname(path), `${basename(path)}-onnx`);
}

async function check(directory: string, options: Omit<ImportOptions, 'out' | 'version'>, output: Output) {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-check-'));
  try {
    const { passport } = await convert(directory, { ...options, out: join(folder, 'model') }, output);
    const { passportText } = await import('../convert/passport.ts');
    output.answer({ passport }, passportText(passport));
    return EXIT.ok;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function convert(
  directory: string,
  options: Omit<ImportOptions, 'version'>,
  output: Output,
): Promise<Imported> {
  const { importModel } = await import('../convert/import.ts');
  const stages = showStages(process.stderr, output.json);
  try {
    return await importModel(resolve(directory), {
      ...options,
      version: installation().version,
      onStage: stages.show,
    });
  } finally {
    stages.end();
  }
}

async function ops(directory: string | undefined, output: Output): Promise<number> {
  if (directory !== undefined) throw wrongUse(`model ops: unexpected ${JSON.stringify(directory)}`);
  const { supportedOps, supportedOpsText } = await import('../convert/supported.ts');
  const supported = await supportedOps();
  output.answer(supported, supportedOpsText(supported));
  return EXIT.ok;
}
