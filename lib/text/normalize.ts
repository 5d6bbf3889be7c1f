/** The normalizers of tokenizer.json, which change a text before it is split. */
import { charsmap } from './charsmap.ts';
import type { Part } from './part.ts';
import { patternOf } from './pattern.ts';
import { byteText } from './pre-tokenize.ts';
import {
  isControl,
  isIdeograph,
  isMark,
  isNonspacingMark,
  isSpace,
  lowerCase,
  toForm,
  type UnicodeForm,
} from './unicode.ts';

export interface Normalizer {
  normalize(text: string): string;
  /** True if the first character may be removed, so that a text no longer begins where it began. */
  readonly mayRemoveFirst: boolean;
}

/** @throws bad_model for what is not served */
export async function normalizerOf(part: Part): Promise<Normalizer> {
  if (part.type === 'Sequence') {
    const steps: Normalizer[] = [];
    for (const inner of part.parts('normalizers')) steps.push(await normalizerOf(inner));
    return {
      normalize: (text) => steps.reduce((done, step) => step.normalize(done), text),
      mayRemoveFirst: steps.some((step) => step.mayRemoveFirst),
    };
  }
  const keepsFirst = ['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'Prepend', 'ByteLevel'].includes(part.type);
  const isReplacement = part.type === 'Replace' && part.text('content') !== '';
  return { normalize: await stepOf(part), mayRemoveFirst: !keepsFirst && !isReplacement };
}

async function stepOf(part: Part): Promise<(text: string) => string> {
  switch (part.type) {
    case 'BertNormalizer':
      return bert(part);
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD': {
      const form: UnicodeForm = part.type;
      return (text) => toForm(text, form);
    }
    case 'Lowercase':
      return lowerCase;
    case 'ByteLevel':
      return byteText;
    case 'StripAccents':
      return (text) => without(text, isMark);
    case 'Strip':
      return strip(part.bool('strip_left'), part.bool('strip_right'));
    case 'Nmt':
      return nmt;
    case 'Prepend': {
      const prefix = part.text('prepend');
      return (text) => (text === '' ? text : prefix + text);
    }
    case 'Replace': {
      const [find, content] = [await patternOf(part), part.text('content')];
      return (text) => {
        let [result, at] = ['', 0];
        for (const [start, end] of find(text)) {
          result += text.slice(at, start) + content;
          at = end;
        }
        return result + text.slice(at);
      };
    }
    case 'Precompiled':
      return charsmap(part);
    default:
      throw part.unknown();
  }
}

function without(text: string, isRemoved: (char: string) => boolean): string {
  let result = '';
  for (const char of text) if (!isRemoved(char)) result += char;
  return result;
}

function bert(part: Part): (text: string) => string {
  const [cleans, splits] = [part.bool('clean_text', true), part.bool('handle_chinese_chars', true)];
  const lowers = part.bool('lowercase', true);
  const strips = part.bool('strip_accents', lowers);
  return (text) => {
    let result = text;
    if (cleans)
      result = Array.from(without(text, isControl), (char) => (isSpace(char) ? ' ' : char)).join('');
    if (splits) result = Array.from(result, (char) => (isIdeograph(char) ? ` ${char} ` : char)).join('');
    if (strips) result = without(toForm(result, 'NFD'), isNonspacingMark);
    return lowers ? lowerCase(result) : result;
  };
}

function strip(left: boolean, right: boolean): (text: string) => string {
  return (text) => {
    const start = left ? text.replace(/^\p{White_Space}+/u, '') : text;
    if (!right) return start;
    let end = start.length;
    while (end > 0 && isSpace(start[end - 1] as string)) end--;
    return start.slice(0, end);
  };
}

function nmt(text: string): string {
  return without(text, isRemovedByNmt).replaceAll(
    /[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]/g,
    ' ',
  );
}

function isRemovedByNmt(char: string): boolean {
  const code = char.charCodeAt(0);
  if (code >= 0x7f) return code === 0x7f || code === 0x8f || code === 0x9f;
  return code > 0 && code < 0x20 && !'\t\n\f\r'.includes(char);
}
