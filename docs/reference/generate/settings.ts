/** The tables of docs/reference/config.md: settings, image presets, environment variables of a function, keys of old configs. */
import { IMAGE_PRESETS } from '../../../lib/config/image-presets.ts';
import { LEGACY, type LegacyKey } from '../../../lib/config/legacy.ts';
import { SETTINGS } from '../../../lib/config/schema.ts';
import { commentsIn } from './comments.ts';
import { code, table, thousands } from './table.ts';

const UNITS: readonly (readonly [ending: RegExp, unit: string])[] = [
  [/Seconds$/, 's'],
  [/Ms$/, 'ms'],
  [/MB$/, 'MB'],
  [/^image\.(width|height)$/, 'pixels'],
  [/^worker\.(\w+Timeout|duration\w+)$/, 'ms'],
];

export function settingsTable(): string {
  const rows = [...SETTINGS].map(([path, { expected, about, byDefault, defaultValue }]) => {
    const values = expected.replace(/^(a|an|the) /, '');
    return [code(path), values, byDefault ?? defaultText(defaultValue), unitOf(path), about, oldKeys(path)];
  });
  return table(['key', 'value', 'default', 'unit', 'meaning', 'old keys'], rows);
}

/** The settings that limit clients. */
export function jobLimitsTable(): string {
  const rows = [...SETTINGS].flatMap(([path, { about, byDefault, defaultValue, above }]) =>
    above === undefined
      ? []
      : [[code(path), byDefault ?? defaultText(defaultValue), unitOf(path), about, above]],
  );
  return table(['setting', 'default', 'unit', 'of what', 'above it'], rows);
}

function unitOf(path: string): string {
  return UNITS.find(([ending]) => ending.test(path))?.[1] ?? '';
}

function defaultText(value: unknown): string {
  if (typeof value === 'number') return thousands(value);
  if (value === '' || (Array.isArray(value) && value.length === 0)) return 'none';
  return code(typeof value === 'string' ? value : JSON.stringify(value));
}

/** Other keys of old files for it. */
function oldKeys(path: string): string {
  const keys = [...LEGACY].filter(([key, rule]) => {
    return key !== path && rule.outcome === 'works' && rule.sets.split(', ').includes(path);
  });
  return keys.map(([key]) => code(key)).join(', ');
}

export function presetsTable(): string {
  const list = (values: readonly number[]) =>
    values.length === 1 ? `${values[0]}` : `[${values.join(', ')}]`;
  const rows = Object.entries(IMAGE_PRESETS).map(([name, { about, channels, scale, mean, std }]) => {
    const shown = scale === 1 ? '1' : `1/${1 / scale}`;
    return [code(name), channels, shown, list(mean), list(std), about];
  });
  return table(['preset', 'channels', 'scale', 'mean', 'std', 'for'], rows);
}

/** @param source text of lib/config/environment.ts */
export function variablesTable(source: string): string {
  const rows = [...commentsIn(source, 'export interface Environment').values()].flatMap((comment) => {
    const names = comment.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g) ?? [];
    const meaning = comment.replace(/: [A-Z_]+(, [A-Z_]+)*\./, '.');
    return names.length === 0 ? [] : [[names.map(code).join(', '), meaning]];
  });
  const read = [...source.matchAll(/'(CLUSTER_SERVING_\w+|POWERTOOLS_\w+)'/g)].map(([, name]) =>
    code(name as string),
  );
  const missing = read.filter((name) => !rows.some(([names]) => names?.includes(name)));
  if (missing.length > 0)
    throw new Error(`lib/config/environment.ts: no comment names ${missing.join(', ')}`);
  return table(['variable', 'meaning'], rows);
}

export function oldKeysTable(): string {
  return table(
    ['old key', '', 'here'],
    [...LEGACY].map(([key, rule]) => [code(key), outcomeOf(rule), textOf(rule)]),
  );
}

function outcomeOf({ outcome }: LegacyKey): string {
  return outcome === 'refused' ? 'refused when true' : outcome;
}

function textOf(rule: LegacyKey): string {
  return rule.outcome === 'works' ? `${rule.sets.split(', ').map(code).join(', ')}: ${rule.text}` : rule.text;
}
