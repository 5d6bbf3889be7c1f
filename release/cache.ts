/**
 * Gives a job a directory with an ONNX model: its own, or an import that is cached. A cached import is found by the
 * content of the source files, the options and the converter, never by names or times, and its hash is verified
 * before it serves.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { IGNORABLE } from '../lib/config/import-values.ts';
import type { JobConfig } from '../lib/config/job.ts';
import { ServingError } from '../lib/contract/errors.ts';
import {
  type Convert,
  type ConvertOptions,
  configLines,
  converterHash,
  detect,
  type Found,
  fileFacts,
  folderImage,
  type ImportReport,
  KINDS,
  needsImport,
  ORIGIN_FILE,
  preparedText,
  reportPath,
  uselessOptions,
} from '../onnx-import/index.ts';
import { replaceGolden } from './golden/file.ts';
import { choiceLines, imageAdvice } from './image-advice.ts';
import type { ImportOptions } from './import.ts';
import { convertOptions, forConfig } from './options.ts';
import { assertApplied } from './unapplied.ts';

interface OnTheWayOptions {
  readonly job: JobConfig;
  /** The cache directory, created if missing. */
  readonly cacheDir: string;
  /** The version of the package. */
  readonly version: string;
  readonly onStage?: ImportOptions['onStage'];
  readonly signal?: AbortSignal | undefined;
  readonly converter?: Convert | undefined;
  readonly process?: ImportOptions['process'];
}

export interface OnTheWay {
  /** A directory with one *.onnx. */
  readonly directory: string;
  /** Notes for the user; empty when the directory was used as it is. */
  readonly notes: readonly string[];
  /** Written by an import. */
  readonly importReport?: ImportReport;
  readonly fromCache?: boolean;
}

/** Files that may be read beside a model. */
const BESIDE = ['names.json', 'labels.txt', 'image.json', ORIGIN_FILE, ...IGNORABLE];

/** The imports kept: the current one, its successor, one for a rollback, and one more. */
const KEPT = 4;

/**
 * @throws bad_model when the directory holds something that cannot be imported. A directory with one *.onnx, or a
 * missing one, is returned unchanged; opening the model reports what is wrong.
 */
export async function modelOnTheWay(directory: string, options: OnTheWayOptions): Promise<OnTheWay> {
  const convert = convertOptions(options.job.import);
  if (!(await needsImport(directory, convert))) {
    const useless = Object.keys(convert).some((name) => name !== 'shapesInOrder');
    return {
      directory,
      notes: [
        ...(useless ? ['import: no effect; the model is ONNX and is used unchanged'] : []),
        ...(await assertApplied(directory, options.job)),
      ],
    };
  }
  try {
    return await importedModel(directory, convert, options);
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code === 'internal') throw error;
    const where = message.includes(directory) ? '' : `model directory ${directory}: `;
    throw new ServingError(code, `${where}${forConfig(message)}`, { cause: error });
  }
}

async function importedModel(
  directory: string,
  convert: ConvertOptions,
  options: OnTheWayOptions,
): Promise<OnTheWay> {
  const start = performance.now();
  const found = await detect(directory, convert);
  const sources = await fileFacts(found.directory, found.files);
  const ignored = await assertApplied(found.home, options.job, found);
  const key = createHash('sha256')
    .update(
      JSON.stringify([
        found.kind,
        sources,
        await besideFacts(found.home),
        convert,
        options.version,
        await converterHash(),
        found.mlflow,
        ignored,
        // Its settings may stand in for fields that cannot be applied.
        (await folderImage(found.beside, options.job.import)) && options.job.image,
      ]),
    )
    .digest('hex')
    .slice(0, 16);
  const folder = join(options.cacheDir, key);
  const kept = await keptImport(folder);
  const importReport = kept.importReport ?? (await importNow(found, { ...options, convert, out: folder }));
  await replaceGolden(found.home, folder);
  await forgetOthers(options.cacheDir, key);
  const took = `${((performance.now() - start) / 1000).toFixed(1)} s`;
  const how = kept.importReport ? `taken from an earlier import in ${took}` : `imported in ${took}`;
  const said = [
    `${KINDS[found.kind].title} model ${found.home}: ${how}; its import report: ${reportPath(folder)}`,
  ];
  const useless = uselessOptions(found.kind, convert);
  const notes = [
    ...said,
    ...(kept.problem === undefined ? [] : [kept.problem]),
    // A setting without effect is reported, never silently ignored.
    ...(useless === undefined ? [] : [`import.${useless}`]),
    ...importReport.notes.map(forConfig),
    ...configNotes(importReport, options.job),
  ];
  return { directory: folder, notes, importReport, fromCache: kept.importReport !== undefined };
}

/** Files that are not part of the model, but of its report and its labels. */
async function besideFacts(directory: string) {
  const names = BESIDE.filter((name) => existsSync(join(directory, name)));
  return fileFacts(directory, names);
}

async function importNow(found: Found, options: OnTheWayOptions & ImportOptions): Promise<ImportReport> {
  await mkdir(options.cacheDir, { recursive: true });
  // Loaded on demand: a start with a cached import does not wait for the converters.
  const { importFound } = await import('./import.ts');
  return (await importFound(found, options)).importReport;
}

function configNotes(importReport: ImportReport, { image }: JobConfig): string[] {
  const lines = configLines(importReport);
  const { prepared } = importReport;
  const advice = imageAdvice(importReport, image);
  const needed = [
    ...(prepared ? [preparedText(prepared, image)] : []),
    ...(lines.length === 0 ? [] : [`for config.yaml, this model needs:\n${lines.join('\n')}`]),
  ];
  return advice === undefined ? needed : [...needed, [advice.text, ...choiceLines(advice)].join('\n')];
}

interface KeptImport {
  /** Set only for a complete import. */
  readonly importReport?: ImportReport;
  /** Why the cached import is not used. */
  readonly problem?: string;
}

async function keptImport(folder: string): Promise<KeptImport> {
  try {
    const importReport: ImportReport = JSON.parse(await readFile(reportPath(folder), 'utf8'));
    const wanted = importReport.model.files;
    const found = await fileFacts(
      folder,
      wanted.map(({ path }) => path),
    );
    const other = wanted.find(({ sha256 }, i) => found[i]?.sha256 !== sha256);
    if (other === undefined) return { importReport };
    const path = join(folder, other.path);
    return { problem: `an earlier import was not used: ${path} is no longer what its import report says` };
  } catch {
    return {};
  }
}

/** Keeps the most recently used imports; this one counts as used now. */
async function forgetOthers(cacheDir: string, key: string): Promise<void> {
  const now = new Date();
  await utimes(join(cacheDir, key), now, now);
  const names = (await readdir(cacheDir)).filter((name) => /^[0-9a-f]{16}$/.test(name) && name !== key);
  const dated = await Promise.all(
    names.map(async (name) => ({
      name,
      at: (await stat(join(cacheDir, name)).catch(() => undefined))?.mtimeMs ?? 0,
    })),
  );
  const old = dated.sort((a, b) => b.at - a.at).slice(KEPT - 1);
  for (const { name } of old) await rm(join(cacheDir, name), { recursive: true, force: true });
}
