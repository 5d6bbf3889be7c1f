/** The versions on trial in the console of a running service: what was found of them, and what ends a trial, in a real browser. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { ACTION_HEADER, type Versions } from '../../console/api.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import { readCurrent } from '../../lib/registry/pointer.ts';
import { publishModel, type Trial } from '../../lib/registry/publish.ts';
import { type TrialReport, writeTrialReport } from '../../lib/registry/trial-report.ts';
import type { Stack } from '../../local/service/stack.ts';
import { addModel, modelFolder } from '../local/swap/models.ts';
import { accessibilityProblems, NO_BROWSER, openPage, startBrowser } from '../support/browser.ts';
import { testStack } from '../support/stack.ts';

const REASON = '210 answers of the canary, 4100 of the version that serves: 0 % failed against 0.1 % failed';

describe('a version on trial in the console', { skip: NO_BROWSER }, () => {
  const closers: (() => Promise<void>)[] = [];
  const hooks = { after: (close: () => Promise<void>) => closers.unshift(close) };
  let stack: Stack;
  let browser: Browser;
  before(async () => {
    stack = await testStack(hooks, {
      modelDirectory: await modelFolder(hooks, addModel(1)),
      config: 'modelRefreshSeconds: 1',
    });
    browser = await startBrowser(hooks);
  });
  after(async () => {
    for (const close of closers) await close();
  });

  const place = () => ({
    s3: stack.aws.s3,
    location: { bucket: stack.bucket, prefix: modelPrefix(stack.job) },
  });
  const current = () => readCurrent(place().s3, place().location);

  /** Puts the model that adds `number` on trial, and writes what was found of it. @returns its version */
  async function tried(number: number, trial: Trial | undefined): Promise<string> {
    const { s3, location } = place();
    const folder = await modelFolder(hooks, addModel(number));
    const { version } = await publishModel(s3, location, folder, { trial, activate: false });
    const { canary, shadow } = await current();
    const room = { memoryMB: 1_000, diskMB: 1_000, isShared: false };
    const at = new Date().toISOString();
    const report: TrialReport = {
      at,
      room,
      isCapturing: true,
      ...(canary && {
        canary: {
          version,
          since: canary.since,
          golden: 'passed',
          attempts: 1,
          verdict: 'no worse',
          reason: REASON,
          looks: 1,
          unended: 0,
        },
      }),
      ...(shadow && {
        shadow: {
          version,
          since: shadow.since,
          until: Date.now(),
          windowMs: 60_000,
          compared: 12,
          flips: 3,
          differ: 4,
          otherEnds: 1,
          notReplayable: 2,
        },
      }),
    };
    if (trial) await writeTrialReport(s3, location, report);
    return version;
  }

  async function open(size = { width: 1280, height: 900 }) {
    const opened = await openPage(browser, { viewport: size, bypassCSP: true });
    await opened.page.goto(`${stack.url}/#versions`);
    return opened;
  }

  /** Confirms what a button begins. @returns what the dialog says then */
  async function confirm(page: Page, button: string, verb: string) {
    await page.getByRole('button', { name: button }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: verb, exact: true }).click();
    const said = (await dialog.getByRole('status').textContent()) ?? '';
    await dialog.getByRole('button', { name: 'Close' }).click();
    return said;
  }

  const act = (what: string, version: string, headers: Record<string, string> = { [ACTION_HEADER]: '1' }) =>
    fetch(`${stack.url}/console/api/${what}`, { method: 'POST', headers, body: JSON.stringify({ version }) });

  test('a canary is shown with its share and what was found; no other version takes over meanwhile; it ends, and is promoted', async () => {
    const canary = await tried(2, { kind: 'canary', share: 0.05 });
    const other = await tried(3, undefined);
    const { page, problems } = await open();
    const trial = page.getByRole('list', { name: 'On trial' });
    await trial.getByText(canary).waitFor();
    const text = (await trial.textContent()) ?? '';
    for (const part of ['canary, 5 %', 'Golden requests: passed', `no worse: ${REASON}`])
      assert.ok(text.includes(part), text);
    const location = { bucket: stack.bucket, prefix: modelPrefix(stack.job, 'fraud') };
    const { s3 } = stack.aws;
    await publishModel(s3, location, await modelFolder(hooks, addModel(1)));
    const further = { kind: 'canary', share: 0.1 } as const;
    const folder = await modelFolder(hooks, addModel(2));
    await publishModel(s3, location, folder, { trial: further });
    await page.reload();
    const others = page.getByRole('list', { name: 'Further models' });
    await others.getByText('fraud', { exact: true }).waitFor();
    assert.match((await others.textContent()) ?? '', /canary \w{12}, 10 %.*--model fraud/);
    assert.deepEqual(await accessibilityProblems(page), []);
    assert.deepEqual(problems, []);

    const held = page.getByRole('button', { name: `Promote ${other}` });
    assert.equal(await held.isDisabled(), true);
    await page.getByText(`No other version can serve while the canary ${canary} runs`).waitFor();
    const refused = await act('activate', other);
    assert.equal(refused.status, 409);
    assert.match(
      await refused.text(),
      new RegExp(`version ${canary} is a canary since .* and answers 5 % of the records`),
    );
    assert.equal((await current()).version, stack.model);

    // Who means another version than the one on trial changes nothing.
    for (const what of ['promote', 'end']) {
      assert.equal((await act(what, other)).status, 409);
      assert.equal((await act(what, canary, {})).status, 401);
    }
    assert.equal((await current()).canary?.version, canary);

    assert.match(await confirm(page, `End the trial of ${canary}`, 'End'), /has ended/);
    await page.getByText(`Version ${canary} was rolled back at`).waitFor();
    assert.equal(await held.isDisabled(), false);
    assert.deepEqual([(await current()).canary, (await current()).version], [undefined, stack.model]);
    assert.equal((await act('end', canary)).status, 404);

    await tried(2, { kind: 'canary', share: 0.5 });
    await page.reload();
    const promoted = await confirm(page, `Promote the trial of ${canary}`, 'Promote');
    assert.match(promoted, new RegExp(`^Version ${canary} is promoted instead of ${stack.model}`));
    await page.getByText(`Version ${canary} was promoted at`).waitFor();
    assert.equal((await current()).version, canary);
    await page.context().close();
  });

  test('a shadow is shown with its counts, also on a small screen, and ends', async () => {
    const shadow = await tried(4, { kind: 'shadow' });
    const { page, problems } = await open({ width: 390, height: 844 });
    const trial = page.getByRole('list', { name: 'On trial' });
    await trial.getByText('shadow').waitFor();
    assert.match(
      (await trial.textContent()) ?? '',
      /12 captured records compared · 3 have another first class · 4 differ .* · 1 end in another way · 2 could not/,
    );
    assert.deepEqual(await accessibilityProblems(page), []);
    const width = await page.evaluate<number>('document.documentElement.scrollWidth');
    assert.ok(width <= 390, `${width} pixels`);
    await confirm(page, `End the trial of ${shadow}`, 'End');
    // Further models behind the same address are listed beside the job's own.
    const further = page.locator('.card').filter({ hasText: 'Further models' });
    const own = page.getByRole('navigation').getByRole('link', { name: 'Model' });
    const location = { bucket: stack.bucket, prefix: modelPrefix(stack.job, 'prices') };
    await publishModel(place().s3, location, await modelFolder(hooks, addModel(5)));
    await page.reload();
    await own.click();
    await further.getByRole('listitem').getByText('prices', { exact: true }).waitFor();
    assert.deepEqual(await accessibilityProblems(page), []);
    assert.equal((await current()).shadow, undefined);
    const { trial: facts } = (await (await fetch(`${stack.url}/console/api/versions`)).json()) as Versions;
    assert.equal(facts.shadow, undefined);
    assert.deepEqual(problems, []);
    await page.context().close();
  });
});
