/**
 * The tools of `npm run test:aws`, which are not dependencies of this project: moto, cfn-lint and MiniStack from Python's
 * registry, in virtual environments, and AWS's own runtime client for Node, which is compiled.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installed, quiet, type Tool } from '../../support/tools.ts';

export type { Tool };

const RUNTIME_CLIENT = 'aws-lambda-ric@4.0.2';

/** The folder with the programs of moto and cfn-lint. */
export function motoTools(): Promise<Tool> {
  return pythonTools(fileURLToPath(new URL('requirements.txt', import.meta.url)));
}

/** Apart from moto's, so that neither decides which versions of other packages the other one gets. */
export function miniStackTools(): Promise<Tool> {
  return pythonTools(fileURLToPath(new URL('ministack/requirements.txt', import.meta.url)));
}

async function pythonTools(requirements: string): Promise<Tool> {
  const digest = createHash('sha256')
    .update(await readFile(requirements))
    .digest('hex');
  const bin = (folder: string) => join(folder, 'bin');
  const made = await installed(`python-${digest.slice(0, 12)}`, async (folder) => {
    await quiet('python3', ['-m', 'venv', folder]);
    await quiet(join(bin(folder), 'python'), ['-m', 'pip', 'install', '--quiet', '-r', requirements]);
  });
  return 'missing' in made ? made : { folder: bin(made.folder) };
}

/** The package of AWS's runtime client; AWS_LAMBDA_RIC names one that is there already. */
export async function runtimeClient(): Promise<Tool> {
  const given = process.env['AWS_LAMBDA_RIC'];
  if (given !== undefined) return { folder: given };
  const made = await installed(RUNTIME_CLIENT.replace('@', '-'), async (folder) => {
    await quiet('npm', ['install', '--prefix', folder, '--ignore-scripts', '--no-save', RUNTIME_CLIENT]);
    const root = packageIn(folder);
    // npm may refuse to run the scripts of a package by itself.
    for (const script of ['preinstall', 'postinstall'])
      await quiet('sh', [join(root, 'scripts', `${script}.sh`)]);
  });
  return 'missing' in made ? made : { folder: packageIn(made.folder) };
}

function packageIn(folder: string): string {
  return join(folder, 'node_modules', 'aws-lambda-ric');
}
