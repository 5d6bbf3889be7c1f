/**
 * Shows the size of each archive, zipped and unzipped, and its largest parts. Sizes inside a bundle come from the
 * bundler, those of other files (onnxruntime, a decoder) from the folder.
 */

import { readdir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { elementAt } from '../../lib/contract/present.ts';
import { bundleOf, type FunctionFolder, partOf, type ServiceFunctions } from './function-folder.ts';

const PARTS = 3;

/** A headline, then one line per archive, in aligned columns. @param folder of the archives */
export async function sizeTable(
  functions: ServiceFunctions,
  bundles: readonly FunctionFolder[],
  folder: string,
): Promise<string[]> {
  // One with an image has no archive, and one of the user none of our bundles.
  const rows = Object.entries(functions).flatMap(([name, { handler }]) => {
    const bundle = handler && bundles.find((one) => one.name === bundleOf(name, handler));
    return bundle ? [rowOf(name, bundle, folder)] : [];
  });
  const table = [['function', 'zipped', 'unzipped', 'largest parts'], ...(await Promise.all(rows))];
  const widths = [0, 1, 2].map((column) =>
    Math.max(...table.map((row) => elementAt(row, column, 'row').length)),
  );
  return table.map(([name = '', zipped = '', unzipped = '', parts = '']) =>
    [
      name.padEnd(elementAt(widths, 0, 'widths')),
      zipped.padStart(elementAt(widths, 1, 'widths')),
      unzipped.padStart(elementAt(widths, 2, 'widths')),
      parts,
    ].join('  '),
  );
}

async function rowOf(name: string, bundle: FunctionFolder, folder: string): Promise<string[]> {
  const { size } = await stat(join(folder, `${name}.zip`));
  const parts = await partsOf(bundle);
  const unzipped = [...parts.values()].reduce((sum, bytes) => sum + bytes, 0);
  const largest = [...parts].sort((a, b) => b[1] - a[1]).slice(0, PARTS);
  return [
    name,
    kilobytes(size),
    kilobytes(unzipped),
    largest.map(([part, bytes]) => `${part} ${kilobytes(bytes)}`).join(', '),
  ];
}

/** The bytes of each package, of the project's own code and of each other file; together all bytes of the folder. */
async function partsOf({ folder, contents }: FunctionFolder): Promise<Map<string, number>> {
  const sums = new Map<string, number>();
  const add = (part: string, bytes: number) => sums.set(part, (sums.get(part) ?? 0) + bytes);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const file = relative(folder, path);
    const bundled = contents.parts[file];
    if (bundled) for (const [part, bytes] of Object.entries(bundled)) add(part, bytes);
    else add(partOf(file), (await stat(path)).size);
  }
  return sums;
}

function kilobytes(bytes: number): string {
  return `${Math.ceil(bytes / 1000).toLocaleString('en')} kB`;
}
