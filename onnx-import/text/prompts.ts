/** What sentence-transformers puts in front of texts, and how many numbers of a vector it keeps. */
import { badModel } from '../../lib/contract/errors.ts';
import type { TextSettings } from '../../lib/text/settings.ts';
import { readConfig } from './folder.ts';

export const SENTENCES = 'config_sentence_transformers.json';
const MOST_PROMPTS = 1_000;

interface Prompts {
  readonly settings: Pick<TextSettings, 'prompts' | 'defaultPrompt' | 'dimensions'>;
  readonly notes: readonly string[];
}

/** @throws bad_model for fields that are not what the format says */
export async function promptsOf(folder: string): Promise<Prompts> {
  const {
    prompts = {},
    default_prompt_name: name,
    truncate_dim: dimensions,
  } = await readConfig(folder, SENTENCES);
  const entries = isObject(prompts) ? Object.entries(prompts) : undefined;
  if (!entries || entries.length > MOST_PROMPTS || !entries.every(([, text]) => typeof text === 'string'))
    throw badModel(`${SENTENCES}: prompts: expected texts by name`);
  const texts = Object.fromEntries(entries) as Readonly<Record<string, string>>;
  if (name !== undefined && name !== null && !(typeof name === 'string' && Object.hasOwn(texts, name)))
    throw badModel(
      `${SENTENCES}: default_prompt_name ${JSON.stringify(name)?.slice(0, 80)}: prompts has no text of this name; correct the file`,
    );
  const isCount = Number.isSafeInteger(dimensions) && (dimensions as number) > 0;
  if (dimensions !== undefined && dimensions !== null && !isCount)
    throw badModel(
      `${SENTENCES}: truncate_dim: expected a whole number from 1, found ${JSON.stringify(dimensions)}`,
    );
  const hasPrompts = entries.some(([, text]) => text !== '');
  if (hasPrompts) await assertCounted(folder);
  return {
    settings: {
      ...(hasPrompts && { prompts: texts, ...(typeof name === 'string' && { defaultPrompt: name }) }),
      ...(isCount && { dimensions: dimensions as number }),
    },
    notes: [
      ...(hasPrompts ? [promptNote(texts, name)] : []),
      ...(isCount ? [`a vector has its first ${String(dimensions)} numbers (truncate_dim)`] : []),
    ],
  };
}

function promptNote(prompts: Readonly<Record<string, string>>, name: unknown): string {
  const names = Object.keys(prompts).join(', ');
  const usual =
    typeof name === 'string'
      ? `${JSON.stringify(prompts[name])} goes in front of each text (default_prompt_name ${name})`
      : 'no prompt goes in front of a text';
  return `${usual}; "prompt_name" of a record chooses another of ${names}`;
}

/** @throws bad_model where the tokens of a prompt do not count in the pooling, which is not done here */
async function assertCounted(folder: string): Promise<void> {
  const { include_prompt: includes } = await readConfig(folder, '1_Pooling/config.json');
  if (includes === false)
    throw badModel(
      `1_Pooling/config.json: include_prompt false leaves the tokens of a prompt out of the vector, which is not served; put import: {ignore: [${SENTENCES}]} into the settings to serve it without prompts`,
    );
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
