/** The pre-tokenizers of tokenizer.json: they split a text into the pieces that the model tokenizes one by one. */
import type { Part } from './part.ts';
import { charFinder, type Find, patternOf, regexFinder } from './pattern.ts';
import { isNumeric, isPunctuation, isSpace } from './unicode.ts';

export interface Piece {
  readonly text: string;
  /** True if it begins where the caller's text begins. */
  readonly isFirst: boolean;
}

export type PreTokenizer = (piece: Piece) => readonly Piece[];

const BEHAVIORS = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'] as const;
type Behavior = (typeof BEHAVIORS)[number];

/** Those of Rust's regex, whose `\w` has the joiners. */
const WORDS =
  /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+/gu;
const GPT2 =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** @throws bad_model for what is not served */
export async function preTokenizerOf(part: Part): Promise<PreTokenizer> {
  switch (part.type) {
    case 'Sequence': {
      const steps: PreTokenizer[] = [];
      for (const inner of part.parts('pretokenizers')) steps.push(await preTokenizerOf(inner));
      return (piece) => steps.reduce<readonly Piece[]>((pieces, step) => pieces.flatMap(step), [piece]);
    }
    case 'BertPreTokenizer': {
      const words = splitter(charFinder(isSpace), 'Removed');
      const marks = splitter(charFinder(isPunctuation), 'Isolated');
      return (piece) => words(piece).flatMap(marks);
    }
    case 'Whitespace':
      return splitter(regexFinder(WORDS), 'Removed', true);
    case 'WhitespaceSplit':
      return splitter(charFinder(isSpace), 'Removed');
    case 'Punctuation':
      return splitter(charFinder(isPunctuation), part.oneOf('behavior', BEHAVIORS, 'Isolated'));
    case 'Digits':
      return splitter(charFinder(isNumeric), part.bool('individual_digits') ? 'Isolated' : 'Contiguous');
    case 'CharDelimiterSplit': {
      const delimiter = part.text('delimiter');
      return splitter(
        charFinder((char) => char === delimiter),
        'Removed',
      );
    }
    case 'Split':
      return splitter(await patternOf(part), part.oneOf('behavior', BEHAVIORS), part.bool('invert'));
    case 'FixedLength':
      return fixedLength(part);
    case 'ByteLevel':
      return byteLevel(part);
    case 'Metaspace':
      return metaspace(part);
    default:
      throw part.unknown();
  }
}

/** @param inverts what does not match counts as the match */
function splitter(find: Find, behavior: Behavior, inverts = false): PreTokenizer {
  return ({ text, isFirst }) => {
    const spans: Span[] = [];
    let at = 0;
    for (const [start, end] of find(text)) {
      if (start > at) spans.push({ start: at, end: start, isMatch: inverts });
      spans.push({ start, end, isMatch: !inverts });
      at = end;
    }
    if (at < text.length) spans.push({ start: at, end: text.length, isMatch: inverts });
    return joined(spans, behavior)
      .filter(({ start, end }) => end > start)
      .map(({ start, end }) => ({ text: text.slice(start, end), isFirst: isFirst && start === 0 }));
  };
}

interface Span {
  start: number;
  end: number;
  readonly isMatch: boolean;
}

function joined(spans: readonly Span[], behavior: Behavior): readonly Span[] {
  if (behavior === 'Isolated') return spans;
  if (behavior === 'Removed') return spans.filter(({ isMatch }) => !isMatch);
  const isBackwards = behavior === 'MergedWithNext';
  const result: Span[] = [];
  let wasMatch = false;
  for (const span of isBackwards ? spans.toReversed() : spans) {
    const last = result.at(-1);
    const joins = behavior === 'Contiguous' ? span.isMatch === wasMatch : span.isMatch && !wasMatch;
    wasMatch = span.isMatch;
    if (!last || !joins) result.push({ ...span });
    else if (isBackwards) last.start = span.start;
    else last.end = span.end;
  }
  return isBackwards ? result.reverse() : result;
}

/** By byte: the character that stands for it. */
export const BYTE_CHARS: readonly string[] = byteChars();

function byteChars(): string[] {
  const isShown = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let hidden = 0;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(isShown(byte) ? byte : 256 + hidden++),
  );
}

/** With a character for each byte of its UTF-8. */
export function byteText(text: string): string {
  return Array.from(Buffer.from(text), (byte) => BYTE_CHARS[byte]).join('');
}

/** Pieces of so many characters, the last one of the rest. */
function fixedLength(part: Part): PreTokenizer {
  const length = part.count('length', 5);
  if (length === 0) throw part.refused('length: expected a whole number from 1');
  return ({ text, isFirst }) => {
    const chars = Array.from(text);
    const pieces: Piece[] = [];
    for (let at = 0; at < chars.length; at += length)
      pieces.push({ text: chars.slice(at, at + length).join(''), isFirst: isFirst && at === 0 });
    return pieces;
  };
}

function byteLevel(part: Part): PreTokenizer {
  const [adds, usesRegex] = [part.bool('add_prefix_space', true), part.bool('use_regex', true)];
  const words = splitter(regexFinder(GPT2), 'Isolated');
  return ({ text, isFirst }) => {
    const piece = { text: adds && !text.startsWith(' ') ? ` ${text}` : text, isFirst };
    return (usesRegex ? words(piece) : [piece]).map((word) => ({
      text: byteText(word.text),
      isFirst: word.isFirst,
    }));
  };
}

function metaspace(part: Part): PreTokenizer {
  const replacement = part.text('replacement');
  if (Array.from(replacement).length !== 1) throw part.refused('replacement: expected one character');
  const adds = part.raw('add_prefix_space');
  const scheme = part.oneOf(
    'prepend_scheme',
    ['always', 'first', 'never'],
    adds === false ? 'never' : 'always',
  );
  const splits = part.bool('split', true);
  const words = splitter(
    charFinder((char) => char === replacement),
    'MergedWithNext',
  );
  return ({ text, isFirst }) => {
    const spaced = text.replaceAll(' ', replacement);
    const prepends =
      !spaced.startsWith(replacement) && (scheme === 'always' || (scheme === 'first' && isFirst));
    const piece = { text: prepends ? replacement + spaced : spaced, isFirst };
    return splits ? words(piece) : [piece];
  };
}
