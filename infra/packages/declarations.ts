/** Collects the declarations of a package: those of its entry point and of everything it refers to. */
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire, isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { packageName } from './manifest.ts';

const IMPORT = /(from |import\()(['"])([^'"]+)\2/g;

/** Emits the declarations of all files in infra/packages/tsconfig.json. `npm run types` checks them, which takes longer. */
export async function emitDeclarations(root: string, folder: string): Promise<void> {
  const require = createRequire(import.meta.url);
  const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
  const project = join(root, 'infra', 'packages', 'tsconfig.json');
  try {
    await promisify(execFile)(process.execPath, [compiler, '-p', project, '--outDir', folder]);
  } catch (error) {
    const { stdout, message } = error as Error & { stdout?: string };
    throw new Error(`the declarations cannot be made: ${stdout || message}`, { cause: error });
  }
}

/**
 * Copies `entry` (relative to `from`) and its imports. `./x.ts` is rewritten to `./x.js`, which every compiler reads
 * as x.d.ts, while compilers before 5.0 refuse the former.
 * @returns the external packages that they refer to
 */
export async function copyDeclarations(from: string, to: string, entry: string): Promise<Set<string>> {
  const copied = new Set<string>();
  const packages = new Set<string>();
  const copy = async (file: string): Promise<void> => {
    if (copied.has(file)) return;
    copied.add(file);
    const found: string[] = [];
    const text = (await readFile(join(from, file), 'utf8')).replaceAll(IMPORT, (all, before, quote, path) => {
      if (!path.startsWith('.')) {
        if (!isBuiltin(path)) packages.add(packageName(path));
        return all;
      }
      const plain = path.replace(/\.ts$/, '');
      found.push(join(dirname(file), `${plain}.d.ts`));
      return `${before}${quote}${plain}.js${quote}`;
    });
    await mkdir(dirname(join(to, file)), { recursive: true });
    await writeFile(join(to, file), text);
    for (const next of found) await copy(next);
  };
  await copy(entry);
  return packages;
}
