/** The files of a model of Hugging Face: an ONNX file, tokenizer.json, and the many that say how both are used. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeUtf8, utf8Problem } from '../../lib/codecs/utf8.ts';
import { badModel } from '../../lib/contract/errors.ts';
import { TEXT_FILE } from '../../lib/contract/texts.ts';
import { TOKENIZER_FILE } from '../../lib/text/part.ts';
import { readLimited } from '../files/read-limited.ts';
import { type Choice, chooseModel, severalModels } from '../files/variants.ts';

const INNER = 'onnx';
const OPENVINO_MODEL = 'openvino_model.xml';
const OPENVINO_WEIGHTS = 'openvino_model.bin';
/** What is read besides the tokenizer, where it is there. */
export const CONFIG_FILES = [
  'config.json',
  'modules.json',
  'sentence_bert_config.json',
  'special_tokens_map.json',
  'tokenizer_config.json',
];
/** The folders of sentence-transformers' modules. */
const MODULE_FOLDER = /^\d{1,2}_\w{1,40}$/;
const MODULE_FILES = ['config.json', 'model.safetensors', 'pytorch_model.bin'];
const MAX_CONFIG_BYTES = 16 * 1024 * 1024;

interface TextFiles {
  readonly kind: 'hugging_face' | 'openvino';
  readonly files: readonly string[];
  readonly notes: readonly string[];
}

/**
 * The files of a text model, that of the model first; undefined where the directory holds none, or one that was imported.
 * @param names of the files right in it. @throws bad_model for several ONNX files of which none is the obvious one
 */
export async function textModelFiles(
  folder: string,
  names: readonly string[],
  choice: Choice,
): Promise<TextFiles | undefined> {
  if (!names.includes(TOKENIZER_FILE) || names.includes(TEXT_FILE)) return undefined;
  const below: string[] = await readdir(join(folder, INNER)).catch(() => []);
  const inner = below.sort().map((name) => `${INNER}/${name}`);
  const models = [...names, ...inner].filter((name) => name.endsWith('.onnx'));
  if (models.length === 0) return openvinoFiles(folder, names, choice);
  const chosen =
    chooseModel(models, (name) => name, choice) ??
    severalModels(folder, models, `choose one: --file ${models[0]}`);
  const { item: model, note } = chosen;
  const weights = [...names, ...inner].filter(
    (name) => name.startsWith(`${model}_`) || name.startsWith(`${model}.`),
  );
  const files = [model, TOKENIZER_FILE, ...(await configFiles(folder, names)), ...weights];
  return { kind: 'hugging_face', files, notes: note === undefined ? [] : [note] };
}

/** As optimum-intel writes them, beside a tokenizer that is a model of OpenVINO as well. */
async function openvinoFiles(
  folder: string,
  names: readonly string[],
  { file = OPENVINO_MODEL }: Choice,
): Promise<TextFiles | undefined> {
  if (file !== OPENVINO_MODEL || !names.includes(OPENVINO_MODEL)) return undefined;
  const model = [OPENVINO_MODEL, ...names.filter((name) => name === OPENVINO_WEIGHTS)];
  const files = [...model, TOKENIZER_FILE, ...(await configFiles(folder, names))];
  return { kind: 'openvino', files, notes: [`the model of OpenVINO was taken, ${OPENVINO_MODEL}`] };
}

async function configFiles(folder: string, names: readonly string[]): Promise<string[]> {
  const modules = (await readdir(folder)).filter((name) => MODULE_FOLDER.test(name)).sort();
  const parts = modules.flatMap((name) => MODULE_FILES.map((file) => `${name}/${file}`));
  return [
    ...CONFIG_FILES.filter((name) => names.includes(name)),
    ...parts.filter((name) => existsSync(join(folder, name))),
  ];
}

export type Json = Readonly<Record<string, unknown>>;

/** A JSON object; empty where there is no such file. @throws bad_model */
export async function readConfig(folder: string, name: string): Promise<Json> {
  if (!existsSync(join(folder, name))) return {};
  const value = await readJson(folder, name);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json;
  throw badModel(`${name}: expected an object`);
}

/** @throws bad_model */
export async function readJson(folder: string, name: string): Promise<unknown> {
  const bytes = await readLimited(folder, name, MAX_CONFIG_BYTES);
  const text = decodeUtf8(bytes);
  if (text === undefined) throw badModel(`${name}: ${utf8Problem(bytes)}`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw badModel(`${name}: not JSON: ${(error as Error).message}`, { cause: error });
  }
}
