/** Jobs over files in the console of a running service, in a real browser. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { ACTION_HEADER } from '../../console/api.ts';
import { partName, unitName } from '../../lib/jobs/cover.ts';
import { JobPlace } from '../../local/console/job-place.ts';
import type { Stack } from '../../local/service/stack.ts';
import { accessibilityProblems, NO_BROWSER, openPage, startBrowser } from '../support/browser.ts';
import { testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const REQUEST = JSON.stringify({ input: 's3://data/in/', output: 's3://data/out/' });

describe('jobs over files in the console', { skip: NO_BROWSER }, () => {
  const closers: (() => Promise<void>)[] = [];
  const hooks = { after: (close: () => Promise<void>) => closers.unshift(close) };
  let stack: Stack;
  let browser: Browser;
  let place: JobPlace;
  before(async () => {
    stack = await testStack(hooks);
    place = new JobPlace(stack.aws.s3, stack.bucket, stack.job, true);
    browser = await startBrowser(hooks);
  });
  after(async () => {
    for (const close of closers) await close();
  });

  interface Made {
    readonly rows: number;
    readonly total?: number;
    readonly files?: number;
    readonly failure?: string;
  }

  /** The objects of a job that runs, without a function: its progress was never saved. */
  async function job(id: string, { rows, total, files = 2, failure }: Made): Promise<void> {
    const { manifest, begun, ends, parts, failed } = place.keys(id);
    await place.objects.put(manifest, REQUEST);
    const facts = { units: files, known: {}, bytes: 9, files, startedAt: '2026-11-29T00:00:00.000Z' };
    await place.objects.put(begun, JSON.stringify(facts));
    await place.objects.put(`${parts}${partName({ unit: 0, row: 0, rows, errors: 7, ms: 900 })}`, '{}\n');
    const units = total === undefined ? [] : Array.from({ length: files }, (_, unit) => unitName(unit));
    for (const unit of units) await place.objects.put(`${ends}${unit}-${Number(total) / files}`, '');
    if (failure !== undefined)
      await place.objects.put(failed, JSON.stringify({ error: failure, code: 'conflict' }));
  }

  const cancel = (id: string, headers: Record<string, string> = { [ACTION_HEADER]: '1' }) =>
    fetch(`${stack.url}/console/api/cancel`, { method: 'POST', headers, body: JSON.stringify({ id }) });

  test('are absent where there are none, and otherwise have their state, rows and errors, and end by a button', async () => {
    const { page, problems } = await openPage(browser, { bypassCSP: true });
    await page.goto(`${stack.url}/#records`);
    await page.getByText('No record has come through the queue yet.').waitFor();
    assert.equal(await page.getByText('Jobs over files').count(), 0);

    await place.objects.put('jobs/serving_stream/in/night.ndjson', '{"image":1}\n');
    await until(async () => (await place.ids()).length === 1);
    const [done = ''] = await place.ids();
    await until(async () => (await place.state(done)).state === 'done');
    await job('a-running', { rows: 500, total: 2_000 });
    await job('b-failed', { rows: 20, total: 2_000, failure: 'in/a.csv was changed' });
    await job('c-counting', { rows: 12_800, files: 1 });
    await page.reload();
    const table = page.getByRole('table');
    await table.waitFor();
    const rows = (await table.getByRole('row').allTextContents()).slice(1);
    assert.match(rows[0] ?? '', new RegExp(`^${done}s3://.*results\\.ndjsondone1 of 1 in 1 file1–$`));
    assert.match(rows[2] ?? '', /^b-failedin\/a\.csv was changedfailed20 of 2,000 in 2 files7–$/);
    assert.match(rows[1] ?? '', /^c-countingrunning12,800 rows answered so far in 1 file7–Cancel$/);
    assert.match(rows[3] ?? '', /^a-runningrunning500 of 2,000 in 2 files7–Cancel$/);
    const bar = '[aria-label="Rows of a-running"]';
    assert.equal(await page.evaluate<number>(`document.querySelector('${bar}').position`), 0.25);
    assert.deepEqual(await accessibilityProblems(page), []);

    assert.equal((await cancel('a-running', {})).status, 401);
    assert.equal((await cancel('nothing')).status, 404);
    assert.equal((await cancel(done)).status, 409);
    assert.equal((await place.state('a-running')).state, 'running');
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Cancel a-running' }).click();
    await dialog.getByRole('button', { name: 'Keep it running' }).click();
    assert.equal((await place.state('a-running')).state, 'running');
    await page.getByRole('button', { name: 'Cancel c-counting' }).click();
    await dialog.getByRole('button', { name: 'Cancel the job' }).click();
    const said = dialog.getByRole('status');
    assert.match((await said.textContent()) ?? '', /^Job c-counting is cancelled/);
    assert.equal(await said.locator('code').textContent(), 'cluster-serving job resume c-counting');
    assert.equal(await dialog.getByRole('heading').textContent(), 'Done');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await table.getByText('cancelled', { exact: true }).waitFor();
    assert.equal((await place.state('c-counting')).state, 'cancelled');
    assert.equal(await page.getByRole('progressbar', { name: 'Rows of c-counting' }).count(), 0);

    // A job may end while it is asked about.
    await page.getByRole('button', { name: 'Cancel a-running' }).click();
    await place.cancel('a-running');
    await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
    await dialog.getByText('The job is cancelled: there is nothing to cancel.').waitFor();
    assert.deepEqual(await dialog.getByRole('button').allTextContents(), ['Close']);
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test('fit a small screen', async () => {
    await job('d-running', { rows: 500, total: 2_000 });
    const opened = await openPage(browser, { viewport: { width: 390, height: 844 }, bypassCSP: true });
    await opened.page.goto(`${stack.url}/#records`);
    await opened.page.getByRole('table').waitFor();
    const width = await opened.page.evaluate<number>('document.documentElement.scrollWidth');
    assert.ok(width <= 390, `${width}`);
    const table = await opened.page.evaluate<number>(`document.querySelector('.jobs').scrollWidth`);
    assert.ok(table <= 366, `${table}: the rest of the table is hidden`);
    const { x = 999, width: wide = 0 } =
      (await opened.page.getByRole('button', { name: 'Cancel d-running' }).boundingBox()) ?? {};
    assert.ok(x + wide <= 390, `the button ends at ${x + wide}`);
    assert.deepEqual(await accessibilityProblems(opened.page), []);
    await opened.page.context().close();
  });
});
