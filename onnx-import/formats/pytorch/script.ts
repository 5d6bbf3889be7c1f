/** TorchScript archives: the root module, its forward method and the code that it calls. */
import { badModel } from '../../../lib/contract/errors.ts';
import { PickledCall, PickledTuple } from '../../files/pickled.ts';
import type { Archive } from '../../files/zip.ts';
import type { Problems } from '../problems.ts';
import type { ClassDefinition, FunctionDefinition, SourceFile } from './code/ast.ts';
import { Interpreter } from './code/interpreter.ts';
import type { Library } from './code/library.ts';
import { parseSource } from './code/parser.ts';
import type { TorchFile } from './files/archive.ts';
import { Objects, Weights } from './files/objects.ts';
import type { Parameter } from './inputs.ts';
import type { Context } from './run/context.ts';
import { Obj, type Py, refuse } from './run/values.ts';

const MAX_SOURCE_BYTES = 64 * 1024 * 1024;

/** A model that can be run symbolically, any number of times. */
export interface Runnable {
  readonly parameters: readonly Parameter[];
  /** Runs forward; the function tells where it is, for errors. */
  run(
    c: Context,
    problems: Problems,
    args: readonly (Py | undefined)[],
  ): { result: () => Py; position: () => string };
}

/** @throws bad_model when the archive's module has no forward method */
export function readScript(
  file: TorchFile & { readonly script: NonNullable<TorchFile['script']> },
): Runnable {
  const { root, script, name } = file;
  if (!(root instanceof PickledCall)) throw badModel(`${name}: data.pkl holds no module`);
  const sources = new Sources(script.archive, name);
  const type = sources.class(root.name);
  const forward = type?.methods.get('forward');
  if (!type || !forward) {
    const methods = [...(type?.methods.keys() ?? [])].join(', ') || 'none';
    throw badModel(
      `${name}: ${root.name} has no forward method, only ${methods}; save a module that has one`,
    );
  }
  const weights = new Weights(file.storages);
  const constants = new Weights(script.constantStorages);
  return {
    parameters: forward.parameters.slice(1).map((parameter) => ({
      name: parameter.name,
      type: parameter.type,
      hasDefault: parameter.fallback !== undefined,
    })),
    run: (c, problems, args) => {
      c.archiveVersion = versionOf(script.archive);
      const fixed = new Objects(c, constants);
      const table = script.constants instanceof PickledTuple ? script.constants.items : [];
      const library: Library = {
        function: (path) => sources.function(path),
        class: (path) => sources.class(path),
        constant: (id) => {
          const value = table[Number(id.replace(/^c/, ''))];
          return value === undefined ? refuse(`has no constant ${id}`) : fixed.value(value, id);
        },
      };
      const interpreter = new Interpreter(c, library, problems);
      const objects = new Objects(c, weights, undefined, (object, state) => {
        interpreter.restore(object, state);
      });
      const self = objects.value(root);
      if (!(self instanceof Obj)) throw badModel(`${name}: data.pkl holds no module`);
      return {
        result: () => interpreter.method(self, 'forward', args),
        position: () => interpreter.position,
      };
    },
  };
}

/** The version of the operators; archives of mobile may have none. */
function versionOf(archive: Archive): number {
  const entry = ['version', '.data/version'].find((name) => archive.names.includes(name));
  const version = Number(entry && Buffer.from(archive.read(entry)).toString('utf8'));
  return version > 0 ? version : Number.POSITIVE_INFINITY;
}

/** The code of an archive, parsed file by file when it is called. */
class Sources {
  readonly #archive: Archive;
  readonly #name: string;
  readonly #names: ReadonlySet<string>;
  readonly #parsed = new Map<string, SourceFile>();
  #bytes = 0;

  constructor(archive: Archive, name: string) {
    this.#archive = archive;
    this.#name = name;
    this.#names = new Set(archive.names);
  }

  function(path: string): FunctionDefinition | undefined {
    return this.#file(path)?.functions.get(path.slice(path.lastIndexOf('.') + 1));
  }

  class(path: string): ClassDefinition | undefined {
    return this.#file(path)?.classes.get(path.slice(path.lastIndexOf('.') + 1));
  }

  #file(path: string): SourceFile | undefined {
    const entry = `code/${path.slice(0, path.lastIndexOf('.')).replaceAll('.', '/')}.py`;
    const known = this.#parsed.get(entry);
    if (known || !this.#names.has(entry)) return known;
    const bytes = this.#archive.read(entry);
    this.#bytes += bytes.length;
    if (this.#bytes > MAX_SOURCE_BYTES)
      throw badModel(`${this.#name}: over ${MAX_SOURCE_BYTES} bytes of code`);
    const parsed = parseSource(Buffer.from(bytes).toString('utf8'), `${this.#name}: ${entry}`);
    this.#parsed.set(entry, parsed);
    return parsed;
  }
}
