/** The work of a model of tokenizer.json. */

export interface TokenModel {
  /** Appends the ids of a piece. */
  encode(piece: string, ids: number[]): void;
  /** Undefined for a text that is not a token. */
  idOf(token: string): number | undefined;
  /** One more than the largest id. */
  readonly size: number;
}

/** The ids of a text's bytes, where all of them are in the vocabulary. */
export function bytesOf(vocab: ReadonlyMap<string, number>): (text: string) => readonly number[] | undefined {
  const ids = Array.from({ length: 256 }, (_, byte) =>
    vocab.get(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`),
  );
  return (text) => {
    const found = Array.from(Buffer.from(text), (byte) => ids[byte]);
    return found.every((id) => id !== undefined) ? found : undefined;
  };
}
