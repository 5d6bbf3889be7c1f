/** Shared by the two tests of the tutorial. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

export const TUTORIAL = 'docs/tutorial/first-model.md';

/** Lets the service of `folder` take free ports, and puts the one it took into later blocks. */
export function localPorts(folder: string): (text: string) => Promise<string> {
  return async (text) => {
    const stack = join(folder, '.cluster-serving', 'stack.json');
    const started = text.replace('cluster-serving start\n', 'cluster-serving start --port 0\n');
    if (!existsSync(stack)) return started;
    const { http } = JSON.parse(await readFile(stack, 'utf8')) as { http: string };
    return started.replaceAll('http://localhost:10020', http);
  };
}
