/** The added tokens of tokenizer.json: texts such as `[SEP]` that are one token wherever they stand. */
import { Part, refused } from './part.ts';
import type { TokenModel } from './token-model.ts';

interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** It counts only where no letter or digit is beside it. */
  readonly isWord: boolean;
  /** Takes the spaces on its left, and on its right. */
  readonly left: boolean;
  readonly right: boolean;
  readonly isNormalized: boolean;
}

/** A piece of a text: an added token, or what lies between them. */
export interface Section {
  readonly text: string;
  readonly start: number;
  readonly id: number | undefined;
}

export interface AddedTokens {
  /** Splits a text at the tokens that are matched before it is normalized. */
  readonly original: (text: string) => readonly Section[];
  readonly normalized: (text: string) => readonly Section[];
  /** One more than the largest id. */
  readonly size: number;
  idOf(token: string): number | undefined;
}

const MAX_ADDED = 100_000;
const MAX_LENGTH = 1_024;
const MAX_ID = 2_000_000;
const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

/** @throws bad_model */
export function addedTokens(
  list: unknown,
  model: TokenModel,
  normalize: (text: string) => string,
): AddedTokens {
  if (list !== undefined && list !== null && !Array.isArray(list))
    throw refused('added_tokens', 'expected a list');
  const entries: readonly unknown[] = list ?? [];
  if (entries.length > MAX_ADDED)
    throw refused('added_tokens', `${entries.length} are over the limit of ${MAX_ADDED}`);
  const tokens = entries.map((entry, i) => addedToken(new Part(entry, `added_tokens[${i}]`), model));
  const ids = new Map(tokens.map(({ content, id }) => [content, id]));
  const own = tokens.filter(({ content, isNormalized }) => content !== '' && !isNormalized);
  const others = tokens
    .filter(({ content, isNormalized }) => content !== '' && isNormalized)
    .map((token) => ({ ...token, content: normalize(token.content) }));
  return {
    original: sectioner(own),
    normalized: sectioner(others.filter(({ content }) => content !== '')),
    size: tokens.reduce((size, { id }) => Math.max(size, id + 1), 0),
    idOf: (token) => ids.get(token),
  };
}

function addedToken(part: Part, model: TokenModel): AddedToken {
  const [content, id] = [part.text('content'), part.count('id')];
  if (content.length > MAX_LENGTH) throw part.refused(`content: it is longer than ${MAX_LENGTH} characters`);
  if (id >= MAX_ID) throw part.refused(`id: it is over the limit of ${MAX_ID}`);
  const known = model.idOf(content);
  if (known !== undefined && known !== id) throw part.refused(`id: ${id}; the vocabulary says ${known}`);
  return {
    id,
    content,
    isWord: part.bool('single_word', false),
    left: part.bool('lstrip', false),
    right: part.bool('rstrip', false),
    isNormalized: part.bool('normalized', !part.bool('special', false)),
  };
}

/** If several tokens begin at one place, the longest counts; if they are equally long, the first. */
function sectioner(tokens: readonly AddedToken[]): (text: string) => readonly Section[] {
  const byFirst = new Map<string, AddedToken[]>();
  for (const token of tokens) {
    const first = token.content.slice(0, 1);
    byFirst.set(first, [...(byFirst.get(first) ?? []), token]);
  }
  for (const list of byFirst.values()) list.sort((a, b) => b.content.length - a.content.length);
  return (text) => {
    const sections: Section[] = [];
    let done = 0;
    for (let at = 0; at < text.length; ) {
      const token = byFirst.get(text[at] as string)?.find(({ content }) => text.startsWith(content, at));
      if (!token) {
        at += 1;
        continue;
      }
      const end = at + token.content.length;
      const place = placeOf(text, token, { at, end, done });
      if (place) {
        if (place.start > done)
          sections.push({ text: text.slice(done, place.start), start: done, id: undefined });
        sections.push({ text: token.content, start: place.start, id: token.id });
        done = place.end;
      }
      at = end;
    }
    if (done < text.length) sections.push({ text: text.slice(done), start: done, id: undefined });
    return sections;
  };
}

/** Where the token lies with the spaces that it takes; undefined where it is a part of a word. */
function placeOf(
  text: string,
  { isWord, left, right }: AddedToken,
  { at, end, done }: { readonly at: number; readonly end: number; readonly done: number },
) {
  if (isWord) {
    const [before = ''] = /.?$/su.exec(text.slice(Math.max(0, at - 2), at)) ?? [];
    const after = String.fromCodePoint(text.codePointAt(end) ?? 0x20);
    if (WORD.test(before) || WORD.test(after)) return undefined;
  }
  let [start, stop] = [at, end];
  const isSpaceAt = (place: number) => /\p{White_Space}/u.test(text[place] ?? '');
  if (left) while (start > done && isSpaceAt(start - 1)) start -= 1;
  if (right) while (stop < text.length && isSpaceAt(stop)) stop += 1;
  return { start: Math.max(start, done), end: Math.max(stop, done) };
}
