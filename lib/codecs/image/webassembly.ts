/**
 * The parts that the WebAssembly decoders share. Their files lie beside the bundle, or else in node_modules. An
 * instance decodes one image after the other. One that trapped must not be used again, and its memory only grows, so it
 * is replaced in both cases.
 */
import { readFile } from 'node:fs/promises';
import { badInput, ServingError } from '../../contract/errors.ts';

export interface WasmFile {
  readonly module: WebAssembly.Module;
  readonly url: URL;
}

export interface KeptInstance<T> {
  /** Runs `work`, which must be synchronous. @throws what `work` refuses; bad_input when it traps; internal when nothing can be opened */
  use<R>(work: (instance: T) => R): Promise<R>;
  current(): T | undefined;
}

/**
 * @param format as errors name it
 * @param open creates an instance: at the first image, and to replace one
 * @param isSpent whether an instance is to be replaced, asked after every image
 */
export function keepInstance<T>(
  format: string,
  open: () => Promise<T>,
  isSpent: (instance: T) => boolean,
): KeptInstance<T> {
  let opening: Promise<T> | undefined;
  let current: T | undefined;

  const start = async (): Promise<T> => {
    try {
      current = await open();
      return current;
    } catch (error) {
      drop();
      const text = `the ${format} decoder cannot be loaded: ${whyOf(error)}`;
      throw new ServingError('internal', text, { cause: error });
    }
  };
  const drop = () => {
    opening = undefined;
    current = undefined;
  };

  return {
    async use(work) {
      opening ??= start();
      const instance = await opening;
      try {
        return work(instance);
      } catch (error) {
        if (error instanceof ServingError) throw error;
        // Not an error of the library or of this file: the instance trapped or ran out of memory.
        drop();
        throw badInput(`broken ${format}: the decoder gave up (${whyOf(error)})`, { cause: error });
      } finally {
        if (isSpent(instance)) drop();
      }
    },
    current: () => current,
  };
}

/**
 * Compiles a file of a package once a process.
 * @param beside its URL in a bundle
 * @param installed finds it in node_modules
 */
export function compileOnce(beside: URL, installed: () => string): () => Promise<WasmFile> {
  let compiled: Promise<WasmFile> | undefined;
  return () => {
    compiled ??= compile(beside, installed).catch((error: unknown) => {
      compiled = undefined;
      throw error;
    });
    return compiled;
  };
}

async function compile(beside: URL, installed: () => string): Promise<WasmFile> {
  const { bytes, url } = await readFirst(beside, installed);
  return { module: await WebAssembly.compile(bytes), url };
}

async function readFirst(beside: URL, installed: () => string) {
  try {
    return { bytes: await readFile(beside), url: beside };
  } catch {
    // Not a bundle: the file is in node_modules.
  }
  try {
    const url = new URL(installed());
    return { bytes: await readFile(url), url };
  } catch (error) {
    const name = beside.pathname.split('/').at(-1);
    throw new Error(`${name} is neither beside the bundle nor in node_modules`, { cause: error });
  }
}

function whyOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
