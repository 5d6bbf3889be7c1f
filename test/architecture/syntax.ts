/** Reads the imports that a file has written, to compare them with what dependency-cruiser saw. */
import { readFileSync } from 'node:fs';
import { parseSync } from 'oxc-parser';

export interface WrittenImport {
  /** Not known of an import() whose argument is computed. */
  readonly specifier: string | undefined;
  readonly dynamic: boolean;
}

export function importsIn(path: string): WrittenImport[] {
  const text = readFileSync(path, 'utf8');
  const { module } = parseSync(path, text);
  const exported = module.staticExports.flatMap(({ entries }) =>
    entries.flatMap((one) => one.moduleRequest ?? []),
  );
  const named = [...module.staticImports.map((one) => one.moduleRequest), ...exported];
  return [
    ...named.map(({ value }) => ({ specifier: value, dynamic: false })),
    ...module.dynamicImports.map(({ moduleRequest: { start, end } }) => {
      // Positions are those of UTF-16 code units.
      const [, specifier] = /^['"](.*)['"]$/.exec(text.slice(start, end)) ?? [];
      return { specifier, dynamic: true };
    }),
  ];
}
