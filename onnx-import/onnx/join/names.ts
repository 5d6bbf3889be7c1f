/** What values, nodes, functions and free sizes of two files are called in one. */
import { readMessage } from '../../wire/binary.ts';
import { textOf } from '../../wire/message.ts';
import type { Table } from '../../wire/table.ts';
import type { Pair, Part } from './ports.ts';
import { type Names, Renamer } from './renamer.ts';

interface JoinedNames {
  readonly first: Names;
  readonly second: Names;
}

interface Used {
  readonly all: ReadonlySet<string>;
  readonly sizes: ReadonlySet<string>;
  readonly operators: ReadonlySet<string>;
  readonly functions: ReadonlySet<string>;
}

const FUNCTION: Table = { 1: { name: 'name', type: 'string' }, 10: { name: 'domain', type: 'string' } };

/** Different names stay different, so that each name means what it did in its file. */
export function joinedNames(first: Part, second: Part, pairs: readonly Pair[]): JoinedNames {
  const [ours, theirs] = [usedIn(first), usedIn(second)];
  const before = unusedPrefix('before_', ours, theirs);
  const after = unusedPrefix('after_', ours, theirs);
  const inputs = new Set(first.ports.inputs.map(({ name }) => name));
  const value = (name: string) => (name === '' || inputs.has(name) ? name : before + name);
  const wired = new Map(pairs.map(([output, input]) => [input.name, value(output.name)]));
  const sizes = sameSizes(pairs);
  return {
    first: {
      value,
      node: (name) => (name === '' ? name : before + name),
      operator: (domain, name) => (ours.functions.has(keyOf(domain, name)) ? before + name : name),
      size: (name) => name,
    },
    second: {
      value: (name) => wired.get(name) ?? (inputs.has(name) ? after + name : name),
      node: (name) => name,
      // A function runs in place of an operator of its name, which the first file may have.
      operator: (domain, name) => {
        const key = keyOf(domain, name);
        return theirs.functions.has(key) && ours.operators.has(key) ? after + name : name;
      },
      size: (name) => sizes.get(name) ?? (ours.sizes.has(name) ? after + name : name),
    },
  };
}

/** The free sizes of the second file that are one of the first. */
function sameSizes(pairs: readonly Pair[]): ReadonlyMap<string, string> {
  const sizes = new Map<string, string>();
  for (const [{ shape: from = [] }, { shape: to = [] }] of pairs) {
    for (const [i, size] of to.entries()) {
      const own = from[i];
      if (typeof size !== 'string' || size === '' || typeof own !== 'string' || own === '') continue;
      if (!sizes.has(size)) sizes.set(size, own);
    }
  }
  return sizes;
}

function usedIn({ graph, fields }: Part): Used {
  const [all, sizes, operators] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const seen = (name: string) => {
    all.add(name);
    return name;
  };
  const renamer = new Renamer({
    value: seen,
    node: seen,
    operator(domain, name) {
      operators.add(keyOf(domain, name));
      return seen(name);
    },
    size(name) {
      sizes.add(name);
      return seen(name);
    },
  });
  for (const item of graph) renamer.graphField(item);
  const functions = fields.filter(({ number }) => number === 25).map(({ content }) => content);
  for (const content of functions) renamer.function(content);
  const keys = functions.map((content) => {
    const read = readMessage(content, FUNCTION);
    return keyOf(textOf(read, 'domain'), textOf(read, 'name'));
  });
  return { all, sizes, operators, functions: new Set(keys) };
}

function keyOf(domain: string, name: string): string {
  return `${domain === 'ai.onnx' ? '' : domain}:${name}`;
}

/** One with which no name of either file begins. */
function unusedPrefix(prefix: string, ...used: readonly Used[]): string {
  const isUsed = (text: string) => used.some(({ all }) => [...all].some((name) => name.startsWith(text)));
  let free = prefix;
  for (let i = 2; isUsed(free); i++) free = `${prefix}${i}_`;
  return free;
}
