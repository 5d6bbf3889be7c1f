/**
 * In: what is about to be done for good. Out: whether the person wants it.
 * Trap: where nobody can be asked, nothing is assumed: --yes has to be said.
 */
import { createInterface } from 'node:readline/promises';
import { wrongUse } from './command.ts';

/** @param what as in "this deletes 3 messages". @throws bad_config where there is nobody to ask */
export async function confirmed(what: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw wrongUse(`this ${what}, and there is no terminal to ask at; say --yes`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`This ${what}. Type yes to do it: `);
    return answer.trim().toLowerCase() === 'yes';
  } finally {
    terminal.close();
  }
}
