/** Finds the code of a worker, and the command that runs it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { badConfig } from '../contract/errors.ts';

const EXTENSIONS = ['.py', '.ts', '.mts', '.mjs', '.js'];

export type Language = 'python' | 'typescript';

// In the package the loop lies beside this file, in its folder of chunks.
const isSource = import.meta.url.endsWith('.ts');
const LOOP = fileURLToPath(new URL(isSource ? './loop.ts' : './worker-loop.mjs', import.meta.url));
const PYTHON_PACKAGE = fileURLToPath(new URL(isSource ? '../../python' : '../python', import.meta.url));

/**
 * @param name of the class, with its module: `server.Worker`
 * @param directory of the module
 * @throws bad_config when there is no such module, or one in each language
 */
export function languageOf(name: string, directory: string): Language {
  return workerFile(name, directory).endsWith('.py') ? 'python' : 'typescript';
}

/** @returns the path of the worker's module. @throws as languageOf */
export function workerFile(name: string, directory: string): string {
  const stem = join(directory, ...name.split('.').slice(0, -1));
  const there = EXTENSIONS.map((extension) => stem + extension).filter((path) => existsSync(path));
  const [file, ...more] = there;
  if (file === undefined) {
    throw badConfig(`worker.class: there is no ${stem}.py and no ${stem}.ts for ${name}`);
  }
  if (more.length === 0) return file;
  throw badConfig(`worker.class: there are ${there.length} files of the name ${stem}: remove all but one`);
}

/** @param python the command of the user's Python */
export function loopCommand(language: Language, python: string): [string, ...string[]] {
  return language === 'python' ? [python, '-m', 'wkr_serving._protocol.loop'] : [process.execPath, LOOP];
}

/** The environment of a worker's process, which sees only its own device. */
export function loopEnvironment(
  variables: Readonly<Record<string, string | undefined>>,
  deviceId: number,
): Record<string, string | undefined> {
  const path = [PYTHON_PACKAGE, variables['PYTHONPATH']].filter(Boolean).join(':');
  return {
    ...variables,
    PYTHONPATH: path,
    CUDA_VISIBLE_DEVICES: deviceId < 0 ? '-1' : String(deviceId),
  };
}

/** @throws bad_config for a GPU that this machine does not have; without it, a worker would silently use the CPU */
export function assertDevices(devices: readonly number[]): void {
  const missing = devices.find((device) => device >= 0 && !existsSync(`/dev/nvidia${device}`));
  if (missing === undefined) return;
  throw badConfig(`worker.deviceMap: this machine has no GPU ${missing}; -1 is the CPU`);
}
