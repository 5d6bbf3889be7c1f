/** The text of lib/config/defaults.ts: what the settings of schema.ts are without a config.yaml. */
import type { SettingDefinition } from '../../../lib/config/readers.ts';
import { GROUPS } from '../../../lib/config/schema.ts';

const HEAD = `/** The defaults of schema.ts without its texts, for functions. \`npm run docs\` writes this file. */
// biome-ignore-all format: one line for each group
export const DEFAULTS = {`;

export function defaultsModule(): string {
  const { '': top, ...groups } = GROUPS;
  const defaults = defaultsOf(top);
  for (const [name, group] of Object.entries(groups)) defaults[name] = defaultsOf(group);
  const lines = Object.entries(defaults).map(([name, value]) => `  ${name}: ${JSON.stringify(value)},`);
  return [HEAD, ...lines, '} as const;\n'].join('\n');
}

function defaultsOf(group: Readonly<Record<string, SettingDefinition<unknown>>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(group).flatMap(([key, { defaultValue }]) =>
      defaultValue === undefined ? [] : [[key, defaultValue] as const],
    ),
  );
}
