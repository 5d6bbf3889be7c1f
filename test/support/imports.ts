/**
 * Reads off a source file which modules it loads, and whether only their types.
 * A line parser, because TypeScript 7 has no API: it knows the forms that this code base uses, and test/architecture/workspaces.test.ts
 * holds each of them.
 */

export interface Import {
  readonly specifier: string;
  /** Nothing of it is left at run time. */
  readonly typeOnly: boolean;
}

/** `import … from '…'` and `export … from '…'`, over several lines too, and `import '…'`. */
const STATEMENT =
  /^(?:import\s*|(?:import|export)\s+(?<clause>[\w\s{},*$]+?)\s+from\s*)(?<quote>['"])(?<specifier>[^'"]+)\k<quote>/gm;
/** import('…'), typeof import('…'), require('…'), require.resolve('…') and the like of import.meta and createRequire. */
const CALL =
  /(?<typeof>\btypeof\s+)?(?:\bimport|\brequire|(?:\brequire|\bimport\.meta|\))\.resolve)\(\s*(?<quote>['"])(?<specifier>[^'"]+)\k<quote>\s*[),]/g;

export function importsOf(source: string): Import[] {
  const code = source.replaceAll(/^\s*\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  return [
    ...[...code.matchAll(STATEMENT)].map(({ groups }) => ({
      specifier: groups?.['specifier'] as string,
      typeOnly: /^type\s/.test(groups?.['clause'] ?? ''),
    })),
    ...[...code.matchAll(CALL)].map(({ groups }) => ({
      specifier: groups?.['specifier'] as string,
      typeOnly: groups?.['typeof'] !== undefined,
    })),
  ];
}

/** `@aws-sdk/client-s3/dist/x.js` -> @aws-sdk/client-s3. */
export function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}
