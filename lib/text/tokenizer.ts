/**
 * Tokenizes texts as Hugging Face's tokenizers do, from tokenizer.json: added tokens, normalizer, pre-tokenizer, model,
 * template, truncation. Exactly, or the file is refused: a token id that is off by one is another word.
 */
import { asError } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { type AddedTokens, addedTokens, type Section } from './added-tokens.ts';
import { tokenModel } from './models.ts';
import { type Normalizer, normalizerOf } from './normalize.ts';
import { Part, refused } from './part.ts';
import { type PreTokenizer, preTokenizerOf } from './pre-tokenize.ts';
import {
  assertIds,
  type Encoded,
  fill,
  type Templates,
  type Truncation,
  templatesOf,
  truncationOf,
} from './template.ts';
import type { TokenModel } from './token-model.ts';

/** How the file pads the texts of a run. */
export interface Padding {
  readonly id: number;
  readonly type: number;
  readonly side: 'right' | 'left';
  /** Lengths are multiples of it. Default 1. */
  readonly multipleOf: number;
  /** The least number of tokens. */
  readonly fixed: number | undefined;
}

/**
 * Limit for one piece after normalization: the model counts positions in 21 bits, and a UTF-16 unit may be three of
 * them.
 */
const MAX_PIECE = 2 ** 19;
const MAX_FIXED = 65_536;

export interface Tokenizer {
  /** @param most tokens with the special ones. @throws too_large, bad_input */
  encode(text: string, pair?: string, most?: number): Encoded;
  readonly templates: Templates;
  readonly truncation: ReturnType<typeof truncationOf>;
  readonly padding: Padding | undefined;
  /** One more than the largest id. */
  readonly size: number;
  idOf(token: string): number | undefined;
}

/** @param text of tokenizer.json. @throws bad_model naming the part that is not served */
export async function readTokenizer(text: string): Promise<Tokenizer> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw refused('the file', `not JSON: ${asError(error).message}`);
  }
  const file = new Part(value, 'the file');
  const [normalizer, preTokenizer] = [file.optional('normalizer'), file.optional('pre_tokenizer')];
  const normalize = normalizer && (await normalizerOf(normalizer));
  const split = preTokenizer && (await preTokenizerOf(preTokenizer));
  if (normalize?.mayRemoveFirst && JSON.stringify(file.raw('pre_tokenizer') ?? null).includes('"first"')) {
    throw refused(
      'pre_tokenizer',
      '"prepend_scheme": "first" behind a normalizer that removes characters is not served; export the model without it',
    );
  }
  const model = tokenModel(file.part('model'));
  const added = addedTokens(file.raw('added_tokens'), model, (token) => normalize?.normalize(token) ?? token);
  const templates = templatesOf(file.optional('post_processor'));
  const size = Math.max(model.size, added.size);
  assertIds(templates, size);
  const parts = { normalize, split, model, added };
  const truncation = truncationOf(file.optional('truncation'));
  return {
    templates,
    truncation,
    padding: paddingOf(file.optional('padding'), size),
    size,
    idOf: (token) => added.idOf(token) ?? model.idOf(token),
    encode(first, second, most) {
      const cut: Truncation | undefined = most === undefined ? undefined : { ...truncation, most };
      const pair = second === undefined ? undefined : idsOf(second, parts);
      return fill(templates, idsOf(first, parts), pair, cut);
    },
  };
}

interface Parts {
  readonly normalize: Normalizer | undefined;
  readonly split: PreTokenizer | undefined;
  readonly model: TokenModel;
  readonly added: AddedTokens;
}

function idsOf(text: string, { normalize, split, model, added }: Parts): number[] {
  if (text.length > LIMITS.textCharacters) {
    throw overLimit('textCharacters', `a text of ${text.length} characters is`, 'characters');
  }
  const ids: number[] = [];
  const encode = ({ text: section, id, start }: Section, isFirst: boolean) => {
    if (id !== undefined) {
      ids.push(id);
      return;
    }
    const piece = { text: section, isFirst: isFirst && start === 0 };
    for (const { text: part } of split?.(piece) ?? [piece]) {
      if (part.length > MAX_PIECE)
        throw overLimit('textCharacters', 'a text is, after normalization,', 'characters');
      if (part !== '') model.encode(part, ids);
    }
  };
  for (const section of added.original(text)) {
    if (section.id !== undefined) encode(section, false);
    else {
      const normalized = normalize?.normalize(section.text) ?? section.text;
      for (const inner of added.normalized(normalized)) encode(inner, section.start === 0);
    }
  }
  return ids;
}

function paddingOf(part: Part | undefined, size: number): Padding | undefined {
  if (part === undefined) return undefined;
  const strategy = part.raw('strategy');
  const fixed =
    typeof strategy === 'object' && strategy !== null ? part.part('strategy').count('Fixed') : undefined;
  if (fixed === undefined && strategy !== 'BatchLongest')
    throw part.refused('strategy: expected BatchLongest or {"Fixed": n}');
  const id = part.count('pad_id');
  const multipleOf = part.raw('pad_to_multiple_of') === null ? 1 : part.count('pad_to_multiple_of', 1);
  if (id >= size) throw part.refused('pad_id: it is not in the vocabulary');
  if ((fixed ?? 0) > MAX_FIXED || multipleOf > MAX_FIXED)
    throw part.refused(`a padding of more than ${MAX_FIXED} tokens`);
  return {
    id,
    type: part.count('pad_type_id', 0),
    side: part.oneOf('direction', ['Right', 'Left'], 'Right') === 'Left' ? 'left' : 'right',
    multipleOf: Math.max(1, multipleOf),
    fixed,
  };
}
