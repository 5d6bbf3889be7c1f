/** Writes the help texts into docs/reference/cli.md, between markers: `node cli/docs.ts`. A test fails when they are out of date. */
import { readFile, writeFile } from 'node:fs/promises';
import { COMMANDS, HELP } from './main.ts';

/** The document with the help of every command that has a pair of markers in it. */
export async function withHelp(document: string): Promise<string> {
  let text = document;
  const loaded = Object.entries(COMMANDS).map(
    async ([name, { load }]) => [`${name} `, await load()] as const,
  );
  for (const [name, { help }] of [['', { help: HELP }], ...(await Promise.all(loaded))] as const) {
    const [start, end] = [`<!-- help ${name}-->`, '<!-- end of help -->'];
    const from = text.indexOf(start) + start.length;
    const to = text.indexOf(end, from);
    if (from < start.length || to < 0)
      throw new Error(`docs/reference/cli.md has no block ${start} ... ${end}`);
    text = `${text.slice(0, from)}\n\`\`\`text\n${help}\n\`\`\`\n${text.slice(to)}`;
  }
  return text;
}

if (import.meta.main) {
  const path = new URL('../docs/reference/cli.md', import.meta.url);
  await writeFile(path, await withHelp(await readFile(path, 'utf8')));
}
