/**
 * The marks of models of texts: the file beside them, and the marks that replace a text: no text, and tokens made by
 * the caller. A caller's text never holds U+0000, so it is never mistaken for a mark.
 */

/** Written by an import beside a model that reads texts; lib/text/settings.ts says what is in it. */
export const TEXT_FILE = 'text.json';

/** In place of an optional text that a record does not have. */
export const NO_TEXT = '\0';

export function isNoText(text: string): boolean {
  return text === NO_TEXT;
}

/** Token ids instead of a text. */
export function tokensText(ids: Iterable<number | bigint>): string {
  return `${NO_TEXT}${[...ids].join(' ')}`;
}

/** Undefined for a text. */
export function tokenIdsOf(text: string): number[] | undefined {
  return text.length > 1 && text.startsWith(NO_TEXT) ? text.slice(1).split(' ').map(Number) : undefined;
}
