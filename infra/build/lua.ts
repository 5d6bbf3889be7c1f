/**
 * Makes lib/redis/scripts/generated.ts of the Lua files beside it (`npm run build:lua`): one module that sources, bundles and both
 * kinds of npm packages read. Comments and indentation are left out, because each cold start and each new Redis gets the texts.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const FOLDER = new URL('../../lib/redis/scripts/', import.meta.url);
export const GENERATED = new URL('generated.ts', FOLDER);
const INCLUDE = /^-- @include (includes\/[\w-]+\.lua)$/;

/** @param name of a file. @returns its code, with that of its includes */
export function readScript(name: string): string {
  const lines = readFileSync(new URL(name, FOLDER), 'utf8').split('\n');
  const code = lines.flatMap((line) => {
    const include = INCLUDE.exec(line)?.[1];
    if (include !== undefined) return readScript(include);
    const text = line.trim();
    return text === '' || text.startsWith('--') ? [] : text;
  });
  return code.join('\n');
}

export function generate(): string {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.lua'));
  const constants = names.sort().map((name) => {
    const constant = name.slice(0, -'.lua'.length).toUpperCase().replaceAll('-', '_');
    return `\nexport const ${constant} =\n  ${JSON.stringify(readScript(name))};\n`;
  });
  return `/** The Lua files of this folder. Written by \`npm run build:lua\`. */\n${constants.join('')}`;
}

if (import.meta.main) writeFileSync(GENERATED, generate());
