/** The models of tokenizer.json: each turns a piece of text into token ids, with the same choices among equals. */
import { quoteName } from '../codecs/quote.ts';
import { badInput } from '../contract/errors.ts';
import { isCount } from '../contract/present.ts';
import type { Part } from './part.ts';
import { refused } from './part.ts';
import { bytesOf, type TokenModel } from './token-model.ts';
import { unigram } from './unigram.ts';

/** Also one more than the largest id. */
const MAX_TOKENS = 2_000_000;
const MAX_MERGES = 4_000_000;
const MAX_TOKEN_LENGTH = 4_096;

/** @throws bad_model for what is not served */
export function tokenModel(part: Part): TokenModel {
  switch (typeOf(part)) {
    case 'WordPiece':
      return wordPiece(part);
    case 'BPE':
      return bytePairs(part);
    case 'Unigram':
      return unigram(part, MAX_TOKENS);
    case 'WordLevel':
      return wordLevel(part);
    default:
      throw part.unknown();
  }
}

/** Old files do not name it. */
function typeOf(part: Part): string {
  if (part.raw('type') !== undefined) return part.type;
  if (Array.isArray(part.raw('vocab'))) return 'Unigram';
  return part.raw('merges') === undefined ? 'WordPiece' : 'BPE';
}

function vocabOf(part: Part): ReadonlyMap<string, number> {
  const entries = Object.entries<unknown>(Object(part.raw('vocab')));
  if (Array.isArray(part.raw('vocab')) || entries.length === 0)
    throw part.refused('vocab: expected {token: id}');
  if (entries.length > MAX_TOKENS)
    throw part.refused(`vocab: ${entries.length} tokens are over the limit of ${MAX_TOKENS}`);
  const vocab = new Map<string, number>();
  for (const [token, id] of entries) {
    if (!isCount(id) || id >= MAX_TOKENS) {
      throw part.refused(`vocab: expected ids from 0 to ${MAX_TOKENS - 1}`);
    }
    if (token.length > MAX_TOKEN_LENGTH)
      throw part.refused(`vocab: a token is longer than ${MAX_TOKEN_LENGTH} characters`);
    vocab.set(token, id);
  }
  return vocab;
}

function sizeOf(vocab: ReadonlyMap<string, number>): number {
  let size = 0;
  for (const id of vocab.values()) size = Math.max(size, id + 1);
  return size;
}

function wordPiece(part: Part): TokenModel {
  const vocab = vocabOf(part);
  const prefix = part.text('continuing_subword_prefix', '##');
  const most = part.count('max_input_chars_per_word', 100);
  if (most > MAX_TOKEN_LENGTH)
    throw part.refused(`max_input_chars_per_word: the limit is ${MAX_TOKEN_LENGTH}`);
  const unknown = vocab.get(part.text('unk_token', '[UNK]'));
  if (unknown === undefined) throw part.refused('unk_token: it is not in the vocabulary');
  return {
    size: sizeOf(vocab),
    idOf: (token) => vocab.get(token),
    encode(piece, ids) {
      const chars = Array.from(piece);
      const found: number[] = [];
      for (let start = 0; start < chars.length && chars.length <= most; ) {
        let end = chars.length;
        let id: number | undefined;
        for (; end > start; end--) {
          id = vocab.get((start > 0 ? prefix : '') + chars.slice(start, end).join(''));
          if (id !== undefined) break;
        }
        if (id === undefined) break;
        found.push(id);
        start = end;
        if (start === chars.length) {
          for (const one of found) ids.push(one);
          return;
        }
      }
      ids.push(unknown);
    },
  };
}

/** A piece is a token as a whole, or unknown. */
function wordLevel(part: Part): TokenModel {
  const vocab = vocabOf(part);
  const unknownToken = part.text('unk_token', '<unk>');
  const unknown = vocab.get(unknownToken);
  return {
    size: sizeOf(vocab),
    idOf: (token) => vocab.get(token),
    encode(piece, ids) {
      const id = vocab.get(piece) ?? unknown;
      if (id === undefined)
        throw badInput(
          `${quoteName(piece)} is not in the vocabulary of the tokenizer, which has no ${quoteName(unknownToken)} for it`,
        );
      ids.push(id);
    },
  };
}

/** Merges by their order: the ids on both sides as one number, and the id that they become. */
interface Merges {
  readonly ranks: ReadonlyMap<number, number>;
  readonly ids: Uint32Array;
}

const pairOf = (left: number, right: number) => left * MAX_TOKENS + right;

function mergesOf(part: Part, vocab: ReadonlyMap<string, number>, prefixLength: number): Merges {
  const list = part.list('merges', MAX_MERGES);
  const ranks = new Map<number, number>();
  const ids = new Uint32Array(list.length);
  for (const [rank, merge] of list.entries()) {
    const [left, right, ...more]: unknown[] =
      typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? merge : [];
    const isPair = typeof left === 'string' && typeof right === 'string';
    const [a, b] = isPair ? [vocab.get(left), vocab.get(right)] : [];
    const id = isPair ? vocab.get(left + right.slice(prefixLength)) : undefined;
    if (id === undefined || a === undefined || b === undefined || more.length > 0) {
      throw refused(
        `${part.place}.merges[${rank}]`,
        'expected two tokens of the vocabulary that make a third',
      );
    }
    ids[rank] = id;
    ranks.set(pairOf(a, b), rank);
  }
  return { ranks, ids };
}

