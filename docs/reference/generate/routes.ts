/**
 * The lists of routes, made of the files of lib/http that declare one. Functions import what answers, all else the declarations. Files
 * keep the order that they have in the list, which is that of the documents; new ones come last.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { Declaration } from '../../../lib/openapi/declaration.ts';

const HTTP = new URL('../../../lib/http/', import.meta.url);
const FOLDER = 'routes/lists/';
const HEAD = '/** Written by `npm run docs` from the files of lib/http that declare a route. */';

/** The functions by the bundle in which they are. */
const BUNDLES = { predict: ['predict'], predictions: ['submit', 'predictions'], status: ['status'] } as const;

interface RouteFile {
  readonly name: string;
  /** As the lists import it. */
  readonly from: string;
  readonly declaration: Declaration;
}

export async function declarationsModule(): Promise<string> {
  const files = await routeFiles();
  const list = files.map(({ name }) => `  ${name},\n`).join('');
  return `${HEAD}
import type { Declaration } from '../../../openapi/declaration.ts';
${importsOf('declaration', files)}
export const DECLARATIONS: readonly Declaration[] = [\n${list}];\n`;
}

/**
 * One for each bundle, which would otherwise have the parts that routes of another load at their first request. HEAD is answered as GET
 * is, so it has no line.
 */
export async function handlesModule(bundle: keyof typeof BUNDLES): Promise<string> {
  const functions: readonly (string | undefined)[] = BUNDLES[bundle];
  const files = (await routeFiles()).filter(({ declaration }) => functions.includes(declaration.function));
  const lines = files
    .flatMap(({ name, declaration }) => declaration.routes.map((key) => ({ name, key })))
    .filter(({ key }) => !key.startsWith('HEAD '))
    .map(({ name, key }) => `  '${key}': ${name},\n`);
  return `${HEAD}\n${importsOf('handle', files)}\nexport const HANDLES = {\n${lines.join('')}};\n`;
}

async function routeFiles(): Promise<readonly RouteFile[]> {
  const list = readFileSync(new URL(`${FOLDER}declarations.ts`, HTTP), 'utf8');
  const placeOf = ({ name }: RouteFile) => {
    const place = list.indexOf(`\n  ${name},`);
    return place < 0 ? list.length : place;
  };
  const paths = readdirSync(HTTP, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .filter((path) => /^export const declaration\b/m.test(readFileSync(new URL(path, HTTP), 'utf8')));
  const files = await Promise.all(
    paths.sort().map(async (path): Promise<RouteFile> => {
      const { declaration } = (await import(new URL(path, HTTP).href)) as Pick<RouteFile, 'declaration'>;
      return { name: nameOf(path), from: fromFolder(path), declaration };
    }),
  );
  return files.toSorted((a, b) => placeOf(a) - placeOf(b));
}

/** `routes/ready.ts` is ready, `open-inference/route.ts` openInference. */
function nameOf(path: string): string {
  const words = path.replace(/^routes\//, '').replace(/(\/route)?\.ts$/, '');
  return words.replaceAll(/[-/](\w)/g, (_, letter: string) => letter.toUpperCase());
}

function fromFolder(path: string): string {
  const from = posix.relative(FOLDER, path);
  return from.startsWith('.') ? from : `./${from}`;
}

function importsOf(exported: string, files: readonly RouteFile[]): string {
  // As the formatter sorts imports: other folders first.
  const sorted = files
    .toSorted((a, b) => (a.from < b.from ? -1 : 1))
    .map(({ name, from }) => {
      return `import { ${exported} as ${name} } from '${from}';\n`;
    });
  return sorted.join('');
}
