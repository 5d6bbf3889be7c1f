/**
 * Collects the licenses of the packages that are bundled into the functions, because a minified bundle keeps no
 * notices.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';

const LICENSE_FILE = /^(licen[cs]e|copying|notice)(\.|-|$)/i;

/** Packages with the same license text are listed together. */
export async function licensesOf(metafiles: readonly Metafile[], root: string): Promise<string> {
  const inputs = metafiles.flatMap(({ outputs }) =>
    Object.values(outputs).flatMap((output) => Object.keys(output.inputs)),
  );
  const folders = new Set(inputs.flatMap((input) => packageFolder(input) ?? []));
  const entries = await Promise.all([...folders].map((folder) => entryOf(join(root, folder))));
  const names = new Map<string, Set<string>>();
  for (const { name, text } of entries) names.set(text, (names.get(text) ?? new Set()).add(name));
  return [...names]
    .map(([text, packages]) => `${[...packages].toSorted().join('\n')}\n\n${text}`.trim().concat('\n'))
    .toSorted()
    .join(`\n${'-'.repeat(80)}\n`);
}

/**
 * Maps `../node_modules/@scope/name/dist/x.js` to ../node_modules/@scope/name; undefined for a file of this project.
 */
function packageFolder(input: string): string | undefined {
  return /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
}

async function entryOf(folder: string): Promise<{ name: string; text: string }> {
  const { name, version, license } = JSON.parse(
    await readFile(join(folder, 'package.json'), 'utf8'),
  ) as Record<'name' | 'version' | 'license', string>;
  const files = (await readdir(folder)).filter((file) => LICENSE_FILE.test(file)).toSorted();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  return { name: `${name} ${version}: ${license}`, text: texts.map((text) => text.trim()).join('\n\n') };
}
