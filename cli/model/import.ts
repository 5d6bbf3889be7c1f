/**
 * In: a model directory. Out: its import, with the stages drawn on the terminal.
 * Trap: the converters are loaded here and not before.
 */
import { resolve } from 'node:path';
import type { Imported, ImportOptions } from '../../convert/import.ts';
import { installation } from '../../local/installation.ts';
import type { Output } from '../output.ts';
import { showStages } from './stages.ts';

export async function importHere(
  directory: string,
  options: Omit<ImportOptions, 'version'>,
  output: Output,
): Promise<Imported> {
  const { importModel } = await import('../../convert/import.ts');
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
