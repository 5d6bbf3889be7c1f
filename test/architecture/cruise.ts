/**
 * Runs dependency-cruiser with the rules of `rules.ts` over the imports of a tree, and returns what violates them.
 * They are cruised twice. The first cruise sees every import, types and import() included. The second cruise sees what
 * Node loads: the types are erased first, because dependency-cruiser's reachability rules cannot leave them out.
 */
import { existsSync, globSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { transform } from '@swc/core';
import { cruise, type ICruiseResult, type IForbiddenRuleType } from 'dependency-cruiser';
import {
  CROSSINGS,
  IMPORTED_BY,
  KNOWN,
  LEVELS,
  MAY_BE_ORPHANS,
  MAY_COMPUTE_IMPORTS,
  MAY_READ_ENVIRONMENT,
  MAY_SHARE_A_PREFIX,
  ONLY,
  OWNED,
  OWNERS,
  PURE,
  PURE_NODE_MODULES,
  SEPARATE,
  UNREACHABLE,
  WITHOUT_DEV_DEPENDENCIES,
} from './rules.ts';
import { readImports, type Written, type WrittenImport } from './syntax.ts';

type Rule = IForbiddenRuleType & { readonly name: string };
type Violations = ICruiseResult['summary']['violations'];

export interface Violation {
  readonly rule: string;
  /** The file that violates the rule; of a cycle, its alphabetically first file. */
  readonly from: string;
  /** As a failed test shows it, and as KNOWN lists it. */
  readonly text: string;
}

export interface Inspection {
  /** All source files of the tree. */
  readonly files: readonly string[];
  /** The modules that dependency-cruiser found, packages included. */
  readonly modules: ICruiseResult['modules'];
  readonly violations: readonly Violation[];
}

/** Checks the tree under `root`. Fails when dependency-cruiser did not read every source file of it. */
export async function inspect(root: string): Promise<Inspection> {
  const files = await sourceFiles(root);
  const read = new Map(files.map((file) => [file, readImports(join(root, file))]));
  const written = await cruiseWritten(root, read);
  const loaded = await cruiseErased(root, read);
  const violations = [
    ...[...written.summary.violations, ...loaded.summary.violations].map(readable),
    ...files.flatMap(misplaced),
    ...crowded(files),
    ...[...read].flatMap(([file, { imports }]) => unseenImports(file, imports, written.modules)),
  ];
  return { files, modules: written.modules, violations };
}

/** The violations that KNOWN does not list. */
export function newViolations(violations: readonly Violation[]): Violation[] {
  return violations.filter(({ text }) => !KNOWN.includes(text));
}

const IGNORED = /(^|\/)(node_modules|dist|\.[^./][^/]*)(\/|$)/;
const SOURCE = /\.[cm]?[jt]sx?$/;

/** Every source file of the tree, in any folder: a new folder must not go unnoticed. */
export async function sourceFiles(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory() && !IGNORED.test(entry.name));
  const inside = await Promise.all(
    folders.map(async ({ name }) =>
      (await readdir(join(root, name), { recursive: true })).map((entry) => `${name}/${entry}`),
    ),
  );
  const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  return [...files, ...inside.flat()].filter((file) => SOURCE.test(file) && !IGNORED.test(file)).toSorted();
}

