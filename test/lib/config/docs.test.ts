/** docs/reference/config.md says what the code does: every setting with default and range, every old key with its outcome. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { LEGACY, type LegacyKey } from '../../../lib/config/legacy.ts';
import { SETTINGS } from '../../../lib/config/schema.ts';
import { parseConfig } from '../../support/config.ts';

const DOC = new URL('../../../docs/reference/config.md', import.meta.url);

async function section(heading: string): Promise<string> {
  const doc = await readFile(DOC, 'utf8');
  const start = doc.indexOf(`## ${heading}\n`);
  assert.notEqual(start, -1, heading);
  const end = doc.indexOf('\n## ', start);
  return doc.slice(start, end === -1 ? undefined : end);
}

interface Row {
  readonly paths: readonly string[];
  readonly fallback: string;
  readonly values: string;
}

async function settingRows(): Promise<Row[]> {
  const table = await section('Settings');
  return [...table.matchAll(/^\| (`.*?`) \| (.*?) \| (.*?) \| .*\|$/gm)].map(
    ([, keys, values, fallback]) => ({
      paths: [...(keys as string).matchAll(/`([\w.]+)`/g)].map((match) => match[1] as string),
      fallback: (fallback as string).replaceAll(/[`,]/g, ''),
      values: values as string,
    }),
  );
}

function configOf(path: string, value: number): string {
  const [outer, inner] = path.split('.') as [string, string?];
  // What the rules between keys ask for.
  const besides: Readonly<Record<string, string>> = {
    'queue.batchSize': ', windowSeconds: 1',
    'queue.recordTtlSeconds': ', retentionSeconds: 1209600',
  };
  const beside = besides[path] ?? '';
  if (inner === undefined) return `${outer}: ${value}`;
  if (inner === 'width' || inner === 'height') return `image: {width: ${value}, height: ${value}}`;
  return `${outer}: {${inner}: ${value}${beside}}`;
}

test('every setting has one row in the settings table, and every row is a setting', async () => {
  const told = (await settingRows()).flatMap(({ paths }) => paths);
  assert.deepEqual(told.toSorted(), [...SETTINGS.keys()].toSorted());
});

test('the defaults of the settings table are those of the code', async () => {
  let checked = 0;
  for (const { paths, fallback } of await settingRows()) {
    for (const path of paths) {
      const value = path
        .split('.')
        .reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], DEFAULT_JOB);
      if (value === undefined) continue;
      const shown =
        value === '' || (Array.isArray(value) && value.length === 0)
          ? 'none'
          : JSON.stringify(value).replaceAll('"', '');
      assert.equal(fallback, shown, path);
      checked++;
    }
  }
  assert.ok(checked >= 18, String(checked));
});

test('a range of the settings table is accepted at both ends and refused beyond', async () => {
  let checked = 0;
  for (const { paths, values } of await settingRows()) {
    const range = /^whole number from (\d+) to (\d+)/.exec(values);
    if (!range) continue;
    const [least, most] = [range[1], range[2]].map(Number) as [number, number];
    for (const path of paths) {
      for (const value of [least, most]) parseConfig(configOf(path, value), path);
      for (const value of [least - 1, most + 1])
        assert.throws(
          () => parseConfig(configOf(path, value), path),
          { code: 'bad_config' },
          `${path}: ${value}`,
        );
      checked++;
    }
  }
  assert.ok(checked >= 15, String(checked));
});

function rowOf(key: string, rule: LegacyKey): string {
  if (rule.outcome === 'refused') return `| \`${key}\` | refused when true | ${rule.text} |`;
  if (rule.outcome === 'replaced') return `| \`${key}\` | replaced | ${rule.text} |`;
  const sets = rule.sets.split(', ').map((path) => `\`${path}\``);
  return `| \`${key}\` | works | ${sets.join(', ')}: ${rule.text} |`;
}

test('every old key has its row in the table of old keys, word by word, and no row is left over', async () => {
  const rows = (await section('Coming from Cluster Serving'))
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  assert.deepEqual(
    rows,
    [...LEGACY].map(([key, rule]) => rowOf(key, rule)),
  );
});

test('the message that the page shows is the message that comes', async () => {
  const shown = /```\n(config\.yaml:\n[\s\S]*?)\n```/.exec(await readFile(DOC, 'utf8'))?.[1];
  assert.throws(() => parseConfig('\n\nbatchSize: 0\njobNmae: x\n', 'config.yaml'), { message: shown });
});
