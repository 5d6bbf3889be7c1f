/**
 * Reads the doc comments of a declaration from its source, so that a reference is written once, beside what it
 * describes. Relies on the formatter's layout: one property per line, two spaces per level.
 */

/** @returns the comment of each property by its path: `queue.batchSize`. @throws when there is no such declaration */
export function commentsIn(source: string, declaration: string): ReadonlyMap<string, string> {
  const lines = source.split('\n');
  const first = lines.findIndex((line) => line.includes(`${declaration} {`));
  const end = lines.findIndex((line, i) => i > first && line.startsWith('}'));
  if (first < 0 || end < 0) throw new Error(`the source has no declaration ${JSON.stringify(declaration)}`);
  const comments = new Map<string, string>();
  const names: string[] = [];
  let comment: string[] | undefined;
  for (const line of lines.slice(first + 1, end)) {
    const text = commentText(line);
    if (text !== undefined) {
      comment = [...(comment ?? []), text];
      continue;
    }
    const [, indent = '', name] = /^( +)(?:readonly )?(\w+)\??: /.exec(line) ?? [];
    if (name !== undefined) {
      names.splice(indent.length / 2 - 1, names.length, name);
      if (comment) comments.set(names.join('.'), joined(comment));
    }
    comment = undefined;
  }
  return comments;
}

/**
 * A constant's number and the comment above it. @throws when the constant or comment is missing, or the value is not
 * a product of numbers
 */
export function numberIn(source: string, name: string): { readonly value: number; readonly comment: string } {
  const lines = source.split('\n');
  const at = lines.findIndex((line) => new RegExp(`^(?:export )?const ${name} = `).test(line));
  const above: string[] = [];
  for (let i = at - 1; i >= 0; i--) {
    const text = commentText(lines[i] as string);
    if (text === undefined) break;
    above.unshift(text);
  }
  const [, product = ''] = / = ([\d_]+(?: \* [\d_]+)*);/.exec(lines[at] ?? '') ?? [];
  const value = product.split('*').reduce((all, factor) => all * Number(factor.replaceAll('_', '')), 1);
  const comment = joined(above);
  if (product === '' || comment === '')
    throw new Error(`${name}: expected a comment above a product of numbers`);
  return { value, comment };
}

/** The constants that have a comment and a number. */
export function numbersIn(
  source: string,
): readonly (ReturnType<typeof numberIn> & { readonly name: string })[] {
  const names = source.matchAll(/\*\/\n(?:export )?const (\w+) = [\d_ *]+;/g);
  return [...names].map(([, name = '']) => ({ name, ...numberIn(source, name) }));
}

/** Splits `What it is. What to do.` into the first sentence without its full stop, and the others. */
export function sentences(comment: string): readonly [first: string, others: string] {
  const [, first = comment, others = ''] = /^(.*?)\.(?: ([A-Z`].*))?$/s.exec(comment) ?? [];
  return [first, others];
}

/** The text of a line of a doc comment; undefined for any other line. */
function commentText(line: string): string | undefined {
  const [, text] = /^ *(?:\/\*\*|\*)(?: (.*?))?(?: ?\*\/)?$/.exec(line) ?? [];
  if (text !== undefined) return text;
  return /^ *(\/\*\*|\*\/?)$/.test(line) ? '' : undefined;
}

function joined(lines: readonly string[]): string {
  return lines.filter((line) => line !== '').join(' ');
}