async function cruiseFiles(
  root: string,
  files: readonly string[],
  forbidden: Rule[],
  exclude: { readonly dynamic?: true } = {},
): Promise<ICruiseResult> {
  const top = new Set(LEVELS.flat().map((path) => path.split('/')[0] as string));
  const folders = [...top].filter((folder) => files.some((file) => file.startsWith(`${folder}/`)));
  const inside = `^(${folders.join('|')})/`;
  const { output } = await cruise(
    folders,
    {
      baseDir: root,
      validate: true,
      doNotFollow: { path: 'node_modules' },
      // TypeScript 7 has no API, and without a parser dependency-cruiser leaves .ts files out.
      parser: 'swc',
      ruleSet: { forbidden },
      exclude: {
        // Folders of ours alone: what lies in the `dist` of a package must be seen.
        path: ['dist/', String.raw`\.[^./]`].flatMap((name) => [`${inside}${name}`, `${inside}.*/${name}`]),
        ...exclude,
      },
    },
    { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default'] },
  );
  const result = output as ICruiseResult;
  const cruised = new Set(result.modules.map(({ source }) => source));
  const missing = files.filter((file) => !cruised.has(file));
  if (files.length === 0 || missing.length > 0) {
    const some = missing.slice(0, 5).join(', ');
    throw new Error(
      `dependency-cruiser read ${files.length - missing.length} of ${files.length} files, not: ${some}`,
    );
  }
  return result;
}

type Read = ReadonlyMap<string, Written>;

/** Cruises a copy of the imports alone, types and import() included. */
async function cruiseWritten(root: string, read: Read): Promise<ICruiseResult> {
  return withCopy(root, async (copy) => {
    for (const [file, { statements, imports }] of read) {
      await writeInto(copy, file, statements);
      for (const { specifier = '' } of imports) {
        // Data, such as JSON.
        const target = join(dirname(file), specifier);
        if (!specifier.startsWith('.') || SOURCE.test(target) || !existsSync(join(root, target))) continue;
        await writeInto(copy, target, '');
      }
    }
    for (const path of globSync('**/package.json', { cwd: root, exclude: (name) => IGNORED.test(name) }))
      await writeInto(copy, path, await readFile(join(root, path), 'utf8'));
    return cruiseFiles(copy, [...read.keys()], rulesOfImports());
  });
}

/** Cruises a copy without types and import(), of what the entry files of UNREACHABLE can import. */
async function cruiseErased(root: string, read: Read): Promise<ICruiseResult> {
  const top = LEVELS.findLastIndex((level) => UNREACHABLE.some(({ entry }) => level.some(contains(entry))));
  const parts = LEVELS.slice(0, top + 1).flat();
  const needed = [...read].filter(([file]) => parts.some(contains(file)));
  return withCopy(root, async (copy) => {
    for (const [file, { statements }] of needed)
      await writeInto(copy, file, await eraseTypes(file, statements));
    const rules = [...rulesOfLoading(), NO_UNRESOLVABLE];
    return cruiseFiles(
      copy,
      needed.map(([file]) => file),
      rules,
      { dynamic: true },
    );
  });
}

async function withCopy<T>(root: string, use: (copy: string) => Promise<T>): Promise<T> {
  const copy = await realpath(await mkdtemp(join(tmpdir(), 'architecture-')));
  try {
    await symlink(join(root, 'node_modules'), join(copy, 'node_modules'));
    return await use(copy);
  } finally {
    await rm(copy, { recursive: true });
  }
}

async function writeInto(copy: string, file: string, text: string): Promise<void> {
  await mkdir(dirname(join(copy, file)), { recursive: true });
  await writeFile(join(copy, file), text);
}

async function eraseTypes(file: string, text: string): Promise<string> {
  if (!/\.tsx?$/.test(file) || file.endsWith('.d.ts')) return text;
  const { code } = await transform(text, {
    configFile: false,
    swcrc: false,
    jsc: {
      target: 'esnext',
      parser: { syntax: 'typescript', tsx: file.endsWith('x') },
      // As Node does it: `import { type A } from './a.ts'` loads a.ts.
      transform: { verbatimModuleSyntax: true },
    },
  });
  return code;
}

/** Tests whether a path of the table holds `file`. */
export function contains(file: string) {
  return (path: string): boolean => (path.endsWith('/') ? file.startsWith(path) : file === path);
}

const escape = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
const pattern = (path: string) => `^${escape(path)}${path.endsWith('/') ? '' : '$'}`;
const packagePattern = (name: string) => `(^|/)node_modules/${escape(name)}/`;
const ruleName = (kind: string, path: string) => `${kind}:${path.replace(/\/$/, '')}`;

const NO_UNRESOLVABLE: Rule = { name: 'no-unresolvable', from: {}, to: { couldNotResolve: true } };

/** A file that no part holds escapes the rules. */
function misplaced(file: string): Violation[] {
  return LEVELS.flat().some(contains(file))
    ? []
    : [{ rule: 'no-part', from: file, text: `no-part: ${file}` }];
}

/** Three files of a folder whose names begin with the same word. */
function crowded(files: readonly string[]): Violation[] {
  const limited = files.filter((file) => !MAY_SHARE_A_PREFIX.some(contains(file)));
  const groups = Map.groupBy(limited, (file) => `${dirname(file)}/${basename(file).split(/[-.]/)[0]}`);
  return [...groups.values()]
    .filter((group) => group.length >= 3)
    .map((group) => ({ rule: 'prefix', from: group[0] as string, text: `prefix: ${group.join(', ')}` }));
}

/** The rules about what is written, whether or not it is loaded. */
function rulesOfImports(): Rule[] {
  return [
    NO_UNRESOLVABLE,
    { name: 'no-cycle', from: {}, to: { circular: true } },
    {
      name: 'no-orphan',
      from: { orphan: true, pathNot: [...MAY_BE_ORPHANS.map(pattern), String.raw`\.d\.ts$`] },
      to: {},
    },
    {
      name: 'no-dev-dependency',
      from: { path: WITHOUT_DEV_DEPENDENCIES.map(pattern) },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'] },
    },
    { name: 'no-undeclared-package', from: {}, to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] } },
    {
      name: 'no-process-module',
      from: { pathNot: MAY_READ_ENVIRONMENT.map(pattern) },
      to: { path: '^(node:)?process$' },
    },
    {
      name: 'pure:node-modules',
      from: { path: PURE.map(pattern), pathNot: Object.keys(PURE_NODE_MODULES).map(pattern) },
      to: { dependencyTypes: ['core'] },
    },
    ...Object.entries(PURE_NODE_MODULES).map(
      ([file, names]): Rule => ({
        name: 'pure:node-modules',
        from: { path: pattern(file) },
        to: { dependencyTypes: ['core'], pathNot: names.map((name) => `^(node:)?${name}$`) },
      }),
    ),
    {
      name: 'owner:none',
      from: { path: OWNED.map(pattern) },
      to: {
        path: '(^|/)node_modules/',
        pathNot: Object.keys(OWNERS).map(packagePattern),
        dependencyTypesNot: ['type-only'],
      },
    },
    ...Object.entries(OWNERS).map(
      ([name, owners]): Rule => ({
        name: `owner:${name}`,
        from: { path: OWNED.map(pattern), pathNot: owners.map(pattern) },
        to: { path: packagePattern(name), dependencyTypesNot: ['type-only'] },
      }),
    ),
    ...ONLY.map(
      ({ from, to }): Rule => ({
        name: ruleName('only', from),
        from: { path: pattern(from) },
        to: { path: LEVELS.flat().map(pattern), pathNot: [from, ...to].map(pattern) },
      }),
    ),
    ...IMPORTED_BY.map(
      ({ part, importers }): Rule => ({
        name: ruleName('imported-by', part),
        from: { pathNot: [part, ...importers].map(pattern) },
        to: { path: pattern(part) },
      }),
    ),
    ...SEPARATE.map(
      (folder): Rule => ({
        name: ruleName('separate', folder),
        from: { path: pattern(folder) },
        to: { path: pattern(folder) },
      }),
    ),
    ...layerRules(),
  ];
}

