/**
 * A real browser: Debian's chromium, driven by playwright-core. A test that needs it is skipped where it is not installed.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import type { Hooks } from './runner.ts';

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

/** The option `skip` of a test: the reason, or false where the browser is there. */
export const NO_BROWSER = existsSync(CHROMIUM)
  ? false
  : `${CHROMIUM} is missing: install the package chromium, or set CHROMIUM to the path of one`;

/** Starts the browser once for the pages of a test file; it ends after the test. */
export async function startBrowser(t: Hooks): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    // Root, as in a container, has no sandbox; and /dev/shm may be small there.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
    handleSIGINT: false,
  });
  t.after(() => browser.close());
  return browser;
}

/** A page that reports what goes wrong in it: `problems` has the errors of its scripts and console. */
export async function openPage(
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<{ readonly page: Page; readonly problems: readonly string[] }> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  return { page, problems };
}

/**
 * The findings of axe, as `rule: element`. Empty for a page that keyboards and screen readers can use, as far as axe
 * can see.
 */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  // Once for each page.
  if (!(await page.evaluate(() => 'axe' in globalThis)))
    await page.addScriptTag({ path: createRequire(import.meta.url).resolve('axe-core/axe.min.js') });
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<AxeResults> } };
    return (await axe.run()).violations;
  });
  return found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}
