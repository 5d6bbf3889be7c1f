/** SentencePiece's Unigram model: of all ways to cut a piece into tokens, the one with the highest sum of scores. */
import type { Part } from './part.ts';
import { bytesOf, type TokenModel } from './token-model.ts';

/** An unknown character is worth that much less than the rarest token. */
const UNKNOWN_PENALTY = 10;

/** @throws bad_model */
export function unigram(part: Part, mostTokens: number): TokenModel {
  const list = part.list('vocab', mostTokens);
  const scores = new Float64Array(list.length);
  const ids = new Map<string, number>();
  // By first character: how long tokens are at most, in UTF-16.
  const longest = new Map<string, number>();
  for (const [id, entry] of list.entries()) {
    const [token, score]: unknown[] = Array.isArray(entry) ? entry : [];
    if (typeof token !== 'string' || typeof score !== 'number')
      throw part.refused(`vocab[${id}]: expected [token, score]`);
    scores[id] = score;
    ids.set(token, id);
    const first = token.slice(0, 1);
    if (token.length > (longest.get(first) ?? 0)) longest.set(first, token.length);
  }
  const unknown = part.count('unk_id');
  if (unknown >= list.length) throw part.refused('unk_id: it is not in the vocabulary');
  const unknownScore = scores.reduce((least, score) => Math.min(least, score), Infinity) - UNKNOWN_PENALTY;
  const byteIds = part.bool('byte_fallback', false) ? bytesOf(ids) : () => undefined;
  return {
    size: list.length,
    idOf: (token) => ids.get(token),
    encode(piece, into) {
      for (const text of cut(piece, { ids, scores, longest, unknown, unknownScore })) {
        const id = ids.get(text);
        const found = id === undefined ? (byteIds(text) ?? [unknown]) : [id];
        for (const one of found) into.push(one);
      }
    },
  };
}

interface Lattice {
  readonly ids: ReadonlyMap<string, number>;
  readonly scores: Float64Array;
  readonly longest: ReadonlyMap<string, number>;
  readonly unknown: number;
  readonly unknownScore: number;
}

/** Neighbouring unknown characters are one token. */
function cut(piece: string, { ids, scores, longest, unknown, unknownScore }: Lattice): string[] {
  const { length } = piece;
  /** At each end: the best sum, where its last token begins, and which one it is. */
  const best = new Float64Array(length + 1);
  const starts = new Int32Array(length + 1).fill(-1);
  const tokens = new Int32Array(length + 1);
  const offer = (start: number, end: number, id: number, score: number) => {
    const sum = (best[start] as number) + score;
    if (starts[end] !== -1 && !(sum > (best[end] as number))) return;
    best[end] = sum;
    starts[end] = start;
    tokens[end] = id;
  };
  for (let start = 0; start < length; ) {
    const width = (piece.codePointAt(start) as number) > 0xffff ? 2 : 1;
    const most = Math.min(length, start + (longest.get(piece[start] as string) ?? 0));
    let isKnown = false;
    for (let end = start + width; end <= most; end++) {
      const id = ids.get(piece.slice(start, end));
      if (id === undefined) continue;
      offer(start, end, id, scores[id] as number);
      if (end === start + width) isKnown = true;
    }
    if (!isKnown) offer(start, start + width, unknown, unknownScore);
    start += width;
  }
  const parts: string[] = [];
  let isUnknown = false;
  for (let end = length; end > 0; end = starts[end] as number) {
    const text = piece.slice(starts[end], end);
    const joins = isUnknown && tokens[end] === unknown;
    isUnknown = tokens[end] === unknown;
    if (joins) parts.push(text + (parts.pop() as string));
    else parts.push(text);
  }
  return parts.reverse();
}
