/** Loads the class of a worker, `server.Worker`, from the service's working directory. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { present } from '../contract/present.ts';
import { WKRHardWorker } from './hard-worker.ts';

const WORKER = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/;
const EXTENSIONS = ['.ts', '.mts', '.mjs', '.js'];

/** @returns a new worker, with every method of the base class */
export async function loadWorker(directory: string, name: string): Promise<WKRHardWorker> {
  if (!WORKER.test(name)) throw new TypeError(`${name} is not a module and class, such as server.Worker`);
  const parts = name.split('.');
  const kind = present(parts.pop(), 'class name');
  const stem = join(directory, ...parts);
  const [file, ...others] = [...EXTENSIONS, '.py']
    .map((extension) => stem + extension)
    .filter((path) => existsSync(path));
  if (file === undefined) throw new Error(`there is no ${stem}.ts`);
  if (others.length > 0) throw new Error(`both ${file} and ${others[0]} exist: remove one`);
  // The user names the file that the worker's process is for.
  const module = (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
  const found = module[kind];
  if (typeof found !== 'function') throw new TypeError(`${file} exports no class ${kind}`);
  return withBase(Reflect.construct(found, []), file);
}

/** Adds what a class that does not extend the base class lacks. */
function withBase(worker: object, file: string): WKRHardWorker {
  for (const name of ['getModel', 'predict']) {
    const method: unknown = Reflect.get(worker, name);
    if (typeof method !== 'function') throw new TypeError(`the worker in ${file} has no method ${name}`);
  }
  const base = new Blank();
  const methods = Object.getOwnPropertyDescriptors(WKRHardWorker.prototype);
  for (const [name, property] of Object.entries({ ...methods, ...Object.getOwnPropertyDescriptors(base) })) {
    if (!(name in worker)) Object.defineProperty(worker, name, property);
  }
  // It has every property of the base class now, and the two that are abstract.
  return worker as WKRHardWorker;
}

class Blank extends WKRHardWorker {
  getModel(): void {}
  predict(): void {}
}
