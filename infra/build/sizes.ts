/**
 * In: bundles and the archives osls made of them. Out: a table: bytes zipped and unzipped, and the largest parts.
 * Trap: a bundle's parts are known to the bundler alone, the files beside it (onnxruntime, a decoder) to the folder alone.
 */
import { readdir, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { Bundle } from './functions.ts';

export interface Archive {
  /** Of the function, as in serverless.yml. */
  readonly name: string;
  /** Path of the zip. */
  readonly path: string;
  readonly bundle: Bundle;
}

const PARTS = 3;

/** One line for each archive, columns aligned, a headline first. */
export async function sizeTable(root: string, archives: readonly Archive[]): Promise<string[]> {
  const rows = await Promise.all(archives.map((archive) => rowOf(root, archive)));
  const table = [['function', 'zipped', 'unzipped', 'largest parts'], ...rows];
  const widths = [0, 1, 2].map((column) => Math.max(...table.map((row) => (row[column] as string).length)));
  return table.map(([name = '', zipped = '', unzipped = '', parts = '']) =>
    [
      name.padEnd(widths[0] as number),
      zipped.padStart(widths[1] as number),
      unzipped.padStart(widths[2] as number),
      parts,
    ].join('  '),
  );
}

async function rowOf(root: string, { name, path, bundle }: Archive): Promise<string[]> {
  const { size } = await stat(path);
  const parts = await partsOf(root, bundle);
  const unzipped = [...parts.values()].reduce((sum, bytes) => sum + bytes, 0);
  const largest = [...parts].sort((a, b) => b[1] - a[1]).slice(0, PARTS);
  return [
    name,
    kilobytes(size),
    kilobytes(unzipped),
    largest.map(([part, bytes]) => `${part} ${kilobytes(bytes)}`).join(', '),
  ];
}

/** Bytes of each package, of our own code and of each file beside the bundle; together, all that is in the folder. */
async function partsOf(root: string, { folder, metafile }: Bundle): Promise<Map<string, number>> {
  const parts = new Map<string, number>();
  const add = (part: string, bytes: number) => parts.set(part, (parts.get(part) ?? 0) + bytes);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const { size } = await stat(path);
    const output = metafile.outputs[relative(root, path)];
    if (!output) {
      add(partOf(relative(folder, path)), size);
      continue;
    }
    let named = 0;
    for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) {
      add(input.includes('node_modules/') ? partOf(input) : 'our own', bytesInOutput);
      named += bytesInOutput;
    }
    // What the bundler writes between the parts.
    add('our own', size - named);
  }
  return parts;
}

/** `node_modules/@aws-sdk/client-s3/dist/index.js` -> @aws-sdk/client-s3; a file as it is. */
function partOf(path: string): string {
  const inside = path.split('node_modules/').at(-1) as string;
  const depth = inside.startsWith('@') ? 2 : 1;
  return inside.split('/').slice(0, depth).join('/');
}

function kilobytes(bytes: number): string {
  return `${Math.ceil(bytes / 1000).toLocaleString('en')} kB`;
}
