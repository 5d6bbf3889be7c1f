/** Asks for confirmation before an irreversible action. Without a terminal, --yes is required. */
import { createInterface } from 'node:readline/promises';
import { wrongUse } from './command.ts';

export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** @param what as in "this deletes 3 messages". @throws bad_config without a terminal */
export async function confirmed(what: string): Promise<boolean> {
  if (!canAsk()) throw wrongUse(`this ${what}, and there is no terminal to ask at; pass --yes`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`This ${what}. Type yes to do it: `);
    return answer.trim().toLowerCase() === 'yes';
  } finally {
    terminal.close();
  }
}
