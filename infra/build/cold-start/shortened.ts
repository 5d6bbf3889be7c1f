/** Shortens files of packages to what the functions use: 217 kB of predict's code, 10 ms of a start that loads ioredis. */
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Plugin } from 'esbuild';

interface Shortening {
  /** Of the file's path. */
  readonly filter: RegExp;
  readonly shorten: (text: string, root: string) => string;
}

/** Files of the AWS SDK of which the functions use little. Together they were 67 of 244 kB zipped, in more files. */
export const SHORTENED: readonly Shortening[] = [
  {
    // Lambda passes credentials in variables, which are the first that the SDK's chain of ways to sign in looks at.
    filter: /credential-provider-node[\\/]dist-es[\\/]index\.js$/,
    shorten: () => "export { fromEnv as defaultProvider } from '@aws-sdk/credential-provider-env';",
  },
  {
    // For S3 Select only.
    filter: /core[\\/]dist-es[\\/]submodules[\\/]event-streams[\\/]index\.js$/,
    shorten: () =>
      'export const resolveEventStreamSerdeConfig = (config) => config, eventStreamSerdeProvider = undefined, EventStreamSerde = undefined;',
  },
  {
    // A computed key could run code, so the bundler would keep every operation that has one.
    filter: /@aws-sdk[\\/].*[\\/]schemas_0\.js$/,
    shorten: (text) => {
      // Packaging runs on Node 20 too, where iterators have no `map`.
      const names = new Map(
        Array.from(text.matchAll(/^const (\w+) = ("[^"]*");$/gm), ([, name, value]) => [name, value]),
      );
      return text.replaceAll(/\[(_\w+)\]:/g, (key, name: string) => `${names.get(name) ?? key}:`);
    },
  },
  {
    // ioredis makes two methods of each of the 301 commands, at every start.
    filter: /@ioredis[\\/]commands[\\/]built[\\/]commands\.json$/,
    shorten(text, root) {
      const lib = join(root, 'lib');
      const ioredis = dirname(createRequire(join(lib, 'package.json')).resolve(REDIS_CLIENT));
      const words = new Set([...wordsIn(join(lib, 'redis'), '.ts'), ...wordsIn(ioredis, '.js')]);
      return JSON.stringify(
        Object.fromEntries(Object.entries(JSON.parse(text)).filter(([name]) => words.has(name))),
      );
    },
  },
  {
    // The clients ask for their version.
    filter: /@aws-sdk[\\/][^\\/]+[\\/]package\.json$/,
    shorten: (text) => JSON.stringify({ version: (JSON.parse(text) as { version: string }).version }),
  },
];

const REDIS_CLIENT = 'ioredis';

/** A command that is called, or named in a text, is among the words of the code. */
function wordsIn(folder: string, extension: string): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith(extension),
  );
  return files.flatMap((file) => readFileSync(join(folder, file), 'utf8').match(/\b[a-z]+\b/g) ?? []);
}

export const shortened = (root: string): Plugin => ({
  name: 'shortened',
  setup(bundler) {
    for (const { filter, shorten } of SHORTENED) {
      bundler.onLoad({ filter }, async ({ path }) => ({
        contents: shorten(await readFile(path, 'utf8'), root),
        loader: path.endsWith('.json') ? 'json' : 'js',
      }));
    }
  },
});
