/** A nightly run of the bench: which rows moved, and which commit moved them. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { movedRows } from '../../bench/nightly/moved.ts';
import { findCommit } from '../../bench/nightly/search.ts';
import type { Line, Report } from '../../bench/report.ts';
import { temporaryFolder } from '../support/runner.ts';
import { ROOT } from '../support/start.ts';

const spread = (median: number, low = median, high = median) => ({ median, low, high });
const line = (name: string, value: ReturnType<typeof spread>) => ({
  scenario: 'cold',
  name,
  metric: 'first answer',
  unit: 'ms',
  value,
});
const MACHINE = {
  cpu: 'a cpu',
  cores: 2,
  memoryGiB: 24,
  node: 'v24',
  onnxruntime: '1.30.0',
  commit: 'none',
  command: 'npm run bench',
  startedAt: '2026-11-29T00:00:00.000Z',
  loadBefore: 0,
  pinning: '',
};
const report = (lines: readonly Line[], machine = {}): Report => ({
  machine: { ...MACHINE, ...machine },
  loadAfter: 0,
  seconds: 1,
  models: [],
  peers: {},
  lines,
});

describe('the rows that moved', () => {
  const moved = (before: ReturnType<typeof spread>, now: ReturnType<typeof spread>) =>
    movedRows(report([line('a', before)]), report([line('a', now)])).length > 0;

  test('are those whose repeats have no value in common, up or down', () => {
    assert.equal(moved(spread(100, 90, 110), spread(130, 111, 140)), true);
    assert.equal(moved(spread(100, 90, 110), spread(130, 110, 140)), false);
    assert.equal(moved(spread(100, 90, 110), spread(80, 70, 89)), true);
    assert.equal(moved(spread(100, 90, 110), spread(80, 70, 90)), false);
  });

  test('are none that changed by less than a twentieth, however still both runs were', () => {
    assert.equal(moved(spread(100), spread(104.9)), false);
    assert.equal(moved(spread(100), spread(105)), true);
  });

  test('are found by scenario, case, metric and unit; what only one run has is not compared', () => {
    const skipped = { scenario: 'cold', name: 'b', skipped: 'no peer' };
    const before = report([line('a', spread(1)), skipped, line('gone', spread(1))]);
    const now = report([line('a', spread(2)), line('b', spread(9)), { ...line('a', spread(5)), unit: 'MB' }]);
    assert.deepEqual(
      movedRows(before, now).map(({ row, now: value }) => [row.name, row.unit, value.median]),
      [['a', 'ms', 2]],
    );
  });

  test('are not looked for between two machines, versions of Node or of onnxruntime', () => {
    for (const other of [{ cpu: 'another' }, { cores: 4 }, { node: 'v26' }, { onnxruntime: '2' }])
      assert.throws(() => movedRows(report([]), report([], other)), /cannot be compared: \w+ was .* and is/);
  });
});

describe('the commit that moved a row', () => {
  const commits = Array.from({ length: 40 }, (_, i) => `c${i}`);
  const placeOf = (commit: string) => Number(commit.slice(1));
  const sides = { before: spread(100), now: spread(200) };

  test('is found wherever it is, by measuring six of forty', async () => {
    for (const culprit of commits) {
      let measured = 0;
      const found = await findCommit(commits, sides, async (commit) => {
        measured++;
        return placeOf(commit) >= placeOf(culprit) ? 190 : 110;
      });
      assert.deepEqual(found, [culprit]);
      assert.ok(measured <= 6, `${measured} were measured`);
    }
  });

  test('is one of several where those between cannot be measured', async () => {
    const broken = new Set(['c10', 'c11', 'c12']);
    const found = await findCommit(commits, sides, async (commit) => {
      if (broken.has(commit)) return undefined;
      return placeOf(commit) >= 12 ? 200 : 100;
    });
    assert.deepEqual(found, ['c10', 'c11', 'c12', 'c13']);
    assert.deepEqual(await findCommit(commits, sides, async () => undefined), commits);
  });

  test('is none where there is none', async () => {
    assert.deepEqual(await findCommit([], sides, () => assert.fail('nothing is measured')), []);
  });
});

/** Stands for the bench of a repository: its number is in a file. */
const BENCH = `import { readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
const median = Number(readFileSync('ms.txt', 'utf8'));
if (Number.isNaN(median)) throw new Error('this commit has no bench');
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
const value = { median, low: median - 1, high: median + 1 };
const row = { scenario: process.argv[2], name: 'a', metric: 'first answer', unit: 'ms', value };
const machine = { ...${JSON.stringify(MACHINE)}, commit };
const report = { machine, loadAfter: 0, seconds: 1, models: [], peers: {}, lines: [row] };
writeFileSync(process.argv.at(-1), JSON.stringify(report));
`;

test('a nightly run saves itself, and names the commit that moved a row since the one before, once', async (t) => {
  const folder = await temporaryFolder(t);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=n', '-c', 'user.email=n@example.com', ...args], { cwd: folder });
  const commit = async (message: string, ms: string) => {
    await writeFile(join(folder, 'ms.txt'), ms);
    git('add', '-A');
    git('commit', '--quiet', '--allow-empty', '-m', message);
  };
  const last = join(await temporaryFolder(t), 'bench', 'last.json');
  const nightly = () => {
    const args = [join(ROOT, 'bench/nightly/run.ts'), '--last', last, 'cold'];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
    return { status, text: stdout + stderr };
  };
  git('init', '--quiet');
  await mkdir(join(folder, 'bench'));
  await writeFile(join(folder, 'bench', 'run.ts'), BENCH);
  const lock = {
    name: 'n',
    version: '1.0.0',
    lockfileVersion: 3,
    packages: { '': { name: 'n', version: '1.0.0' } },
  };
  await writeFile(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'n', version: '1.0.0', type: 'module' }),
  );
  await writeFile(join(folder, 'package-lock.json'), JSON.stringify(lock));
  await commit('first', '100');
  assert.deepEqual(nightly(), { status: 0, text: `${last}: the first run is saved\n` });
  await commit('docs: a word', '100');
  await commit('lib: it is broken here', 'none');
  await commit('lib: a slower way', '150');
  await commit('docs: another word', '151');
  const found = nightly();
  assert.equal(found.status, 1, found.text);
  assert.match(found.text, /\| cold +\| a +\| first answer \| 100 ms .* 151 ms .* 1\.51 x \|/);
  assert.match(found.text, /one of 2 commits, \w+ lib: it is broken here to \w+ lib: a slower way/);
  assert.equal(git('worktree', 'list').toString().trim().split('\n').length, 1, 'no work tree is left');
  assert.match(nightly().text, /^no row of 1 moved since \w+\n$/);
  await writeFile(last, (await readFile(last, 'utf8')).replace('a cpu', 'another cpu'));
  const other = nightly();
  assert.deepEqual([other.status, /cpu was another cpu and is a cpu/.test(other.text)], [2, true]);
});
