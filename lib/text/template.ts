/** The post-processor and the truncation of tokenizer.json: what a model reads of the tokens of a text, or of two. */

import { badInput } from '../contract/errors.ts';
import { isCount } from '../contract/present.ts';
import { objectOf, Part, refused } from './part.ts';

/** A place in a template: a text's own tokens, or special ones. */
interface Item {
  readonly of: 'A' | 'B' | readonly number[];
  readonly type: number;
}

export interface Templates {
  readonly single: readonly Item[];
  /** Undefined: the file does not set it. */
  readonly pair: readonly Item[] | undefined;
}

export interface Encoded {
  readonly ids: readonly number[];
  readonly types: readonly number[];
  /** How many tokens there were before it was cut off. Absent: it was not. */
  readonly wholeTokens?: number;
}

const MAX_ITEMS = 256;
const MAX_SPECIAL_IDS = 64;

const PLAIN: Templates = {
  single: [{ of: 'A', type: 0 }],
  pair: [
    { of: 'A', type: 0 },
    { of: 'B', type: 1 },
  ],
};

/** @throws bad_model for what is not served */
export function templatesOf(part: Part | undefined): Templates {
  if (part === undefined) return PLAIN;
  switch (part.type) {
    case 'Sequence': {
      const found = part
        .parts('processors')
        .map(templatesOf)
        .filter((one) => one !== PLAIN);
      if (found.length > 1) throw part.refused('several templates in a row are not served');
      return found[0] ?? PLAIN;
    }
    // It changes offsets only.
    case 'ByteLevel':
      return PLAIN;
    case 'TemplateProcessing':
      return template(part);
    case 'BertProcessing':
    case 'RobertaProcessing': {
      const [cls, sep] = [namedId(part, 'cls'), namedId(part, 'sep')];
      const isBert = part.type === 'BertProcessing';
      const second = isBert ? 1 : 0;
      const single: Item[] = [
        { of: [cls], type: 0 },
        { of: 'A', type: 0 },
        { of: [sep], type: 0 },
      ];
      const middle: Item[] = isBert ? [] : [{ of: [sep], type: 0 }];
      return { single, pair: [...single, ...middle, { of: 'B', type: second }, { of: [sep], type: second }] };
    }
    default:
      throw part.unknown();
  }
}

/** `["[CLS]", 101]` */
function namedId(part: Part, name: string): number {
  const [, id] = part.list(name, 2);
  if (isCount(id)) return id;
  throw part.refused(`${name}: expected [token, id]`);
}

function template(part: Part): Templates {
  const special = objectOf(part.raw('special_tokens') ?? {}, `${part.place}.special_tokens`);
  const items = (name: string) =>
    part.list(name, MAX_ITEMS).map((value, i): Item => {
      const item = new Part(value, `${part.place}.${name}[${i}]`);
      const sequence = item.optional('Sequence');
      if (sequence) return { of: sequence.oneOf('id', ['A', 'B'] as const), type: sequence.count('type_id') };
      const token = item.part('SpecialToken');
      const id = token.text('id');
      if (!Object.hasOwn(special, id))
        throw token.refused(`${JSON.stringify(id)} is not among special_tokens`);
      const ids = new Part(special[id], `${part.place}.special_tokens`).list('ids', MAX_SPECIAL_IDS);
      if (!ids.every(isCount)) throw token.refused('ids: expected whole numbers');
      return { of: ids, type: token.count('type_id') };
    });
  const single = items('single');
  const pair = (part.raw('pair') ?? null) === null ? undefined : items('pair');
  if (single.filter(({ of }) => of === 'A').length !== 1 || single.some(({ of }) => of === 'B')) {
    throw part.refused('single: expected the text once');
  }
  return {
    single,
    pair: pair?.some(({ of }) => of === 'A') && pair.some(({ of }) => of === 'B') ? pair : undefined,
  };
}

export interface Truncation {
  /** Most tokens with the special ones. */
  readonly most: number;
  readonly direction: 'Right' | 'Left';
  readonly strategy: 'LongestFirst' | 'OnlyFirst' | 'OnlySecond';
}

