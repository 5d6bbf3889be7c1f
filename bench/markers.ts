/**
 * In: a page, a name, a text. Out: the page with the text between the markers of that name.
 * Trap: a number that was typed by hand is one that no run stands for; so what is between markers is always replaced.
 */

/** @param name as in `<!-- bench:table -->`, which ends with `<!-- /bench:table -->`. @throws when one of them is missing */
export function withBlock(page: string, name: string, block: string): string {
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to < from) throw new Error(`the page has no ${begin} with ${end} after it`);
  return `${page.slice(0, from + begin.length)}\n${block}\n${page.slice(to)}`;
}
