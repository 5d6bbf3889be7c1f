/** Reads the file of a model of trees. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import type { Conversion } from '../conversion.ts';
import type { FoundModel } from '../detect.ts';
import { INPUT } from './convert.ts';
import { readLightgbm } from './lightgbm.ts';
import { readUbjson } from './ubjson.ts';
import { type ReadModel, readXgboost } from './xgboost.ts';

/** A text ends at 512 MB in V8. */
const MAX_BYTES = 500 * 1024 * 1024;

/** @throws bad_model naming the file and what is not supported */
export async function convertTrees({ kind, directory, files }: FoundModel): Promise<Conversion> {
  const [file = ''] = files;
  const bytes = await bytesOf(join(directory, file), file);
  try {
    const read = kind === 'xgboost' ? readXgboost(documentOf(bytes)) : readLightgbm(bytes.toString('utf8'));
    return conversionOf(read, file);
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code !== 'bad_model') throw error;
    throw badModel(`${file}: ${message}`, { cause: error });
  }
}

function conversionOf({ graph, columns, notes }: ReadModel, file: string): Conversion {
  return { graph, files: [file], notes, names: { columns: { [INPUT]: columns }, labels: {} } };
}

async function bytesOf(path: string, file: string): Promise<Buffer> {
  const { size } = await stat(path);
  if (size > MAX_BYTES) throw badModel(`${file}: ${size} bytes are over the limit of ${MAX_BYTES}`);
  return readFile(path);
}

/** A document of XGBoost, by its content: JSON, or UBJSON, whose first key begins with the type of its length. */
function documentOf(bytes: Buffer): unknown {
  const head = bytes.subarray(0, 4).toString('latin1');
  if (head.startsWith('binf') || head.startsWith('bs64')) {
    throw badModel(
      'XGBoost\'s old binary format, which is not read; in Python: xgboost.Booster(model_file=...).save_model("model.json") with XGBoost 1 or 2',
    );
  }
  if (/^\{[iUIlL#]/.test(head)) return readUbjson(bytes);
  const text = bytes.toString('utf8');
  try {
    // XGBoost writes NaN where a split has no threshold. JSON has no such number, and null is none.
    const isPlain = !/NaN|Infinity/.test(text);
    return JSON.parse(isPlain ? text : text.replaceAll(/"(?:[^"\\]|\\.)*"|NaN|Infinity/g, jsonNumber));
  } catch (error) {
    throw badModel(`neither JSON nor UBJSON: ${(error as Error).message.slice(0, 200)}`, { cause: error });
  }
}

function jsonNumber(token: string): string {
  if (token === 'NaN') return 'null';
  return token === 'Infinity' ? '1e999' : token;
}
