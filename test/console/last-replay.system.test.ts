/** The last replay in the console: the report of `model replay` as a picture, in a real browser. */
import assert from 'node:assert/strict';

import { test } from 'node:test';
import type { Part } from '../../console/api.ts';
import type { CaptureFacts, ReplayFacts } from '../../console/captures.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { warmCli, warmCliJson } from '../cli/warm.ts';
import { accessibilityProblems, NO_BROWSER, openPage, startBrowser } from '../support/browser.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const HOSTILE = '<img src=x onerror="document.title=1">';
const REQUESTS = 12;

test('the report of a replay is shown by class, by distance and by the worst records, and a purge removes it', {
  skip: NO_BROWSER,
}, async (t) => {
  const stack = await testStack(t, { config: 'imageResize: 8,8\ncapture: {share: 1}' });
  const cwd = await temporaryFolder(t);
  const options = { env: stack.aws.environment, cwd };
  const where = ['--bucket', stack.bucket, '--job', stack.job];
  const shown = async () =>
    (await fetch(`${stack.url}/console/api/captures`)).json() as Promise<CaptureFacts>;
  assert.match(JSON.stringify((await shown()).replay), /model replay.*is shown here/);

  const pixels = (i: number) =>
    Array.from({ length: 3 }, (_, c) =>
      Array.from({ length: 8 }, (__, y) =>
        Array.from({ length: 8 }, (___, x) => ((i * 7 + c + 8 * y + x) % 17) / 16),
      ),
    );
  for (let i = 0; i < REQUESTS; i++) {
    const body = JSON.stringify({ instances: [{ image: pixels(i) }] });
    assert.equal((await fetch(`${stack.url}/predict`, { method: 'POST', body })).status, 200);
  }
  const replay = () => warmCliJson(['model', 'replay', ...where], options);
  await until(async () => ((await replay()).json as { compared?: number }).compared === REQUESTS);
  const { replay: found } = await shown();
  assert.ok('outputs' in found);
  assert.deepEqual([found.compared, found.flips, found.problems], [REQUESTS, 0, []]);
  const counted = (found.outputs[0]?.classes ?? []).reduce((sum, { before }) => sum + before, 0);
  assert.equal(counted, REQUESTS);
  assert.equal(found.outputs[0]?.distribution[0]?.records, REQUESTS);

  const captures = new CaptureReader(stack.aws.s3, stack.bucket, { job: stack.job });
  const hostile: ReplayFacts = {
    ...found,
    flips: 1,
    problems: ['too many flips'],
    worst: [{ id: HOSTILE, at: 0, output: 'probabilities', distance: 0.25 }],
  };
  await captures.putReport(JSON.stringify(hostile));
  const browser = await startBrowser(t);
  for (const viewport of [
    { width: 390, height: 844 },
    { width: 1280, height: 900 },
  ]) {
    const { page, problems } = await openPage(browser, { viewport, bypassCSP: true });
    await page.goto(`${stack.url}/console#versions`);
    const card = page.locator('section', { has: page.getByRole('heading', { name: 'Last replay' }) });
    await card.getByText('not good').waitFor();
    const classes = card.getByRole('list', { name: /^probabilities: records by first class/ });
    assert.equal(await classes.locator('li').count(), found.outputs[0]?.classes?.length);
    assert.doesNotMatch((await card.textContent()) ?? '', /999/);
    const distances = card.getByRole('list', { name: /^probabilities: records by distance/ });
    assert.equal(await distances.locator('li').first().textContent(), `the same${REQUESTS}`);
    assert.match((await card.getByRole('row').nth(1).textContent()) ?? '', /^<img src=x .*25\.0 %$/);
    assert.deepEqual(await accessibilityProblems(page), []);
    assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true);
    assert.deepEqual(problems, []);
    await page.context().close();
  }
  await captures.putReport('{"form":2}');
  assert.match(JSON.stringify((await shown()).replay), /written by another release/);
  const purged = await warmCli(['capture', 'purge', '--yes', ...where], options);
  assert.equal(purged.code, 0, purged.stderr);
  const after: Part<ReplayFacts> = (await shown()).replay;
  assert.match(JSON.stringify(after), /model replay.*is shown here/);
});
