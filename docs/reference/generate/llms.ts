/**
 * Writes the documentation for a program that reads it: docs/llms.txt lists the pages with a sentence each, in the form of
 * llmstxt.org, and docs/llms-full.txt is all of them in one file. Also the index of a long page of reference.
 */
import { readdir, readFile } from 'node:fs/promises';

const DOCS = new URL('../../', import.meta.url);
const SECTIONS = ['tutorial', 'how-to', 'tasks', 'reference', 'explanation'] as const;
const FENCE = /^ *```[\s\S]*?^ *```$/gm;

interface Page {
  readonly path: string;
  readonly text: string;
}

/** The pages of a folder of docs, by name. */
async function pagesOf(folder: string): Promise<Page[]> {
  const names = (await readdir(new URL(folder, DOCS))).filter((name) => name.endsWith('.md')).toSorted();
  return Promise.all(
    names.map(async (name) => {
      const path = `${folder}/${name}`;
      return { path, text: await readFile(new URL(path, DOCS), 'utf8') };
    }),
  );
}

export async function llmsText(): Promise<string> {
  const [intro = ''] = (await readFile(new URL('../README.md', DOCS), 'utf8')).split('\n').slice(2, 3);
  const parts = await Promise.all(
    SECTIONS.map(async (folder) => [`## ${folder}`, ...(await pagesOf(folder)).map(lineOf)].join('\n')),
  );
  return `${['# Cluster Serving, serverless', `> ${intro}`, 'All pages in one file: [llms-full.txt](llms-full.txt). Paths are relative to the folder docs.', ...parts].join('\n\n')}\n`;
}

export async function llmsFullText(): Promise<string> {
  const pages = await Promise.all(SECTIONS.map(pagesOf));
  return pages
    .flat()
    .map(({ path, text }) => `<!-- docs/${path} -->\n${text.trim()}\n`)
    .join('\n');
}

/** Title, address and first sentence. */
function lineOf({ path, text }: Page): string {
  const [, title = path] = /^# (.*)$/m.exec(text) ?? [];
  const prose = text
    .replaceAll(FENCE, '')
    .replaceAll(/^(#|\||<!--|!\[|- |\d+\. |On this page: ).*$/gm, '')
    .replaceAll(/^> /gm, '')
    .trim();
  const paragraph = (prose.split(/\n\s*\n/)[0] ?? '').replaceAll(/\s+/g, ' ');
  const [sentence = ''] = paragraph.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').split(/(?<=[.!?])(?= |$)/);
  return `- [${title}](${path})${sentence === '' ? '' : `: ${sentence.replace(/:$/, '.')}`}`;
}

/** Links to the sections of a page. */
export function indexOf(page: string): string {
  const links = [...page.replaceAll(FENCE, '').matchAll(/^## (.*)$/gm)].map(
    ([, title = '']) => `[${title.replaceAll('`', '')}](#${anchorOf(title)})`,
  );
  return `On this page: ${links.join(' · ')}`;
}

/** The anchor that GitHub gives a heading. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

/** Words that one reads: outside of code and of the targets of links. */
export function wordsOf(page: string): number {
  const prose = page.replaceAll(FENCE, '').replaceAll(/\]\([^)]*\)/g, ']');
  return prose.split(/\s+/).filter((word) => /\w/.test(word)).length;
}
