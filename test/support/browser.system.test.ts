/** The browser of the tests sees what is wrong with a page. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessibilityProblems, NO_BROWSER, openPage, startBrowser } from './browser.ts';

test('an image without a text and an error of a script are reported', { skip: NO_BROWSER }, async (t) => {
  const { page, problems } = await openPage(await startBrowser(t));
  const start = '<!doctype html><html lang="en"><title>A</title><main><h1>A</h1>';
  await page.setContent(`${start}<img src="data:,"><script>throw new Error('planted')</script>`);
  assert.match((await accessibilityProblems(page)).join('\n'), /^image-alt: <img/m);
  assert.match(problems.join('\n'), /planted/);
  await page.setContent(start);
  assert.deepEqual(await accessibilityProblems(page), []);
});
