/** A new project serves the sample, a model of the user, or a worker. Each brings its files, settings and a request. */
import { constants } from 'node:fs';
import { copyFile, cp, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { ServingError, withPathAs } from '../../lib/contract/errors.ts';
import { sampleConfig } from '../../local/machine/installation.ts';
import { configLines, type ImportReport } from '../../onnx-import/index.ts';
import { wrongUse } from '../command.ts';
import { described, importHere } from '../model/import.ts';
import { withSource } from '../model/source.ts';
import { EXIT, type Output } from '../output.ts';
import { dataDirOf } from '../service.ts';

type Row = readonly [path: string, about: string];

export interface Part {
  /** For the README. */
  readonly about: string;
  readonly files: readonly Row[];
  readonly deploy?: string;
  /** Lines of config.yaml below the name of the job. */
  readonly config: string;
  /** A body of POST /predict, as JSON. */
  readonly request: string;
  /** Replaced in the test: what is right for this request. */
  readonly checks: readonly (readonly [from: string, to: string])[];
  /** Text by path. */
  readonly sources?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

const MODEL = 'model';
/** The lines of the test that hold for every model. */
const ANY_PREDICTION = 'assert.match(predictions[0], /^\\{value=/);';
const ANY_RESULT = 'assert.ok(result.outputs.length > 0);';
/** Bundles a worker in TypeScript for a deployment; the version that this project is tested with. */
const ESBUILD = '0.28.2';

export async function samplePart(folder: string): Promise<Part> {
  const sample = dirname(sampleConfig());
  await cp(join(sample, 'model'), join(folder, MODEL), { recursive: true });
  await cp(join(sample, 'images'), join(folder, 'images'), { recursive: true });
  const b64 = await readFile(join(sample, 'images', 'digit-3.png'), 'base64');
  return {
    about: 'A model that reads handwritten digits',
    files: [
      ['model/', 'the model; `npx cluster-serving model import <folder> --out model --force` replaces it'],
      ['images/', 'pictures to ask it with: `npx cluster-serving predict images/digit-3.png`'],
    ],
    config: `modelPath: ${MODEL}\n# Of the sample: its pictures have 8 x 8 pixels, and the answer is the most probable digit.\nimageResize: 8,8\npostProcessing: topN(1)\n`,
    request: `${JSON.stringify({ instances: [{ image: { b64 } }] })}\n`,
    checks: [
      [ANY_PREDICTION, 'assert.match(predictions[0], /^\\{value=\\[\\[3,/);'],
      [ANY_RESULT, 'assert.equal(result.filtered[0][0], 3);'],
    ],
  };
}

/** @throws bad_model for a model that cannot be imported */
export async function importedPart(
  model: string,
  folder: string,
  output: Output,
  signal: AbortSignal,
): Promise<Part> {
  let importReport: ImportReport | undefined;
  await withSource(model, dataDirOf({}), output, async (source) => {
    await withFolder(source, async (directory) => {
      const imported = await importHere(directory, { out: join(folder, MODEL), signal }, output);
      importReport = imported.importReport;
    });
    return EXIT.ok;
  });
  // An interrupted copy has no model.
  signal.throwIfAborted();
  if (importReport === undefined) throw wrongUse(`init: ${model} was not copied`);
  if (!output.json) output.note((await described(importReport, DEFAULT_JOB)).text);
  const { sample } = importReport;
  // The body of a large input is a line of JavaScript in the report, for a person to run.
  const body = sample?.body;
  if (body === undefined)
    output.note(
      'the report of the import has no short request: write one into request.json before `npm test`',
    );
  return {
    about: `The model of ${basename(model)}`,
    files: [['model/', 'the model as ONNX, with a report of its import, `import-report.md`']],
    config: [`modelPath: ${MODEL}`, ...configLines(importReport), ''].join('\n'),
    request: `${body ?? JSON.stringify({ instances: [{}] })}\n`,
    checks: [],
  };
}

/** A file is imported from a folder of its own, with those that begin with its name, as external weights do. */
async function withFolder(path: string, work: (directory: string) => Promise<void>): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || found.isDirectory()) return work(path);
  const copy = await mkdtemp(join(tmpdir(), 'cluster-serving-init-'));
  try {
    const name = basename(path);
    for (const each of await readdir(dirname(path)))
      if (each === name || each.startsWith(`${name}.`) || each.startsWith(`${name}_`))
        await copyFile(join(dirname(path), each), join(copy, each), constants.COPYFILE_FICLONE);
    await work(copy);
  } catch (error) {
    throw withPathAs(ServingError.from(error), copy, path);
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

const LANGUAGES = {
  python: {
    source: 'server.py',
    about: 'A worker in Python',
    deploy: ' The worker is deployed as\na container image, for which `npm run deploy` needs docker.',
  },
  typescript: { source: 'server.mts', about: 'A worker in TypeScript', deploy: undefined },
} as const;

export async function workerPart(
  language: keyof typeof LANGUAGES,
  template: (file: string) => Promise<string>,
): Promise<Part> {
  const { source, about, deploy } = LANGUAGES[language];
  return {
    about,
    files: [[source, 'the worker: the code that loads and answers']],
    ...(deploy !== undefined && { deploy }),
    config: 'batchSize: 16\nworker:\n  class: server.Worker\n',
    request: `${JSON.stringify({ instances: [{ values: [1, 2, 3] }] })}\n`,
    checks: [
      [ANY_PREDICTION, `assert.equal(predictions[0], '{value={"mean":2}}');`],
      [ANY_RESULT, 'assert.deepEqual(result.value, { mean: 2 });'],
    ],
    sources: { [source]: await template(source) },
    ...(language === 'typescript' && { devDependencies: { esbuild: ESBUILD } }),
  };
}
