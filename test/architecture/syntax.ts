/** Reads the imports that a file has written, to compare them with what dependency-cruiser saw, and to show it nothing else. */
import { readFileSync } from 'node:fs';
import { parseSync } from 'oxc-parser';

export interface WrittenImport {
  /** Not known of an import() whose argument is computed. */
  readonly specifier: string | undefined;
  readonly dynamic: boolean;
}

export interface Written {
  readonly imports: readonly WrittenImport[];
  /**
   * The statements of these imports alone, types included. dependency-cruiser passes the syntax tree of a file through JSON, which
   * takes most of its time. The whole text where the file also loads in ways that are not imports.
   */
  readonly statements: string;
}

/** `require`, `import a = require()` and getBuiltinModule, which dependency-cruiser sees too. */
const LOADS_OTHERWISE = /\brequire\b|getBuiltinModule|^\s*(?:export\s+)?import\s+\w+\s*=/m;

export function readImports(path: string): Written {
  const text = readFileSync(path, 'utf8');
  const { module } = parseSync(path, text);
  const exported = module.staticExports.flatMap(({ start, end, entries }) =>
    entries.flatMap((one) => (one.moduleRequest ? [{ start, end, specifier: one.moduleRequest.value }] : [])),
  );
  const named = [
    ...module.staticImports.map(({ start, end, moduleRequest }) => {
      return { start, end, specifier: moduleRequest.value };
    }),
    ...exported,
  ];
  const computed = module.dynamicImports.map(({ start, end, moduleRequest }) => {
    // Positions are those of UTF-16 code units.
    const [, specifier] = /^['"](.*)['"]$/.exec(text.slice(moduleRequest.start, moduleRequest.end)) ?? [];
    return { start, end, specifier };
  });
  const statements = [
    ...new Set([
      ...named.map(({ start, end }) => text.slice(start, end)),
      ...computed
        .filter(({ specifier }) => specifier !== undefined)
        .map(({ start, end }) => `void ${text.slice(start, end)};`),
    ]),
  ];
  return {
    imports: [
      ...named.map(({ specifier }) => ({ specifier, dynamic: false })),
      ...computed.map(({ specifier }) => ({ specifier, dynamic: true })),
    ],
    statements: LOADS_OTHERWISE.test(text) ? text : `${statements.join('\n')}\n`,
  };
}
