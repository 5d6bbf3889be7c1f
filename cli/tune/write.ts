/**
 * In: a config.yaml and what it should say. Out: the file changed in those settings, after a question.
 * Trap: the file gets its new text in one step: whoever reads it meanwhile sees the old one or the new one, whole.
 */
import { chmod, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { ServingError } from '../../lib/contract/errors.ts';
import { wrongUse } from '../command.ts';
import { confirmed } from '../confirm.ts';
import type { Output } from '../output.ts';
import { changedConfig, diffOf } from './config.ts';
import type { ConfigChange } from './recommend.ts';

/** Before a minute of measuring, not after it. @throws bad_config where nobody could be asked */
export function assertAskable(isYes: boolean): void {
  if (isYes || (process.stdin.isTTY && process.stderr.isTTY)) return;
  throw wrongUse(
    'tune: --write asks before it changes the file, and there is no terminal to ask at; say --yes',
  );
}

/** @returns the lines that changed; undefined where the person did not want it */
export async function writeConfig(
  path: string,
  change: ConfigChange,
  isYes: boolean,
  output: Output,
): Promise<readonly string[] | undefined> {
  const before = await textOf(path);
  const after = changedConfig(before, change, path);
  const diff = diffOf(before, after);
  if (diff.length === 0) {
    output.note(`${path} says so already`);
    return [];
  }
  output.note(`${path}:`);
  for (const line of diff) output.note(`  ${line}`);
  if (!isYes && !(await confirmed(`changes ${path} so`))) return undefined;
  // While the question stood somebody may have edited it.
  if ((await textOf(path)) !== before) {
    throw new ServingError('conflict', `${path} was changed meanwhile; nothing was written`);
  }
  await replace(path, after);
  return diff;
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new ServingError('bad_config', `config ${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function replace(path: string, text: string): Promise<void> {
  // A link stays one.
  const file = await realpath(path);
  const partial = `${file}.${process.pid}.partial`;
  try {
    const { mode } = await stat(file);
    await writeFile(partial, text, { flag: 'wx' });
    await chmod(partial, mode);
    await rename(partial, file);
  } catch (error) {
    await rm(partial, { force: true });
    throw new ServingError('bad_config', `config ${path} cannot be written: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