function layerRules(): Rule[] {
  return LEVELS.flatMap((level, index) =>
    level.map((part) => {
      const below = LEVELS.slice(0, index).flat();
      const crossed = CROSSINGS.filter(({ from }) => from === part).map(({ to }) => to);
      const inside = below.filter((path) => path.startsWith(part));
      return {
        name: ruleName('layer', part),
        from: { path: pattern(part), pathNot: inside.map(pattern) },
        to: {
          path: LEVELS.slice(index).flat().map(pattern),
          pathNot: [part, ...crossed, ...below].map(pattern),
        },
      };
    }),
  );
}

/** The rules about what is loaded when an entry file is. */
function rulesOfLoading(): Rule[] {
  return UNREACHABLE.map(({ entry, packages, files = [] }) => ({
    name: ruleName('unreachable', entry),
    from: { path: pattern(entry) },
    to: { path: [...packages.map(packagePattern), ...files.map(pattern)], reachable: true },
  }));
}

function readable({ rule, from, to, cycle, via }: Violations[number]): Violation {
  const names = cycle?.map(({ name }) => name);
  if (names) {
    const first = names.indexOf(names.toSorted()[0] as string);
    const ring = [...names.slice(first), ...names.slice(0, first + 1)];
    return { rule: rule.name, from: ring[0] as string, text: `${rule.name}: ${ring.join(' -> ')}` };
  }
  const path = via ? via.map(({ name }) => shortName(name)) : [shortName(to)];
  const text = from === to ? `${rule.name}: ${from}` : `${rule.name}: ${[from, ...path].join(' -> ')}`;
  return { rule: rule.name, from, text };
}

/** `node_modules/@scope/name/index.js` is `@scope/name`. */
function shortName(path: string): string {
  const [scope, name] = path.split('node_modules/').at(-1)?.split('/') ?? [];
  if (!path.includes('node_modules/') || scope === undefined) return path;
  return scope.startsWith('@') ? `${scope}/${name}` : scope;
}

/**
 * Imports that dependency-cruiser overlooks: it keeps one of an import and an import() of the same file, and cannot know
 * the target of an import() that is computed.
 */
function unseenImports(
  file: string,
  imports: readonly WrittenImport[],
  modules: ICruiseResult['modules'],
): Violation[] {
  const dependencies = modules.find(({ source }) => source === file)?.dependencies ?? [];
  // The module of `node:fs` is fs, that of `node:test` is node:test.
  const seen = new Set(
    dependencies.flatMap(({ module, protocol, dynamic }) => [
      `${module} ${dynamic}`,
      `${protocol}${module} ${dynamic}`,
    ]),
  );
  return imports.flatMap(({ specifier, dynamic }) => {
    if (specifier === undefined) {
      const rule = 'no-computed-import';
      return MAY_COMPUTE_IMPORTS.some(contains(file)) ? [] : { rule, from: file, text: `${rule}: ${file}` };
    }
    if (seen.has(`${specifier} ${dynamic}`)) return [];
    return { rule: 'no-unseen-import', from: file, text: `no-unseen-import: ${file} -> ${specifier}` };
  });
}
