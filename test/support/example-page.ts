/** The page of examples/web in a real browser, for the tests that have the package of its client from different places. */
import assert from 'node:assert/strict';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { accessibilityProblems, openPage, startBrowser } from './browser.ts';
import type { Hooks } from './runner.ts';
import { ROOT } from './start.ts';

const IMAGES = join(ROOT, 'examples/digits/images');

/** Copies the page to where the package is installed. @param service its address */
export async function copyPage(folder: string, service: string): Promise<void> {
  for (const name of ['index.html', 'page.js'])
    await cp(join(ROOT, 'examples/web', name), join(folder, name));
  const page = await readFile(join(folder, 'page.js'), 'utf8');
  assert.match(page, /'http:\/\/localhost:10020'/);
  await writeFile(join(folder, 'page.js'), page.replace('http://localhost:10020', service));
}

/** Chooses and drops pictures of digits, and a file that is none. @param origin of the page @returns the page */
export async function usePage(t: Hooks, origin: string): Promise<Page> {
  const { page, problems } = await openPage(await startBrowser(t));
  await page.goto(`${origin}/`);
  const file = page.getByLabel('Drop a picture here, or choose one:');
  const status = page.getByRole('status');
  await file.setInputFiles(join(IMAGES, 'digit-3.png'));
  await status.getByText('It is most likely a 3.').waitFor();
  assert.match(
    (await page.getByRole('row').allInnerTexts()).join('\n'),
    /^Class\s+Probability\n3\s+100\.0 %\n/,
  );

  const bytes = await readFile(join(IMAGES, 'digit-7.png'), 'base64');
  // As text, because the types of a page are not those of Node.
  const dropped = await page.evaluateHandle(`
    const transfer = new DataTransfer();
    const picture = Uint8Array.from(atob('${bytes}'), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([picture], 'digit-7.png', { type: 'image/png' }));
    transfer`);
  await page.locator('#drop').dispatchEvent('drop', { dataTransfer: dropped });
  await status.getByText('It is most likely a 7.').waitFor();
  assert.deepEqual(await accessibilityProblems(page), []);
  assert.deepEqual(problems, []);

  await file.setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: Buffer.from('no picture') });
  await status.getByText(/expected a JPEG, .* image/).waitFor();
  assert.equal(await page.getByRole('table').count(), 0);
  return page;
}
