/** Takes the picture of the console that README.md shows: `node docs/how-to/console-picture.ts URL` with the sample's service running. */
import { fileURLToPath } from 'node:url';
import { openPage, startBrowser } from '../../test/support/browser.ts';

const DIGIT = fileURLToPath(new URL('../../examples/digits/images/digit-3.png', import.meta.url));
const OUT = fileURLToPath(new URL('console.png', import.meta.url));

const [url = 'http://localhost:10020'] = process.argv.slice(2);
const closers: (() => unknown)[] = [];
const browser = await startBrowser({ after: (close) => closers.push(close) });
try {
  const { page } = await openPage(browser, { viewport: { width: 1100, height: 620 } });
  await page.goto(`${url}/console`);
  await page.locator('input[type=file]').setInputFiles(DIGIT);
  await page.locator('.bars li').first().waitFor();
  // The second answer, which loads nothing any more.
  await page.getByRole('button', { name: 'Predict' }).click();
  await page.waitForTimeout(1_000);
  await page.screenshot({ path: OUT });
} finally {
  for (const close of closers) await close();
}
