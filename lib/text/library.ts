/** Owns Hugging Face's tokenizers library, which is loaded only for tokenizers with regular expressions. */

interface Library {
  readonly SplitPreTokenizer: new (config: {
    readonly type: 'Split';
    readonly pattern: { readonly Regex: string };
    readonly invert: boolean;
  }) => { readonly pattern: RegExp | null };
}

/**
 * Translates a regular expression of Oniguruma, with the flags `gu`. What else the library has is not used: it takes
 * `\w` for ASCII, drops how a pattern splits, and approximates SentencePiece's charsmap.
 */
export async function loadRegexes(): Promise<(source: string) => RegExp> {
  // Its types leave out what only its own parts use.
  const library: Readonly<Record<string, unknown>> = await import('@huggingface/tokenizers');
  const SplitPreTokenizer = library['SplitPreTokenizer'] as Library['SplitPreTokenizer'];
  return (source) => {
    const split = new SplitPreTokenizer({ type: 'Split', pattern: { Regex: source }, invert: false });
    if (split.pattern === null) throw new SyntaxError('it cannot be translated');
    return split.pattern;
  };
}
