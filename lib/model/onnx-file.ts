/**
 * In: a model directory. Out: its one model file.
 * Trap: two models in one directory are as wrong as none; guessing would serve the wrong one.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ServingError } from '../errors.ts';

/** The only `*.onnx` of a model directory. @throws model_unavailable for none, several, or no such directory */
export async function findModelFile(directory: string): Promise<string> {
  let names: string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    throw new ServingError('model_unavailable', `model directory ${directory} cannot be read`, {
      cause: error,
    });
  }
  const models = names.filter((name) => name.endsWith('.onnx')).sort();
  if (models.length === 1) return join(directory, models[0] as string);
  const found = models.length === 0 ? `none in ${names.length} files` : models.join(', ');
  throw new ServingError(
    'model_unavailable',
    `model directory ${directory}: expected one *.onnx file, found ${found}`,
  );
}
