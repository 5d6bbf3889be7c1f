/** Imports a model and shows its stages. The converters are loaded only here. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { installation } from '../../local/machine/installation.ts';
import type { Imported, ImportReport } from '../../onnx-import/index.ts';
import type { ImportOptions } from '../../release/import.ts';
import type { Output } from '../output.ts';
import { showProgress } from '../progress.ts';

const MB = 1e6;
/** A smaller file is written before a progress bar would be noticed. */
const LONG_MB = 16;

type Options = Omit<ImportOptions, 'version'>;

export async function importHere(directory: string, options: Options, output: Output): Promise<Imported> {
  const { importModel } = await import('../../release/import.ts');
  const { STAGES } = await import('../../onnx-import/index.ts');
  const progress = showProgress(output.json);
  try {
    return await importModel(resolve(directory), {
      ...options,
      version: installation().version,
      onStage(stage, done = 0, bytes = 0) {
        const total = bytes > LONG_MB * MB ? bytes / MB : undefined;
        progress.update({ label: STAGES[stage], done: done / MB, total, unit: 'MB' });
      },
    });
  } finally {
    progress.end();
  }
}

/** Imports into a temporary folder, which is removed after `work`. */
export async function withImport<T>(
  directory: string,
  options: Omit<Options, 'out'>,
  output: Output,
  work: (imported: Imported) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-import-'));
  try {
    return await work(await importHere(directory, { ...options, out: join(folder, 'model') }, output));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The import report as text, with the advice about images, which --json has as data. */
export async function described(importReport: ImportReport, { image }: JobConfig) {
  const { importReportText } = await import('../../onnx-import/index.ts');
  const { SERVICE } = await import('../../release/service-words.ts');
  const { imageAdvice, picturesText } = await import('../../release/image-advice.ts');
  const text = [importReportText(importReport, SERVICE), ...picturesText(importReport, image)].join('\n');
  return { imageAdvice: imageAdvice(importReport, image), text };
}
