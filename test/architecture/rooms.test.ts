import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ICruiseResult } from 'dependency-cruiser';
import { shapeOf } from './rooms.ts';

/** @param imports `a/b.ts -> a/c.ts`, with a question mark in front of the second one for a type, and a star for an import() */
function modulesOf(...imports: readonly string[]): ICruiseResult['modules'] {
  const edges = imports.map((text) => text.split(' -> ') as [string, string]);
  const files = new Set(edges.flatMap(([from, to]) => [from, to.replace(/^[?*]/, '')]));
  return [...files].map((source) => ({
    source,
    dependencies: edges
      .filter(([from]) => from === source)
      .map(([, to]) => ({
        resolved: to.replace(/^[?*]/, ''),
        dynamic: to.startsWith('*'),
        dependencyTypes: to.startsWith('?') ? ['local', 'type-only'] : ['local'],
      })),
  })) as never;
}

test('the longest chain counts what is loaded, and nothing outside the folder', () => {
  const modules = modulesOf(
    'x/a.ts -> x/b.ts',
    'x/b.ts -> x/c.ts',
    'x/c.ts -> ?x/d.ts',
    'x/c.ts -> *x/d.ts',
    'x/a.ts -> y/z.ts',
  );
  assert.deepEqual(shapeOf('x', modules).longest, ['x/a.ts', 'x/b.ts', 'x/c.ts']);
  const longer = modulesOf('x/a.ts -> x/d.ts', 'x/a.ts -> x/b.ts', 'x/b.ts -> x/c.ts', 'x/c.ts -> x/d.ts');
  assert.deepEqual(shapeOf('x', longer).longest, ['x/a.ts', 'x/b.ts', 'x/c.ts', 'x/d.ts']);
});

test('folders that import each other are found, also around and by a type, and those in a row are not', () => {
  const row = ['x/start.ts -> x/p/a.ts', 'x/p/a.ts -> x/q/b.ts', 'x/q/b.ts -> x/r/c.ts'];
  assert.deepEqual(shapeOf('x', modulesOf(...row)).circles, []);
  assert.deepEqual(shapeOf('x', modulesOf(...row, 'x/r/d.ts -> ?x/p/e.ts')).circles, [['p', 'q', 'r']]);
  assert.deepEqual(shapeOf('x', modulesOf(...row, 'x/r/d.ts -> x/other.ts')).circles, [['.', 'p', 'q', 'r']]);
});
