/** How deep the files of a folder lead into each other, and whether its own folders do so in one direction. */
import { posix } from 'node:path';
import type { ICruiseResult } from 'dependency-cruiser';

export interface Shape {
  /** The files of the longest chain of imports, the first importer first. Imports of types load nothing, and do not count. */
  readonly longest: readonly string[];
  /** Folders that import each other, directly or around; files that lie in none are a folder of their own. */
  readonly circles: readonly (readonly string[])[];
}

/** @param folder without the slash at its end. @param modules free of cycles */
export function shapeOf(folder: string, modules: ICruiseResult['modules']): Shape {
  const inside = (path: string) => path.startsWith(`${folder}/`);
  const imports = new Map<string, readonly string[]>();
  const rooms = new Map<string, Set<string>>();
  for (const { source, dependencies } of modules) {
    if (!inside(source)) continue;
    const own = dependencies.filter(({ resolved }) => inside(resolved));
    const loaded = own.filter(
      ({ dependencyTypes, dynamic }) => !dynamic && !dependencyTypes.includes('type-only'),
    );
    imports.set(
      source,
      loaded.map(({ resolved }) => resolved),
    );
    const room = roomOf(folder, source);
    const others = rooms.get(room) ?? new Set<string>();
    rooms.set(room, others);
    for (const { resolved } of own)
      if (roomOf(folder, resolved) !== room) others.add(roomOf(folder, resolved));
  }
  return { longest: longestPath(imports), circles: circlesOf(rooms) };
}

function roomOf(folder: string, path: string): string {
  const [room = '', ...rest] = posix.relative(folder, path).split('/');
  return rest.length === 0 ? '.' : room;
}

function longestPath(imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const known = new Map<string, readonly string[]>();
  const from = (file: string): readonly string[] => {
    const before = known.get(file);
    if (before) return before;
    const longest = longer((imports.get(file) ?? []).map(from));
    known.set(file, [file, ...longest]);
    return [file, ...longest];
  };
  return longer([...imports.keys()].map(from));
}

const longer = (paths: readonly (readonly string[])[]): readonly string[] =>
  paths.reduce((best, path) => (path.length > best.length ? path : best), []);

function circlesOf(rooms: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const reached = (start: string) => {
    const found = new Set<string>();
    const visit = (room: string) => {
      for (const next of rooms.get(room) ?? []) {
        if (found.has(next)) continue;
        found.add(next);
        visit(next);
      }
    };
    visit(start);
    return found;
  };
  const all = new Map([...rooms.keys()].map((room) => [room, reached(room)]));
  const circles = new Map<string, string[]>();
  for (const [room, found] of all) {
    if (!found.has(room)) continue;
    const members = [...found].filter((other) => all.get(other)?.has(room)).sort();
    circles.set(members.join(), members);
  }
  return [...circles.values()];
}
