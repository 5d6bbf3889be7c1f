/** The part of the address behind its hash: a view, and what is chosen in it, so that a link leads there. */

export interface Address {
  readonly view: string;
  readonly chosen: URLSearchParams;
}

/** Browsers and chats cut longer ones. */
const MOST_CHARACTERS = 8_000;

export function addressIn(hash: string): Address {
  const [view = '', chosen = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  return { view, chosen: new URLSearchParams(chosen) };
}

/** @returns undefined for what no link can hold */
export function linkTo(view: string, chosen: Readonly<Record<string, string>>): string | undefined {
  const link = `${location.href.replace(/#.*$/s, '')}#${view}?${new URLSearchParams(chosen)}`;
  return link.length > MOST_CHARACTERS ? undefined : link;
}
