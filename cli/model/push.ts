/**
 * `model push`. In: a model directory of any kind. Out: an immutable version in S3 that serves, or only lies there.
 * Trap: an upload of gigabytes is broken off now and then: Ctrl-C calls off what is half there, and the next push
 * passes over the files that are whole.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { ImportOptions } from '../../convert/import.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import type { ModelSource } from '../../lib/registry/versions.ts';
import { bytesText } from '../dlq/text.ts';
import { EXIT, type Output } from '../output.ts';
import { progressLine, type Terminal } from '../progress.ts';
import { importHere } from './import.ts';
import type { OpenPlace } from './place.ts';

export interface PushOptions {
  /** False: upload only. */
  readonly activate: boolean;
  readonly import: Omit<ImportOptions, 'out' | 'version'>;
}

export async function push(
  { s3, location, text }: OpenPlace,
  directory: string,
  { activate, import: options }: PushOptions,
  output: Output,
): Promise<number> {
  const stop = new AbortController();
  const onSignal = () => stop.abort(new ServingError('cancelled', 'the upload was called off'));
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  const bar = showBytes(process.stderr, () => performance.now());
  try {
    const published = await withOnnx(directory, options, output, (found) =>
      publishModel(s3, location, found.directory, {
        activate,
        source: found.source,
        signal: stop.signal,
        onBytes: bar.update,
      }).then((one) => ({ ...one, format: found.source.format })),
    );
    bar.end();
    const { version, files, skipped, before, serves, format } = published;
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    const uploaded = files.length - skipped;
    const was = before === undefined || before === version ? '' : `, in place of ${before}`;
    const now = serves
      ? `serves from ${text}${was}`
      : `lies in ${text}; \`model rollback ${version}\` lets it serve`;
    output.answer(
      {
        version,
        to: text,
        format,
        bytes,
        files: files.length,
        uploaded,
        skipped,
        serves,
        before: before ?? null,
      },
      [
        `${uploaded} of ${files.length} files uploaded, ${bytesText(bytes)} in all${skipped > 0 ? `; ${skipped} were there` : ''}`,
        `version ${version} ${now}`,
      ].join('\n'),
    );
    return EXIT.ok;
  } finally {
    bar.end();
    process.removeListener('SIGINT', onSignal);
    process.removeListener('SIGTERM', onSignal);
  }
}

interface OnnxDirectory {
  readonly directory: string;
  readonly source: ModelSource;
}

/** Calls `work` with a directory that holds ONNX: this one after a look at it, or an import of it. */
async function withOnnx<T>(
  directory: string,
  options: PushOptions['import'],
  output: Output,
  work: (found: OnnxDirectory) => Promise<T>,
): Promise<T> {
  const { needsImport } = await import('../../convert/detect.ts');
  const folder = resolve(directory);
  if (!(await needsImport(folder))) {
    const said = Object.keys(options.convert ?? {});
    if (said.length > 0) {
      const message = `an ONNX model is taken as it is; ${said.join(', ')} cannot be changed here`;
      throw new ServingError('bad_config', message);
    }
    await assertRuns(folder, options);
    return work({ directory: folder, source: await sourceOf(folder) });
  }
  const temporary = await mkdtemp(join(tmpdir(), 'cluster-serving-push-'));
  try {
    const imported = await importHere(folder, { ...options, out: join(temporary, 'model') }, output);
    return await work({ directory: imported.directory, source: imported.passport.source });
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

/** A model that cannot be loaded here would not be loaded there, and nobody would be told before it serves. */
async function assertRuns(folder: string, { reference, tolerance }: PushOptions['import']): Promise<void> {
  const [{ checkOnnx }, { readOnnxFacts }, { referenceProblem }] = await Promise.all([
    import('../../convert/check/check.ts'),
    import('../../convert/onnx/facts.ts'),
    import('../../convert/passport.ts'),
  ]);
  const file = await findModelFile(folder);
  const { shapelessInputs: shapeless } = await readOnnxFacts(file);
  const report = await checkOnnx(file, { reference, tolerance, shapeless });
  const problem = referenceProblem(report);
  if (problem) throw new ServingError('bad_model', problem);
}

/** An import left its passport beside the model. */
async function sourceOf(folder: string): Promise<ModelSource> {
  try {
    const text = await readFile(join(folder, 'passport.json'), 'utf8');
    const { source } = JSON.parse(text) as { source?: Partial<ModelSource> };
    if (typeof source?.format === 'string' && Array.isArray(source.files)) {
      return { format: source.format, files: source.files };
    }
  } catch {
    // There is none, or it is somebody else's.
  }
  return { format: 'onnx' };
}

export interface BytesBar {
  readonly update: (done: number, total: number) => void;
  readonly end: () => void;
}

const MB = 1e6;
const REDRAW_MS = 100;
const DEFAULT_COLUMNS = 80;

/** One line in MB with rate and time left, redrawn; gone at the end, and nothing without a terminal. */
export function showBytes(terminal: Terminal, now: () => number): BytesBar {
  if (!terminal.isTTY) return { update: () => undefined, end: () => undefined };
  const start = now();
  let drawnAt = Number.NEGATIVE_INFINITY;
  let isDrawn = false;
  return {
    update(done, total) {
      if (now() - drawnAt < REDRAW_MS && done !== total) return;
      drawnAt = now();
      isDrawn = true;
      const columns = (terminal.columns || DEFAULT_COLUMNS) - 10;
      const line = progressLine(Math.round(done / MB), Math.ceil(total / MB), drawnAt - start, columns);
      terminal.write(`\r\u001b[KMB sent  ${line}`);
    },
    end() {
      if (isDrawn) terminal.write('\r\u001b[K');
      isDrawn = false;
    },
  };
}
