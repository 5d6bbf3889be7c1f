/** Links into the console, and the list of records as a file, in a real browser in front of a real service. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import type { RecentRecords } from '../../console/api.ts';
import type { Stack } from '../../local/service/stack.ts';
import { NO_BROWSER, openPage, startBrowser } from '../support/browser.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const DIGIT = join(SAMPLE, 'images', 'digit-3.png');
const byText = (one: string, other: string) => (one < other ? -1 : 1);
const URI = 'a "quoted", =1+1 & #? record';

describe('links into the console', { skip: NO_BROWSER }, () => {
  const closers: (() => Promise<void>)[] = [];
  const hooks = { after: (close: () => Promise<void>) => closers.unshift(close) };
  let stack: Stack;
  let browser: Browser;

  before(async () => {
    stack = await testStack(hooks, { config: 'imageResize: 8,8' });
    browser = await startBrowser(hooks);
    const image = (await readFile(DIGIT)).toString('base64');
    for (const uri of [URI, '=1+1'])
      await fetch(`${stack.url}/predictions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ uri, instances: [{ image }] }),
      });
    await until(async () => (await listed()).length === 2);
  });
  after(async () => {
    for (const close of closers) await close();
  });

  const listed = async () =>
    ((await (await fetch(`${stack.url}/console/api/records`)).json()) as RecentRecords).records;

  /** Returns the page at an address, which may read what it copied. */
  async function open(address = `${stack.url}/console`) {
    const opened = await openPage(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
    await opened.page.goto(address);
    return opened;
  }
  const COPIED = 'navigator.clipboard.readText()';

  test('a link to a record shows its result, also when it is not among those that are listed', async () => {
    const { page, problems } = await open(`${stack.url}/console#records`);
    const row = page.locator('.rows li').filter({ hasText: URI });
    await row.locator('summary').click();
    await row.getByRole('button', { name: /link to this record/ }).click();
    const link = await page.evaluate<string>(COPIED);
    await page.route('**/console/api/records', (route) => route.fulfill({ json: { records: [] } }));
    await page.goto('about:blank');
    await page.goto(link);
    const card = page.locator('.card').filter({ hasText: 'Linked record' });
    await card.getByText(URI, { exact: true }).waitFor();
    await card.getByText('"status": "succeeded"').waitFor();
    await card.getByRole('link', { name: 'Close' }).click();
    await card.waitFor({ state: 'detached' });
    // By its uri alone, the last enqueue.
    await page.goto(`${stack.url}/console#records?uri=${encodeURIComponent(URI)}`);
    await card.getByText('"status": "succeeded"').waitFor();
    assert.doesNotMatch((await card.textContent()) ?? '', /, identity/);
    assert.deepEqual(problems, []);
    await page.context().close();
  });

  test('a link to a filled form fills it and asks nothing, and a damaged one is an empty form', async () => {
    const { page } = await open();
    await page.getByRole('button', { name: 'Give numbers instead' }).click();
    const numbers = JSON.stringify(Array(3).fill(Array(8).fill(Array(8).fill(0.5))));
    await page.locator('textarea').fill(numbers);
    await page.getByRole('button', { name: /link to this form/ }).click();
    const link = await page.evaluate<string>(COPIED);
    await page.context().close();

    const other = await open(link);
    const asked: string[] = [];
    other.page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    assert.equal(await other.page.locator('textarea').inputValue(), numbers);
    assert.deepEqual(
      asked.filter((path) => path.endsWith('/predict')),
      [],
    );
    await other.page.getByRole('button', { name: 'Predict' }).click();
    await other.page.getByText('Answered in').waitFor();
    for (const form of ['{"image"', '[1]', '{"image": 7}', '{"other": {"text": "1"}}']) {
      await other.page.goto(`${stack.url}/console#model?form=${encodeURIComponent(form)}`);
      await other.page.getByRole('button', { name: 'Give numbers instead' }).waitFor();
    }
    assert.deepEqual(other.problems, []);
    await other.page.context().close();
  });

  test('the records that are listed are saved as CSV, and no uri becomes a formula', async () => {
    const { page } = await open(`${stack.url}/console#records`);
    await page.getByLabel('Find a record').fill('=1+1');
    await page.locator('.rows li').nth(1).waitFor();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save as CSV' }).click();
    const text = await readFile(await (await download).path(), 'utf8');
    const [head, ...rows] = text.replace('\ufeff', '').trimEnd().split('\r\n');
    assert.equal(head, 'uri,status,finishedAt (UTC),model,identity,code,error,result');
    assert.deepEqual(
      rows.map((row) => /^("(?:[^"]|"")*"),"succeeded",/.exec(row)?.[1] ?? '').toSorted(byText),
      [`"'=1+1"`, `"${URI.replaceAll('"', '""')}"`].toSorted(byText),
    );
    await page.context().close();
  });
});
