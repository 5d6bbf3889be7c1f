/** Runs a command line in this process. */
import { run } from '../../cli/main.ts';

/** Runs a command in this process. @returns its exit code and all its output */
export async function runHere(args: readonly string[]): Promise<{ code: number; text: string }> {
  const said: string[] = [];
  const code = await run([...args], {
    json: false,
    answer: (_, text) => said.push(text),
    piece: (text) => said.push(text),
    note: (text) => said.push(text),
    failure: (error) => said.push(error.message),
  });
  return { code, text: said.join('\n') };
}