/** How the file cuts texts off; without a word of it, at the end of the longer one. */
export function truncationOf(
  part: Part | undefined,
): Omit<Truncation, 'most'> & { readonly most: number | undefined } {
  if (part === undefined) return { most: undefined, direction: 'Right', strategy: 'LongestFirst' };
  return {
    most: part.count('max_length'),
    direction: part.oneOf('direction', ['Right', 'Left'], 'Right'),
    strategy: part.oneOf('strategy', ['LongestFirst', 'OnlyFirst', 'OnlySecond'], 'LongestFirst'),
  };
}

/** Puts texts into their template, cut off to what the model takes. @throws bad_input where the strategy cannot */
export function fill(
  { single, pair }: Templates,
  first: readonly number[],
  second: readonly number[] | undefined,
  truncation: Truncation | undefined,
): Encoded {
  const items = second === undefined ? single : pair;
  if (!items) throw badInput('the tokenizer has no template for two texts');
  const special = items.reduce((sum, { of }) => sum + (typeof of === 'string' ? 0 : of.length), 0);
  const [a, b] = truncation ? cut(first, second, special, truncation) : [first, second ?? []];
  const [ids, types]: [number[], number[]] = [[], []];
  for (const { of, type } of items) {
    for (const id of of === 'A' ? a : of === 'B' ? b : of) {
      ids.push(id);
      types.push(type);
    }
  }
  const wholeTokens = first.length + (second?.length ?? 0) + special;
  return wholeTokens > ids.length ? { ids, types, wholeTokens } : { ids, types };
}

function cut(
  first: readonly number[],
  second: readonly number[] | undefined,
  special: number,
  { most, direction, strategy }: Truncation,
): [readonly number[], readonly number[]] {
  const room = Math.max(0, most - special);
  const [a, b] = [first.length, second?.length ?? 0];
  const over = a + b - room;
  const keep = (ids: readonly number[], count: number) =>
    direction === 'Right' ? ids.slice(0, count) : ids.slice(Math.max(0, ids.length - count));
  if (over <= 0) return [first, second ?? []];
  if (strategy !== 'LongestFirst') {
    const isFirst = strategy === 'OnlyFirst';
    if ((isFirst ? a : b) <= over && room > 0) {
      throw badInput(
        `${a + b + special} tokens are over the ${most} of the model, and its tokenizer cuts only the ${isFirst ? 'first' : 'second'} text, which is too short`,
      );
    }
    return isFirst ? [keep(first, a - over), second ?? []] : [first, keep(second ?? [], b - over)];
  }
  if (second === undefined) return [keep(first, room), []];
  const [short, long] = longestFirst(Math.min(a, b), room);
  return a <= b ? [keep(first, short), keep(second, long)] : [keep(first, long), keep(second, short)];
}

/** The remaining lengths of the shorter and the longer text. */
function longestFirst(short: number, room: number): [number, number] {
  const long = short > room ? short : Math.max(short, room - short);
  if (short + long <= room) return [short, long];
  const half = Math.floor(room / 2);
  return [half, half + (room % 2)];
}

/**
 * Ids of another tokenizer are whole numbers too, and would give a wrong vector. The special tokens around a text are what tells
 * them apart.
 * @throws bad_input for ids that do not have them, and where the tokenizer has none
 */
export function assertOwnIds({ single }: Templates, ids: readonly number[]): void {
  const at = single.findIndex(({ of }) => of === 'A');
  const special = (items: readonly Item[]) => items.flatMap(({ of }) => (typeof of === 'string' ? [] : of));
  const [before, after] = [special(single.slice(0, at)), special(single.slice(at + 1))];
  if (before.length + after.length === 0) {
    throw badInput(
      'the tokenizer of the model adds no special tokens, so its ids cannot be told from those of another: send the text',
    );
  }
  const isOwn =
    ids.length >= before.length + after.length &&
    before.every((id, i) => ids[i] === id) &&
    after.every((id, i) => ids[ids.length - after.length + i] === id);
  if (isOwn) return;
  const expected = [before.join(', '), '…', after.join(', ')].filter((part) => part !== '').join(', ');
  throw badInput(
    `token ids that the tokenizer of this model did not make: it makes [${expected}]. Send the text; with LangChain's OpenAIEmbeddings pass check_embedding_ctx_length=False`,
  );
}

/** @throws bad_model */
export function assertIds({ single, pair = [] }: Templates, size: number): void {
  for (const { of } of [...single, ...pair]) {
    if (typeof of !== 'string' && of.some((id) => id >= size))
      throw refused('post_processor', 'a special token is not in the vocabulary');
  }
}
