/** A replay that was stopped, anywhere, goes on where it was, and its report is that of one that was not. */
import assert from 'node:assert/strict';
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { Progress, type ProgressOptions } from '../../../release/replay/progress.ts';
import { type ReplayRun, runReplay } from '../../../release/replay/run.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { CLASSES, capture, JOB, job, model } from './made-day.ts';

type Side = Awaited<ReturnType<typeof model>>;

const HEAD = '{"head":1}';
const FAILS = `{"at":1,"source":"request","id":"b","error":"bad_input","records":[{"inputs":{"x":[1]}}]}`;
const HUGE = `{"at":1,"source":"request","id":"c","records":[{"inputs":{"x":[1,2,3,4,5,6,7,8]},"outputs":[{"name":"p","dtype":"float32","shape":[4],"data":["Infinity",0,0,0]}]}]}`;

describe('the progress of a replay', () => {
  const hooks: (() => unknown)[] = [];
  const scope: Hooks = { after: (hook) => void hooks.push(hook) };
  let folder: string;
  let captures: string;
  let first: Side;
  let worse: Side;

  before(async () => {
    folder = await temporaryFolder(scope);
    captures = join(folder, 'captures.ndjson');
    first = await model(join(folder, 'first'));
    worse = await model(join(folder, 'worse'), {
      weight: (value, i) => (i % CLASSES === 0 ? -value : value),
    });
    await capture(captures, first, job());
    await appendFile(captures, `${FAILS}\n${HUGE}\n`);
  });

  const replay = (side: Side, options: Partial<ReplayRun> = {}) =>
    runReplay({
      ...side,
      version: undefined,
      job: job(),
      captured: { job: JOB },
      captures,
      by: undefined,
      ...options,
    });
  const journal = async (name: string, text: string) => {
    const progress = join(folder, name);
    await writeFile(progress, text);
    return progress;
  };

  test('does not depend on where a replay was stopped, even within a line', async () => {
    const whole = await replay(worse);
    assert.ok(whole.flips > 10);
    const progress = await journal('whole.ndjson', HEAD);
    assert.deepEqual(await replay(worse, { progress }), whole);
    const text = await readFile(progress, 'utf8');
    assert.ok(text.split('\n').length > 10);
    for (let at = HEAD.length; at <= text.length; at += Math.ceil(text.length / 40)) {
      const stopped = await journal('stopped.ndjson', text.slice(0, at));
      assert.deepEqual(await replay(worse, { progress: stopped }), whole, `stopped after ${at} characters`);
      assert.equal(await readFile(stopped, 'utf8'), text);
    }
  });

  test('is not asked again', async () => {
    const progress = await journal('asked.ndjson', HEAD);
    const whole = await replay(worse, { progress });
    assert.deepEqual(await replay(first, { progress }), whole);
  });

  test('of another runtime is asked again', async () => {
    const progress = await journal('runtime.ndjson', HEAD);
    await replay(worse, { progress });
    const text = await readFile(progress, 'utf8');
    await writeFile(progress, text.replace('"threads":1', '"threads":2'));
    assert.deepEqual(await replay(first, { progress }), await replay(first));
  });

  test('is found by its question for a day, and dropped for other captures', async () => {
    const notes: string[] = [];
    const options = (more: Partial<ProgressOptions> = {}): ProgressOptions => ({
      folder: join(folder, 'replays'),
      question: { model: 'a' },
      isFresh: false,
      onNote: (note) => notes.push(note),
      ...more,
    });
    const window = { since: 5, until: 1_000 };
    const head = { ...window, captures: 'digest' };
    const begun = await Progress.find(options(), 1_000);
    assert.equal(begun.window, undefined);
    assert.equal(await begun.begin('digest', window), true);
    await appendFile(begun.file, '\nfound');
    const later = await Progress.find(options(), 9_000);
    assert.deepEqual(later.window, head);
    assert.equal(await later.begin('digest', { since: 13, until: 9_000 }), true);
    assert.match(await readFile(later.file, 'utf8'), /\nfound$/);
    assert.match(notes.join(), /^the replay that was started at 1970-01-01 00:00:01 goes on; --fresh/);
    for (const [more, now] of [
      [{ question: { model: 'b' } }, 9_000],
      [{ isFresh: true }, 9_000],
      [{}, 1_000 + 86_400_000],
    ] as const)
      assert.equal((await Progress.find(options(more), now)).window, undefined);
    const purged = await Progress.find(options(), 9_000);
    assert.equal(await purged.begin('other', window), false);
    assert.equal(purged.window, undefined);
    assert.equal(await purged.begin('other', window), true);
    assert.doesNotMatch(await readFile(purged.file, 'utf8'), /found/);
    assert.match(notes.at(-1) ?? '', /^the captures are others/);
    await purged.end();
    assert.equal((await Progress.find(options(), 9_000)).window, undefined);
  });
});
