/** Reads what an import put beside a model of texts. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeUtf8, utf8Problem } from '../codecs/utf8.ts';
import { asError, badModel, ServingError } from '../contract/errors.ts';
import { LIMITS } from '../contract/limits.ts';
import { TEXT_FILE } from '../contract/texts.ts';
import { type Chain, readChain } from './layers.ts';
import { TOKENIZER_FILE } from './part.ts';
import { parseTextSettings, type TextSettings } from './settings.ts';
import { readTokenizer, type Tokenizer } from './tokenizer.ts';

export interface TextModel {
  readonly settings: TextSettings;
  readonly tokenizer: Tokenizer;
  /** The layers that a text's vector passes before it is scaled. Absent: none. */
  readonly chain?: Chain;
}

/** The tokenizer and the settings of a model directory. @throws bad_model */
export async function readTextModel(folder: string): Promise<TextModel> {
  const [tokenizer, settings] = await Promise.all([
    readTokenizerFile(join(folder, TOKENIZER_FILE)),
    readFile(join(folder, TEXT_FILE), 'utf8').then(parseTextSettings),
  ]);
  const { layers = [] } = settings;
  return { tokenizer, settings, ...(layers.length > 0 && { chain: await readChain(folder, layers) }) };
}

/** @throws bad_model for a file that is too large, or not served */
export async function readTokenizerFile(path: string): Promise<Tokenizer> {
  let bytes: Uint8Array;
  try {
    const { size } = await stat(path);
    const most = LIMITS.tokenizerBytes;
    if (size > most) throw badModel(`${path}: ${size} bytes are over the limit of ${most} (tokenizerBytes)`);
    bytes = await readFile(path);
  } catch (error) {
    if (error instanceof ServingError) throw error;
    throw badModel(`${path} cannot be read: ${asError(error).message}`, { cause: error });
  }
  const text = decodeUtf8(bytes);
  if (text === undefined) throw badModel(`${path}: ${utf8Problem(bytes)}`);
  return readTokenizer(text);
}
