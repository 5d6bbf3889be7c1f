/**
 * The code blocks of a document, and a walk through them as a reader: files are written, commands are run in order in
 * one folder, and what they print is compared with the document.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './start.ts';

const execute = promisify(execFile);

export interface Block {
  readonly language: string;
  /** The file that the reader saves the block as: the word after the language. */
  readonly file: string | undefined;
  readonly text: string;
  /** The second-level heading above it. */
  readonly section: string;
}

/** @param path relative to the repository */
export async function blocksOf(path: string): Promise<Block[]> {
  const document = await readFile(join(ROOT, path), 'utf8');
  let section = '';
  return [...document.matchAll(/^## (.*)$|^```(\w*)(?: (\S+))?\n([\s\S]*?)^```$/gm)].flatMap(
    ([, heading, language = '', file, text = '']) => {
      if (heading === undefined) return [{ language, file, text, section }];
      section = heading;
      return [];
    },
  );
}

/** The texts of the blocks of one language. */
export async function textsOf(language: string, path = 'README.md'): Promise<string[]> {
  const blocks = await blocksOf(path);
  return blocks.filter((block) => block.language === language).map(({ text }) => text);
}

/** Matches what a sample shows: blanks do not count, and `…` stands for some text. */
export function shownAs(sample: string): RegExp {
  const parts = sample.replaceAll(/\s/g, '').split('…');
  return new RegExp(`^${parts.map((part) => RegExp.escape(part)).join('.+')}$`);
}

export interface Walk {
  /** Where the reader works. Absolute. */
  readonly folder: string;
  /** A file outside of it that keeps the exported variables from block to block. */
  readonly state: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Changes a block, as for another port. */
  readonly adapted: (text: string) => string | Promise<string>;
  /** Called after a block of commands has run. */
  readonly after?: (block: Block) => Promise<void>;
}

/** @throws AssertionError at the first command that fails or prints something else */
export async function walk(
  blocks: readonly Block[],
  { folder, state, environment, adapted, after }: Walk,
): Promise<void> {
  let printed: string | undefined;
  for (const block of blocks) {
    const text = await adapted(block.text);
    if (block.file !== undefined) await writeFile(join(folder, block.file), text);
    else if (block.language === 'sh') {
      printed = await run(text, folder, state, environment);
      await after?.(block);
    } else {
      assert.equal(block.language, 'text', `a block that is neither run, nor a file, nor output:\n${text}`);
      assert.ok(printed !== undefined, `no command before the output:\n${text}`);
      assert.match(printed.replaceAll(/\s/g, ''), shownAs(text), `${printed}\nis not\n${text}`);
    }
  }
}

async function run(
  commands: string,
  cwd: string,
  state: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const script = `[ ! -e "$STATE" ] || . "$STATE"\n${commands}\nexport -p > "$STATE"`;
  try {
    const options = { cwd, env: { ...env, STATE: state }, maxBuffer: 16 * 1024 * 1024 };
    return (await execute('bash', ['-euo', 'pipefail', '-c', script], options)).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`failed:\n${commands}\n${stdout}\n${stderr}`, { cause: error });
  }
}
