import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Copies scripts of commands, which load the bundle instead of the source. @param bundle relative to them */
export async function copyScripts(from: string, to: string, bundle: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const name of await readdir(from)) {
    const text = await readFile(join(from, name), 'utf8');
    const path = join(to, name);
    await writeFile(path, text.replace("'../main.ts'", `'${bundle}'`));
    if (text.startsWith('#!')) await chmod(path, 0o755);
  }
}
