/** Puts a tokenizer beside an imported model, with the settings that make it a model of texts. */
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeTensors } from '../../lib/codecs/safetensors.ts';
import { badModel } from '../../lib/contract/errors.ts';
import { TEXT_FILE } from '../../lib/contract/texts.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { readTokenizerFile } from '../../lib/text/files.ts';
import { LAYERS_FILE } from '../../lib/text/layers.ts';
import { TOKENIZER_FILE } from '../../lib/text/part.ts';
import { outputName, widthOf } from '../../lib/text/runner.ts';
import { readConfig } from './folder.ts';
import { layerTensors } from './layers.ts';
import { type TextOptions, textFacts } from './settings.ts';

export interface ImportedText {
  readonly notes: readonly string[];
  /** The output that callers see, whose classes have labels; undefined where there are no classes. */
  readonly classes: TensorSpec | undefined;
  /** What was written, relative to the folder. */
  readonly files: readonly string[];
}

/** @throws bad_model for a tokenizer or a model that is not served */
export async function importText(
  directory: string,
  folder: string,
  model: { readonly inputs: readonly TensorSpec[]; readonly outputs: readonly TensorSpec[] },
  options: TextOptions,
): Promise<ImportedText> {
  const source = join(directory, TOKENIZER_FILE);
  const tokenizer = await readTokenizerFile(source);
  await assertSame(directory, JSON.parse(await readFile(source, 'utf8')) as Tokenizer);
  const { settings, layers, notes } = await textFacts(directory, tokenizer, model, options);
  await copyFile(source, join(folder, TOKENIZER_FILE));
  await writeFile(join(folder, TEXT_FILE), `${JSON.stringify(settings, undefined, 1)}\n`);
  const weights = layerTensors(layers);
  if (weights.size > 0) await writeFile(join(folder, LAYERS_FILE), encodeTensors(weights));
  const name = outputName(settings);
  const output = model.outputs.find((one) => one.name === settings.output) as TensorSpec;
  const width = widthOf(output, settings);
  const pair = settings.pair ? ', and may send "text_pair"' : '';
  const asked = `texts: a record sends "text"${pair}, as in {"instances": [{"text": "..."}]}, and gets "${name}" [${width}]`;
  return {
    notes: [asked, ...notes],
    classes: settings.kind === 'classes' ? { name, dtype: 'float32', shape: ['N', width] } : undefined,
    files: [TOKENIZER_FILE, TEXT_FILE, ...(weights.size > 0 ? [LAYERS_FILE] : [])],
  };
}

interface Tokenizer {
  readonly normalizer?: Readonly<Record<string, unknown>> | null;
  readonly pre_tokenizer?: Readonly<Record<string, unknown>> | null;
}

/**
 * Transformers lets tokenizer_config.json overrule some of tokenizer.json; two that differ leave open which of them the
 * model was trained with.
 */
async function assertSame(directory: string, { normalizer, pre_tokenizer: pre }: Tokenizer): Promise<void> {
  const config = await readConfig(directory, 'tokenizer_config.json');
  const pairs = [
    ['do_lower_case', normalizer?.['type'] === 'BertNormalizer' ? normalizer['lowercase'] : undefined],
    ['strip_accents', normalizer?.['type'] === 'BertNormalizer' ? normalizer['strip_accents'] : undefined],
    [
      'tokenize_chinese_chars',
      normalizer?.['type'] === 'BertNormalizer' ? normalizer['handle_chinese_chars'] : undefined,
    ],
    ['add_prefix_space', pre?.['type'] === 'ByteLevel' ? pre['add_prefix_space'] : undefined],
  ] as const;
  for (const [name, own] of pairs) {
    const said = config[name];
    if (typeof own !== 'boolean' || typeof said !== 'boolean' || own === said) continue;
    throw badModel(
      `tokenizer_config.json says ${name}: ${said}, and ${TOKENIZER_FILE} does ${own ? 'it' : 'not'}; save the tokenizer again with \`AutoTokenizer.from_pretrained(...).save_pretrained(...)\`, which makes them agree`,
    );
  }
}
