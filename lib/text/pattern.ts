/**
 * Patterns of tokenizer.json: plain texts, and regular expressions in Oniguruma's syntax, which the tokenizers library
 * translates. They run on texts of untrusted callers, so one that may take exponential time is refused.
 */
import { asError } from '../contract/errors.ts';
import { loadRegexes } from './library.ts';
import type { Part } from './part.ts';

/** Finds the matches of a text, as [start, end) in order. */
export type Find = (text: string) => readonly (readonly [start: number, end: number])[];

const MAX_LENGTH = 4_096;
const MAX_REPEATS = 1_000;

/** The pattern of a part, `{"String": ...}` or `{"Regex": ...}`. @throws bad_model */
export async function patternOf(part: Part): Promise<Find> {
  const pattern = part.part('pattern');
  if (pattern.raw('String') !== undefined) return literal(pattern.text('String'));
  const source = pattern.text('Regex');
  if (source.length > MAX_LENGTH) {
    throw pattern.refused(
      `a regular expression of ${source.length} characters is over the limit of ${MAX_LENGTH}`,
    );
  }
  const translate = await loadRegexes();
  let regex: RegExp;
  try {
    regex = translate(source);
  } catch (error) {
    throw pattern.refused(`the regular expression ${shown(source)} is not served: ${asError(error).message}`);
  }
  const danger = dangerOf(regex.source);
  if (danger !== undefined) throw pattern.refused(`the regular expression ${shown(source)} ${danger}`);
  return regexFinder(regex);
}

function shown(source: string): string {
  return JSON.stringify(source.length > 80 ? `${source.slice(0, 80)}…` : source);
}

function literal(wanted: string): Find {
  if (wanted === '') return () => [];
  return (text) => {
    const found: [number, number][] = [];
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      found.push([at, at + wanted.length]);
    }
    return found;
  };
}

/** Matches of a pattern of one character. */
export function charFinder(isMatch: (char: string) => boolean): Find {
  return (text) => {
    const found: [number, number][] = [];
    let at = 0;
    for (const char of text) {
      if (isMatch(char)) found.push([at, at + char.length]);
      at += char.length;
    }
    return found;
  };
}

export function regexFinder(regex: RegExp): Find {
  return (text) => Array.from(text.matchAll(regex), (match) => [match.index, match.index + match[0].length]);
}

/**
 * Patterns that may take exponential time: repeating a group that can match in several ways, and references to groups.
 * Without them the time is a power of the text's length, which is limited.
 */
function dangerOf(source: string): string | undefined {
  /** For each open group: where it begins, and whether it had matched in several ways before it began. */
  const groups: { readonly start: number; readonly varied: boolean }[] = [];
  let varies = false;
  for (let at = 0; at < source.length; at++) {
    const char = source[at];
    let isVariedGroup = false;
    if (char === '\\') {
      if (/^\\(?:[1-9]|k<)/.test(source.slice(at, at + 3))) return 'refers to a group';
      at += /^\\[pPu]\{[^}]*\}/.exec(source.slice(at, at + 80))?.[0].length ?? 2;
      at -= 1;
    } else if (char === '[') at = endOfClass(source, at);
    else if (char === '|') varies = true;
    else if (char === '(') {
      groups.push({ start: at, varied: varies });
      varies = false;
      // Follows an opening bracket: `?:` and similar, not a quantifier.
      continue;
    } else if (char === ')') {
      const { start = 0, varied = false } = groups.pop() ?? {};
      isVariedGroup = varies && !ONE_CHARACTER.test(source.slice(start, at + 1));
      varies = varied || isVariedGroup;
    }
    const [quantifier, least, most = least] =
      /^(?:[*+?]|\{(\d+)(?:,(\d*))?\})/.exec(source.slice(at + 1, at + 40)) ?? [];
    if (quantifier === undefined) continue;
    if (Math.max(Number(least ?? 0), Number(most ?? 0)) > MAX_REPEATS)
      return `repeats more than ${MAX_REPEATS} times`;
    if (isVariedGroup && quantifier !== '?')
      return 'repeats what matches in several ways, which may take exponential time';
    varies ||= least === undefined || least !== most;
    at += quantifier.length;
  }
  return undefined;
}

/** A set of characters, as the library writes it. */
const ONE_CHARACTER = /^\(\?:\(\?[=!].*\[\\s\\S\]\)$/;

function endOfClass(source: string, start: number): number {
  for (let at = start + 1; at < source.length; at++) {
    if (source[at] === '\\') at += 1;
    else if (source[at] === ']') return at;
  }
  return source.length;
}
