/** Reads the file of a model of trees. */
import { badModel, ServingError } from '../../../lib/contract/errors.ts';
import { readLimited } from '../../files/read-limited.ts';
import { adviceOnJson } from '../../source/advice/no-model.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import type { FoundModel } from '../../source/detect.ts';
import type { Conversion } from '../conversion.ts';
import { INPUT } from './convert.ts';
import { readJson } from './json.ts';
import { readLightgbm } from './lightgbm.ts';
import { readUbjson } from './ubjson.ts';
import { type ReadModel, readXgboost } from './xgboost.ts';

/** Far above the ensembles in use. */
const MAX_BYTES = 500 * 1024 * 1024;

/** @throws bad_model naming the file and what is not supported */
export async function convertTrees(
  { kind, directory, files }: FoundModel,
  { missing }: ConvertOptions,
): Promise<Conversion> {
  const [file = ''] = files;
  const bytes = await readLimited(directory, file, MAX_BYTES);
  try {
    if (kind === 'lightgbm') return conversionOf(readLightgbm(bytes), file);
    const document = documentOf(bytes);
    const other = adviceOnJson(file, document);
    if (other !== undefined) throw badModel(`expected a model of XGBoost, found ${other}`);
    return conversionOf(readXgboost(document, missing), file);
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code !== 'bad_model') throw error;
    throw badModel(`${file}: ${message}`, { cause: error });
  }
}

function conversionOf({ graph, columns, notes }: ReadModel, file: string): Conversion {
  return { graph, files: [file], notes, names: { columns: { [INPUT]: columns }, labels: {} } };
}

/** A document of XGBoost, by its content: JSON, or UBJSON, whose first key begins with the type of its length. */
function documentOf(bytes: Buffer): unknown {
  const head = bytes.subarray(0, 4).toString('latin1');
  if (head.startsWith('binf') || head.startsWith('bs64')) {
    throw badModel(
      'XGBoost\'s old binary format, which is not read; in Python: xgboost.Booster(model_file=...).save_model("model.json") with XGBoost 1 or 2',
    );
  }
  return /^\{[iUIlL#]/.test(head) ? readUbjson(bytes) : readJson(bytes);
}