function bytePairs(part: Part): TokenModel {
  if ((part.raw('dropout') ?? 0) !== 0)
    throw part.refused('dropout gives random tokens; export the tokenizer without it');
  const vocab = vocabOf(part);
  const [prefix, suffix] = [part.text('continuing_subword_prefix', ''), part.text('end_of_word_suffix', '')];
  const merges = mergesOf(part, vocab, prefix.length);
  const [fuses, bytes] = [part.bool('fuse_unk', false), part.bool('byte_fallback', false)];
  const isWhole = part.bool('ignore_merges', false);
  const unknown = unknownOf(part, vocab);
  const byteIds = bytes ? bytesOf(vocab) : undefined;
  const symbolsOf = (piece: string): number[] => {
    const chars = Array.from(piece);
    const symbols: number[] = [];
    let waiting: number | undefined;
    for (const [i, char] of chars.entries()) {
      const token = (i > 0 ? prefix : '') + char + (i === chars.length - 1 ? suffix : '');
      const id = vocab.get(token);
      const fallback = id === undefined && byteIds ? byteIds(token) : undefined;
      // Undecided text waits even while bytes are added, as in the original.
      if (fallback) symbols.push(...fallback);
      else if (id !== undefined || (unknown !== undefined && !fuses)) {
        if (waiting !== undefined) symbols.push(waiting);
        waiting = id === undefined ? unknown : undefined;
        if (id !== undefined) symbols.push(id);
      } else waiting ??= unknown;
    }
    if (waiting !== undefined) symbols.push(waiting);
    return symbols;
  };
  return {
    size: sizeOf(vocab),
    idOf: (token) => vocab.get(token),
    encode(piece, ids) {
      const whole = isWhole ? vocab.get(piece) : undefined;
      if (whole !== undefined) ids.push(whole);
      else for (const id of merged(symbolsOf(piece), merges)) ids.push(id);
    },
  };
}

function unknownOf(part: Part, vocab: ReadonlyMap<string, number>): number | undefined {
  if ((part.raw('unk_token') ?? null) === null) return undefined;
  const id = vocab.get(part.text('unk_token'));
  if (id === undefined) throw part.refused('unk_token: it is not in the vocabulary');
  return id;
}

/** More than the symbols of a piece. */
const PLACES = 2 ** 21;

/** Merges neighbours, the earliest merge first, and of equal ones the leftmost. */
function merged(symbols: number[], { ranks, ids }: Merges): readonly number[] {
  const { length } = symbols;
  if (length < 2) return symbols;
  const next = Int32Array.from({ length }, (_, i) => (i + 1 < length ? i + 1 : -1));
  const before = Int32Array.from({ length }, (_, i) => i - 1);
  const isGone = new Uint8Array(length);
  const queue = new Heap();
  const look = (at: number) => {
    const right = next[at] as number;
    if (at < 0 || right < 0) return;
    const rank = ranks.get(pairOf(symbols[at] as number, symbols[right] as number));
    if (rank !== undefined) queue.push(rank * PLACES + at);
  };
  for (let at = 0; at < length; at++) look(at);
  for (let key = queue.pop(); key !== undefined; key = queue.pop()) {
    const at = key % PLACES;
    const id = ids[(key - at) / PLACES] as number;
    const right = next[at] as number;
    if (isGone[at] || right < 0) continue;
    const now = ranks.get(pairOf(symbols[at] as number, symbols[right] as number));
    // A neighbour was merged since.
    if (now === undefined || ids[now] !== id) continue;
    symbols[at] = id;
    isGone[right] = 1;
    const after = next[right] as number;
    next[at] = after;
    if (after >= 0) before[after] = at;
    look(before[at] as number);
    look(at);
  }
  return symbols.filter((_, i) => !isGone[i]);
}

/** The smallest number first. */
class Heap {
  readonly #keys: number[] = [];

  push(key: number): void {
    const keys = this.#keys;
    let at = keys.push(key) - 1;
    for (let up = (at - 1) >> 1; at > 0 && (keys[up] as number) > key; up = (at - 1) >> 1) {
      keys[at] = keys[up] as number;
      at = up;
    }
    keys[at] = key;
  }

  pop(): number | undefined {
    const keys = this.#keys;
    const [first] = keys;
    const last = keys.pop();
    if (last === undefined || keys.length === 0) return first;
    let at = 0;
    for (let down = 1; down < keys.length; down = 2 * at + 1) {
      if (down + 1 < keys.length && (keys[down + 1] as number) < (keys[down] as number)) down += 1;
      if ((keys[down] as number) >= last) break;
      keys[at] = keys[down] as number;
      at = down;
    }
    keys[at] = last;
    return first;
  }
}
