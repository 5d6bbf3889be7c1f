/** Leaves out packages that no function uses: 78 kB of predict's code, 7 ms of a start that loads ioredis. */
import type { Plugin } from 'esbuild';

/** Packages that no function uses, with their replacements. */
export const UNUSED: Readonly<Record<string, string>> = {
  // The AWS SDK's detection of browsers: 7 kB zipped.
  bowser: 'export const parse = undefined;',
  // Reads DEBUG and detects colours each time that ioredis is loaded.
  debug: 'exports.default = () => Object.assign(() => undefined, { enabled: false });',
  // The client of clusters in ioredis, which names itself only; lib/redis/cluster takes its place.
  './cluster': 'exports.default = undefined;',
};

export const unused: Plugin = {
  name: 'unused',
  setup(bundler) {
    const namespace = 'unused';
    const filter = new RegExp(`^(${Object.keys(UNUSED).join('|').replaceAll('.', '\\.')})$`);
    bundler.onResolve({ filter }, ({ path }) => ({ path, namespace }));
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({ contents: UNUSED[path] ?? '' }));
  },
};
