/** The console in front of a real service: who may ask for what, and each thing that a person does, in a real browser. */
import assert from 'node:assert/strict';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import type { Browser, Locator, Page } from 'playwright-core';
import { openRemote } from '../../cli/console/remote.ts';
import {
  ACTION_HEADER,
  type DeadLetterPage,
  type ModelFacts,
  type RecentRecords,
  type Versions,
} from '../../console/api.ts';
import { buildPage } from '../../console/build.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import { exampleOfVersion } from '../../local/console/example.ts';
import { consoleRoutes } from '../../local/console/routes.ts';
import { startGateway } from '../../local/gateway/gateway.ts';
import type { GatewayRoute } from '../../local/gateway/routes.ts';
import { LOCAL_BUCKET } from '../../local/service/environment.ts';
import type { Stack } from '../../local/service/stack.ts';
import { accessibilityProblems, NO_BROWSER, openPage, startBrowser } from '../support/browser.ts';
import { useAws } from '../support/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { SIGNED_REGION, startSignedApi } from '../support/signed-api.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { startStandIn } from '../support/stand-in-stack.ts';
import { ROOT } from '../support/start.ts';
import { until } from '../support/until.ts';

const DIGIT = join(SAMPLE, 'images', 'digit-3.png');
const HOSTILE = '<img src=x onerror="document.title=1">';
const LABELS = Array.from({ length: 10 }, (_, i) => (i === 3 ? HOSTILE : `digit ${i}`));
const TOKEN = 'token-token-token-token';
/** The facts of a job with a worker. */
const WORKER: ModelFacts = {
  job: 'words',
  release: '1',
  kind: 'worker',
  worker: 'server.Words',
  version: 'server.Words',
  inputs: { unavailable: '' },
  outputs: { unavailable: '' },
  batching: { why: 'up to 4 at once' },
  filter: '',
  notes: [],
  report: { unavailable: '' },
  caller: { auth: 'token' },
};
const SMALL = { width: 390, height: 844 };
const LARGE = { width: 1280, height: 900 };

describe('the console', () => {
  let stack: Stack;
  let firstVersion: string;
  const closers: (() => Promise<void>)[] = [];
  const hooks = { after: (close: () => Promise<void>) => closers.unshift(close) };
  after(async () => {
    for (const close of closers) await close();
  });

  before(async () => {
    const folder = await temporaryFolder(hooks);
    await cp(join(SAMPLE, 'model'), folder, { recursive: true });
    await writeFile(join(folder, 'labels.txt'), LABELS.join('\n'));
    // A version that is found again within a second of being chosen.
    stack = await testStack(hooks, {
      modelDirectory: folder,
      config: 'imageResize: 8,8\nmodelRefreshSeconds: 1',
    });
    firstVersion = stack.model;
    const location = { bucket: LOCAL_BUCKET, prefix: `models/${stack.job}/` };
    await publishModel(stack.aws.s3, location, join(SAMPLE, 'model'), { activate: false });
    // As SQS does with what was received too often.
    const MessageBody = JSON.stringify({
      uri: HOSTILE,
      data: '{"instances": [{"image": [1]}]}',
      serde: 'stream',
    });
    await stack.aws.sqs.send(new SendMessageCommand({ QueueUrl: stack.deadLetterUrl, MessageBody }));
    const picture = { uri: 'a picture', instances: [{ image: 'not base64' }] };
    await post('/predictions', JSON.stringify({ uri: 'numbers', instances: [{ image: zeros() }] }));
    await post('/predictions', JSON.stringify({ ...picture, instances: [{ image: [[1]] }] }));
    await until(async () => (await get<RecentRecords>('records')).records.length === 3);
  });

  const zeros = () =>
    Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => Array.from({ length: 8 }, () => 0)));
  const post = (path: string, body: string, headers: Record<string, string> = {}) =>
    fetch(`${stack.url}${path}`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', ...headers },
    });
  const get = async <T>(part: string): Promise<T> =>
    (await fetch(`${stack.url}/console/api/${part}`)).json() as Promise<T>;

  test('a browser gets the page at / and /console, other clients the text of the contract', async () => {
    const text = await fetch(stack.url);
    assert.match(await text.text(), /^welcome/);
    for (const path of ['/', '/console']) {
      const page = await fetch(`${stack.url}${path}`, { headers: { accept: 'text/html,*/*;q=0.8' } });
      const policy = page.headers.get('content-security-policy') ?? '';
      assert.match(
        policy,
        /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; connect-src 'self'/,
      );
      assert.match(policy, /frame-ancestors 'none'.*require-trusted-types-for 'script'/);
      assert.doesNotMatch(policy, /unsafe|http/);
      assert.match(await page.text(), /^<!doctype html>/);
    }
  });

  test('the page is under 150 kB zipped, and names no other host that it would ask', async () => {
    const { html } = await buildPage(ROOT);
    assert.ok(gzipSync(html).length < 150_000, `${gzipSync(html).length} bytes`);
    assert.doesNotMatch(html, /<link[^>]+href="(?!data:)|<script[^>]+src=|@import|url\((?!data:)/);
  });

  test('pages of other origins get nothing, and actions need the header of the page', async () => {
    const ask = async (path: string, headers: Record<string, string>, method = 'GET') =>
      (
        await fetch(`${stack.url}/console/api/${path}`, {
          method,
          headers,
          ...(method === 'POST' && { body: '{"id":"x"}' }),
        })
      ).status;
    assert.equal(await ask('model', {}), 200);
    assert.equal(await ask('model', { origin: stack.url }), 200);
    assert.equal(await ask('model', { origin: 'http://evil.example' }), 401);
    assert.equal(await ask('model', { 'sec-fetch-site': 'cross-site' }), 401);
    assert.equal(await ask('replay', { origin: 'http://evil.example', [ACTION_HEADER]: '1' }, 'POST'), 403);
    assert.equal(await ask('replay', { origin: stack.url }, 'POST'), 401);
    assert.equal(await ask('replay', { origin: stack.url, [ACTION_HEADER]: '1' }, 'POST'), 404);
    const wrong = { method: 'POST', headers: { [ACTION_HEADER]: '1' }, body: '{"version": 1}' };
    assert.equal((await fetch(`${stack.url}/console/api/activate`, wrong)).status, 400);
  });

  test('the last records and the dead letters have their errors', async () => {
    const { records } = await get<RecentRecords>('records');
    const byUri = new Map(records.map((record) => [record.uri, record]));
    assert.equal(byUri.get('numbers')?.status, 'succeeded');
    assert.equal(byUri.get('a picture')?.code, 'bad_input');
    assert.equal(byUri.get(HOSTILE)?.code, 'max_receives_exceeded');
    const { letters } = await get<DeadLetterPage>('dead-letters');
    assert.deepEqual(
      letters.map(({ uri, attempts }) => [uri, attempts]),
      [[HOSTILE, 5]],
    );
    assert.match(letters[0]?.reason ?? '', /^max_receives_exceeded: the record failed 5 times/);
  });

  test('the example of a version is its first golden request, else what is known otherwise', async () => {
    const { s3 } = stack.aws;
    const location = { bucket: LOCAL_BUCKET, prefix: 'models/example/' };
    const folder = await temporaryFolder(hooks);
    await cp(join(SAMPLE, 'model'), folder, { recursive: true });
    const publish = async () => (await publishModel(s3, location, folder, { activate: false })).version;
    const other = async () => '{"instances": []}';
    const bare = await publish();
    assert.deepEqual(await exampleOfVersion({ s3, location }, bare, other), {
      body: await other(),
      isGolden: false,
    });
    const none = await exampleOfVersion({ s3, location }, bare, async () => undefined);
    assert.ok('unavailable' in none);
    await mkdir(join(folder, 'golden'));
    for (const name of ['b', 'a'])
      await writeFile(
        join(folder, 'golden', `${name}.json`),
        `{"instances": [{"${name}": 1}], "predictions": [""]}`,
      );
    assert.deepEqual(await exampleOfVersion({ s3, location }, await publish(), other), {
      body: '{"instances": [{"a": 1}], "predictions": [""]}',
      isGolden: true,
    });
    assert.deepEqual(Object.keys(await get<object>('example')), ['body', 'isGolden']);
  });

  describe('in a browser', { skip: NO_BROWSER }, () => {
    let browser: Browser;
    before(async () => {
      browser = await startBrowser(hooks);
    });

    /** Nothing but the service can be reached. */
    async function openConsole(
      size: { width: number; height: number },
      colorScheme: 'light' | 'dark' = 'light',
    ) {
      const opened = await openPage(browser, { viewport: size, colorScheme });
      const foreign: string[] = [];
      await opened.page.route('**/*', (route) => {
        if (route.request().url().startsWith(stack.url)) return route.continue();
        foreign.push(route.request().url());
        return route.abort();
      });
      await opened.page.goto(`${stack.url}/`);
      return { ...opened, foreign };
    }

    const view = (page: Page, name: string) =>
      page.getByRole('navigation').getByRole('link', { name }).click();

    for (const size of [LARGE, SMALL]) {
      test(`at ${size.width} pixels a picture is chosen, drawn and asked as JSON, and its lines are shown`, async () => {
        const { page, problems, foreign } = await openConsole(size);
        await page.locator('input[type=file]').setInputFiles(DIGIT);
        const first = page.locator('.bars li').first();
        await first.waitFor();
        assert.equal(await first.locator('.label').textContent(), HOSTILE);
        assert.match((await first.locator('.value').textContent()) ?? '', /^0\.99/);
        // Each option of curl has a line of its own, and no line is broken within a word.
        const lines = page.getByRole('region', { name: 'Lines for curl' });
        assert.match(
          (await lines.textContent()) ?? '',
          /base64 < 'digit-3\.png'.*\ncurl .*\n.*\n {2}--data-binary @-/,
        );
        assert.equal(await styleOf(lines, 'white-space'), 'pre');
        await page.getByText('One record of image is 3 × 8 × 8 values').waitFor();
        await page.getByText('it is proved on the model that none changes the answer of another').waitFor();
        await page.getByRole('button', { name: 'Python' }).click();
        assert.match(
          (await page.locator('.code pre').textContent()) ?? '',
          /client\.predict\(\{"image": "digit-3\.png"\}\)/,
        );
        // A refused file is not asked about, and neither is the picture before it.
        const refused = { name: 'rows.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from('{}') };
        await page.locator('input[type=file]').setInputFiles(refused);
        await page.getByText('rows.ndjson is not a JPEG').waitFor();
        assert.equal(await page.locator('.drop img, .bars').count(), 0);
        await page.getByRole('button', { name: 'Predict' }).click();
        await page.getByText('image: choose, drop or draw a picture').waitFor();
        await page.getByRole('button', { name: 'Draw' }).click();
        await page.locator('canvas').waitFor();
        assert.equal(await page.getByRole('alert').count(), 0);
        const box = await page.locator('canvas').boundingBox();
        assert.ok(box);
        await page.mouse.move(box.x + box.width / 2, box.y + 20);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width / 2, box.y + box.height - 20, { steps: 4 });
        await page.mouse.up();
        await until(async () => (await first.locator('.label').textContent()) === 'digit 1');
        await page.getByRole('button', { name: 'JSON', exact: true }).click();
        await page.locator('textarea').fill('{"instances": [{"image": [1]}]}');
        await page.getByRole('button', { name: 'Predict' }).click();
        assert.match((await page.getByRole('alert').textContent()) ?? '', /image/);
        // The JSON goes into the form, or the page says that it does not fit.
        const way = (name: string) => page.getByRole('button', { name, exact: true }).click();
        await way('Form');
        assert.equal(await page.locator('textarea').inputValue(), '[1]');
        assert.equal(await page.getByRole('alert').count(), 0);
        await way('JSON');
        const two = '{"instances": [{"image": [1]}, {"image": [2]}]}';
        await page.locator('textarea').fill(two);
        await way('Form');
        await page.getByText('The form cannot hold this JSON').waitFor();
        await way('JSON');
        assert.equal(await page.locator('textarea').inputValue(), two);
        // The error's answer has the status 400, which the browser reports.
        assert.deepEqual(
          problems.filter((text) => !text.includes('400')),
          [],
        );
        assert.deepEqual(foreign, []);
        await assertNarrow(page);
        await page.context().close();
      });
    }

    test('an example fills the form and is answered: a picture, and as JSON what the form cannot hold', async () => {
      const { page, problems } = await openConsole(LARGE);
      const press = () => page.getByRole('button', { name: 'Try an example' }).click();
      await press();
      const bar = page.locator('.bars li').first();
      await bar.waitFor();
      await page.getByAltText('The picture example.png').waitFor();
      assert.equal(await bar.locator('.label').textContent(), HOSTILE);
      const body = JSON.stringify({ instances: [{ image: zeros() }, { image: zeros() }] });
      const exact = body.replace('0,', '-0.0,');
      await page.route('**/console/api/example', (route) =>
        route.fulfill({ json: { body: exact, isGolden: true } }),
      );
      await press();
      assert.equal(await page.getByLabel('The body of POST /predict').inputValue(), exact);
      await page.locator('.output').nth(1).waitFor();
      assert.deepEqual(problems, []);
      await page.context().close();
    });

    test('a row of a table is pasted into its columns, and a decimal comma is refused with a sentence', async () => {
      const { page, problems } = await openConsole(LARGE);
      const facts = await get<ModelFacts>('model');
      const names = ['length', 'width', 'height', 'weight'];
      const input = { name: 'x', dtype: 'float32', shape: ['N', 4], row: [4], takes: 'numbers', names };
      await page.route('**/console/api/model', (route) =>
        route.fulfill({ json: { ...facts, inputs: [input] } }),
      );
      const sent: string[] = [];
      await page.route('**/predict', (route) => {
        sent.push(route.request().postData() ?? '');
        return route.fulfill({ json: { predictions: ['{value={"data":[1],"shape":[1]}}'] } });
      });
      await page.reload();
      const cell = (name: string) => page.getByLabel(name, { exact: true });
      const predict = () => page.getByRole('button', { name: 'Predict' }).click();
      await cell('length').focus();
      await page.evaluate(`{
        const clipboardData = new DataTransfer();
        clipboardData.setData('text', '5.1, 3.5\\t1.4 0.2');
        const init = { clipboardData, bubbles: true, cancelable: true };
        document.activeElement.dispatchEvent(new ClipboardEvent('paste', init));
      }`);
      await until(async () => (await cell('weight').inputValue()) === '0.2');
      await predict();
      await page.getByText('Answered in').waitFor();
      await cell('width').fill('3,5');
      await predict();
      await page.getByText('is 3,5 one number or more? Write a decimal point').waitFor();
      assert.equal(await cell('width').inputValue(), '3,5');
      await cell('width').fill('');
      await predict();
      await page.getByText('Answered in').waitFor();
      assert.deepEqual(
        sent.map((body) => body.replaceAll(' ', '')),
        ['{"instances":[{"x":[5.1,3.5,1.4,0.2]}]}', '{"instances":[{"x":[5.1,null,1.4,0.2]}]}'],
      );
      assert.deepEqual(problems, []);
      await page.context().close();
    });

    test('the head has the product and a link to the documents of the API, and dead letters need no scrolling', async () => {
      for (const size of [LARGE, SMALL]) {
        const { page } = await openConsole(size);
        await page.getByRole('banner').getByText('Cluster Serving', { exact: true }).waitFor();
        await view(page, 'Records');
        const letter = page.getByRole('button', { name: /^Replay/ }).first();
        await letter.waitFor();
        const { y = Infinity, height = 0 } = (await letter.boundingBox()) ?? {};
        assert.ok(y + height < size.height, `${y} of ${size.height} pixels`);
        const edit = await page.getByRole('button', { name: /^Edit/ }).first().boundingBox();
        assert.equal(edit?.y, y, 'both buttons are in one line');
        const list = `document.querySelector('.waiting .rows')`;
        const hidden = await page.evaluate<number>(`${list}.scrollHeight - ${list}.clientHeight`);
        assert.ok(size === LARGE || hidden <= 0, `${hidden} pixels of the dead letters are hidden`);
        await page.getByRole('banner').getByRole('link', { name: 'API docs' }).click();
        await page.getByRole('heading', { name: /^Cluster Serving: / }).waitFor();
        await page.context().close();
      }
    });

    test('a replay and another version are asked about first, and say what came of them', async () => {
      const { page, problems } = await openConsole(LARGE);
      await view(page, 'Records');
      await page.getByRole('button', { name: /^Replay/ }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      assert.equal((await get<DeadLetterPage>('dead-letters')).letters.length, 1);
      await page.getByRole('button', { name: /^Replay/ }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
      // It fails again, as its picture is none.
      assert.match((await page.getByRole('dialog').getByRole('alert').textContent()) ?? '', /image/);
      await page.keyboard.press('Escape');
      await view(page, 'Versions');
      await page.getByRole('button', { name: /^Promote/ }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Promote' }).click();
      assert.match((await page.getByRole('status').textContent()) ?? '', /is chosen instead of/);
      await page.keyboard.press('Escape');
      const serving = async () =>
        (await get<Versions>('versions')).versions.find(({ serves }) => serves)?.version;
      assert.notEqual(await serving(), firstVersion);
      await page.setViewportSize(SMALL);
      const { height } = (await page.getByText('served before').boundingBox()) ?? { height: 0 };
      assert.ok(height > 0 && height < 30, `the badge has ${height} pixels, which are several lines`);
      await assertNarrow(page);
      await page.setViewportSize(LARGE);
      await page.getByRole('button', { name: `Roll back ${firstVersion}` }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
      await page.getByRole('status').waitFor();
      assert.equal(await serving(), firstVersion);
      assert.deepEqual(
        problems.filter((text) => !text.includes('400')),
        [],
      );
      await page.context().close();
    });

    test('a record whose cause is removed succeeds from the page: its result is shown, its dead letter gone', async () => {
      const uri = 'repaired';
      const data = JSON.stringify({ instances: [{ image: zeros() }] });
      const MessageBody = JSON.stringify({ uri, data, serde: 'stream' });
      await stack.aws.sqs.send(new SendMessageCommand({ QueueUrl: stack.deadLetterUrl, MessageBody }));
      await until(async () => (await get<DeadLetterPage>('dead-letters')).letters.length === 2);
      const { page, problems } = await openConsole(SMALL);
      await view(page, 'Records');
      const rows = page.locator('.rows summary').filter({ hasText: uri });
      await rows.filter({ hasText: 'max_receives_exceeded' }).waitFor();
      await page.getByRole('button', { name: `Replay ${uri}` }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
      assert.match((await page.getByRole('status').textContent()) ?? '', /its result is stored/);
      await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
      const row = rows.filter({ hasText: 'succeeded' });
      await row.click();
      await page.getByText('"status": "succeeded"').waitFor();
      await page.getByRole('button', { name: `Replay ${uri}` }).waitFor({ state: 'detached' });
      assert.equal(await rows.count(), 1);
      assert.deepEqual(problems, []);
      await page.context().close();
    });

    test('a view that is chosen before anything is drawn is shown', async () => {
      const { page } = await openPage(browser, { viewport: SMALL });
      // In the task that renders the page, in which no effect has run.
      await page.addInitScript(`new MutationObserver((_, observer) => {
        const link = document.querySelector('nav a[href="#versions"]');
        if (!link) return;
        observer.disconnect();
        link.click();
      }).observe(document, { childList: true, subtree: true })`);
      await page.goto(`${stack.url}/`);
      await listed(page, firstVersion).waitFor();
      await page.context().close();
    });

    test('an answer that takes longer than the time between two looks is shown', async () => {
      const { page } = await openConsole(SMALL);
      await page.clock.install();
      let asked = 0;
      const answer = Promise.withResolvers<void>();
      await page.route('**/console/api/versions', async (route) => {
        asked++;
        await answer.promise;
        await route.continue();
      });
      await view(page, 'Versions');
      await until(() => asked === 1);
      await page.clock.fastForward(25_000);
      const again = page.waitForResponse(/console\/api\/versions/);
      answer.resolve();
      await again;
      await listed(page, firstVersion).waitFor();
      assert.equal(asked, 1, 'one request at a time');
      await page.context().close();
    });

    test('a service that is gone is said to be, with the time of what is still shown', async () => {
      const { page } = await openConsole(SMALL);
      await view(page, 'Versions');
      await listed(page, firstVersion).waitFor();
      await page.route('**/console/api/**', (route) => route.abort());
      await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
      const problem = page.getByRole('alert');
      assert.match(
        (await problem.textContent()) ?? '',
        /cannot be reached.*its last answer, of \d\d:\d\d:\d\d\.$/,
      );
      await page.getByText('not reachable').waitFor();
      await listed(page, firstVersion).waitFor();
      await page.context().close();
    });

    // After the first ten seconds, with which the charts begin.
    for (const size of [LARGE, SMALL]) {
      test(`at ${size.width} pixels the hour, the records and what is in S3 are there, and no name becomes HTML`, async () => {
        const { page, problems, foreign } = await openConsole(size);
        await page.evaluate(RECORD_TEXTS);
        await page.route('**/console/api/live', async (route) => {
          const facts = (await (await route.fetch()).json()) as { steps: { waited: number }[] };
          const steps = facts.steps.map((step) => ({ ...step, waited: 1_000_000 }));
          await route.fulfill({ json: { ...facts, steps } });
        });
        await view(page, 'Live');
        await page
          .getByRole('img', { name: /^Time to answer a record, last \d+ minutes; at \d\d:\d\d:\d\d:/ })
          .waitFor();
        assert.equal(await page.locator('.chart').count(), 8);
        await page.getByText(/^Last \d+ minutes$/).waitFor();
        const texts = await page.evaluate<string[]>('canvasTexts');
        const minutes = texts.filter((text) => text.endsWith(' min'));
        assert.deepEqual([...new Set(minutes)], ['10 min']);
        const times = new Set(texts.filter((text) => /^\d\d:\d\d$/.test(text)));
        assert.ok(times.size >= 2, `the axes have ${times.size} times`);
        assert.equal(await page.getByText('without jobs over files').count(), 2);
        // A number and its chart are one reading.
        const chart = page.locator('.chart').filter({ hasText: 'Messages in the queue' });
        const tile = page.locator('.tiles div').filter({ hasText: 'In the queue' });
        assert.equal(await tile.locator('dd').textContent(), await chart.locator('.keys b').textContent());
        assert.match((await tile.locator('dd').textContent()) ?? '', /^\d+$/);
        const records = page.locator('.tiles div').filter({ hasText: /^Records/ });
        const metrics = await (
          await fetch(`${stack.url}/metrics`, { headers: { accept: 'text/plain' } })
        ).text();
        const counted = [...metrics.matchAll(/^cluster_serving_records_total\{.*\} (\d+)$/gm)];
        const sum = counted.reduce((all, [, count]) => all + Number(count), 0);
        assert.equal(await records.locator('dd').textContent(), String(sum));
        await assertNarrow(page);
        await view(page, 'Records');
        const row = page.locator('.rows summary').filter({ hasText: 'numbers' });
        await row.click();
        await page.getByText('"status": "succeeded"').waitFor();
        const states = async () => new Set(await page.locator('details .badge').allTextContents());
        await page.getByRole('button', { name: 'Failed', exact: true }).click();
        await until(async () => (await states()).size === 1);
        assert.deepEqual(await states(), new Set(['failed']));
        const touched = await page.getByRole('button', { name: 'Failed', exact: true }).boundingBox();
        assert.ok(size === LARGE || (touched?.height ?? 0) >= 32, `${touched?.height} pixels`);
        await page.getByRole('button', { name: 'All', exact: true }).click();
        await page.getByRole('searchbox').fill('Succeeded');
        await until(async () => (await states()).size === 1);
        assert.deepEqual(await states(), new Set(['succeeded']));
        await page.getByRole('searchbox').fill('the record failed 5 times');
        await page.getByText('max_receives_exceeded: the record failed').first().waitFor();
        await page.getByRole('searchbox').fill('max_receives');
        assert.equal(await page.locator('details .uri').textContent(), HOSTILE);
        assert.equal(await page.locator('main img').count(), 0);
        await assertNarrow(page);
        await view(page, 'Versions');
        await listed(page, firstVersion).waitFor();
        for (const time of await page.locator('.rows time').allTextContents())
          assert.match(time, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
        await assertNarrow(page);
        assert.deepEqual([problems, foreign], [[], []]);
        assert.match(await page.title(), /^Versions/);
        await page.context().close();
      });
    }

    test('axe finds nothing in any view, at both widths, light and dark', async () => {
      // axe is added to the page, which its policy would refuse.
      const { page } = await openPage(browser, { viewport: SMALL, bypassCSP: true });
      const check = async (name: string) => {
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme });
          for (const viewport of [SMALL, LARGE]) {
            await page.setViewportSize(viewport);
            const where = `${name}, ${viewport.width} pixels, ${colorScheme}`;
            assert.deepEqual(await accessibilityProblems(page), [], where);
          }
        }
      };
      await page.goto(`${stack.url}/docs`);
      await page.locator('summary').first().click();
      await check('API docs');
      assert.equal(await styleOf(page.locator('body'), 'background-color'), 'rgb(24, 27, 32)');
      await page.emulateMedia({ colorScheme: 'light' });
      assert.equal(await styleOf(page.locator('body'), 'background-color'), 'rgb(255, 255, 255)');
      await page.goto(`${stack.url}/console`);
      await page.locator('input[type=file]').setInputFiles(DIGIT);
      await page.locator('.bars li').first().waitFor();
      await page.getByText('What is batching?').click();
      await check('Model');
      for (const name of ['Live', 'Records', 'Versions']) {
        await view(page, name);
        await page.locator('.chart, .rows').first().waitFor();
        if (name === 'Live') await page.getByText('What do these numbers mean?').click();
        await check(name);
      }
      await page.context().close();
    });

    test('a deployment is shown through the command, with its token, and what it does not give has a reason', async () => {
      useAws(stack.aws.environment);
      const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = stack.aws.environment;
      const keys = { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY };
      const api = await startSignedApi(hooks, { behind: stack.url, keys });
      const outputs = {
        HttpApiUrl: api.url,
        QueueUrl: stack.queueUrl,
        BucketName: LOCAL_BUCKET,
        JobName: stack.job,
        Auth: 'iam',
      };
      const standIn = await startStandIn(hooks, { dev: { outputs } });
      useAws({ ...stack.aws.environment, AWS_ENDPOINT_URL_CLOUDFORMATION: standIn.url });
      const where = { stack: 'dev', region: SIGNED_REGION, port: 0 } as const;
      const remote = await openRemote(where, TOKEN);
      try {
        const { page, problems } = await openPage(browser, { viewport: LARGE });
        assert.equal((await fetch(`${remote.gateway.url}/console/api/model`)).status, 401);
        await page.goto(`${remote.gateway.url}/console#token=${TOKEN}`);
        await page.locator('input[type=file]').setInputFiles(DIGIT);
        await page.locator('.bars li').first().waitFor();
        assert.doesNotMatch(page.url(), /token/);
        assert.match((await page.locator('.bars').first().textContent()) ?? '', /digit 5/);
        assert.match((await page.locator('.code pre').textContent()) ?? '', /--aws-sigv4/);
        assert.ok(api.seen.some(({ url }) => url === '/predict'));
        assert.deepEqual(api.refused, []);
        await page.getByRole('button', { name: 'Try an example' }).click();
        await page.getByAltText('The picture example.png').waitFor();
        await page.locator('.answer').waitFor();
        assert.equal(await page.getByRole('link', { name: 'API docs' }).count(), 0);
        await view(page, 'Live');
        await page.getByText('keep no history').waitFor();
        await view(page, 'Records');
        await page.getByText('inside its network').waitFor();
        await page.getByText('pass --redis-url').waitFor();
        await page.getByText('the error is in Redis').waitFor();
        await view(page, 'Versions');
        await listed(page, firstVersion).waitFor();
        assert.deepEqual(problems, []);
        await page.context().close();
      } finally {
        await remote.close();
      }
    });

    test('a record whose payload is repaired in the page gets its result as a new enqueue', async () => {
      const uri = 'edited';
      const data = JSON.stringify({ instances: [{ image: 'no image' }] });
      const MessageBody = JSON.stringify({ uri, data, serde: 'stream' });
      await stack.aws.sqs.send(new SendMessageCommand({ QueueUrl: stack.deadLetterUrl, MessageBody }));
      const { page, problems } = await openConsole(SMALL);
      await view(page, 'Records');
      await page.getByRole('button', { name: `Edit ${uri}` }).click();
      const payload = page.getByLabel('Payload, as for POST /predictions');
      await payload.waitFor();
      assert.match(await payload.inputValue(), /"no image"/);
      await payload.fill('{"instances": []}');
      await page.getByRole('dialog').getByRole('button', { name: 'Enqueue' }).click();
      assert.match((await page.getByRole('dialog').getByRole('alert').textContent()) ?? '', /instances/);
      await assertNarrow(page);
      await payload.fill(JSON.stringify({ instances: [{ image: zeros() }] }));
      await page.getByRole('dialog').getByRole('button', { name: 'Enqueue' }).click();
      assert.match((await page.getByRole('status').textContent()) ?? '', /edited was enqueued/);
      await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
      await page.getByRole('button', { name: `Edit ${uri}` }).waitFor({ state: 'detached' });
      await until(async () => (await fetch(`${stack.url}/predictions/${uri}`)).status === 200);
      assert.deepEqual(
        problems.filter((text) => !text.includes('400')),
        [],
      );
      await page.context().close();
    });

    test('a service with a token shows the page to all, and everything else to those who have it', async (t) => {
      const unavailable = async () => ({ unavailable: 'Nothing is here.' });
      const model = async () => WORKER;
      const never = async () => assert.fail('nothing was done');
      const reads = {
        model,
        example: unavailable,
        live: unavailable,
        records: unavailable,
        versions: unavailable,
      };
      const actions = {
        replay: never,
        edit: never,
        resume: never,
        activate: never,
        promote: never,
        end: never,
        cancel: never,
      };
      const source = {
        ...reads,
        deadLetters: unavailable,
        editable: unavailable,
        notices: unavailable,
        captures: unavailable,
        jobs: unavailable,
        ...actions,
      };
      const log = { info: () => undefined, warn: () => undefined, error: console.error };
      const root = async () => ({ statusCode: 200, body: 'welcome' });
      const answer = { error_code: 0, error_message: 'Success.', data: { words: ['<b>'] } };
      const routes: GatewayRoute[] = [
        ...consoleRoutes({ source, allowedHosts: [], root }),
        { method: 'POST', path: '/encode_json', handler: async () => answer },
      ];
      const gateway = await startGateway({ port: 0, token: TOKEN, log, routes });
      t.after(() => gateway.close());
      assert.equal((await fetch(gateway.url)).status, 401);
      const { page } = await openPage(browser);
      await page.goto(gateway.url);
      await page.getByLabel('Token').fill('wrong');
      await page.getByRole('button', { name: 'Open' }).click();
      await page.getByText('does not know this token').waitFor();
      await page.getByLabel('Token').fill(TOKEN);
      await page.getByRole('button', { name: 'Open' }).click();
      await page.getByLabel('One item, as JSON').fill('{"text": "a b"}');
      await page.getByRole('button', { name: 'Send' }).click();
      assert.match((await page.locator('.answer pre').textContent()) ?? '', /"words": \["<b>"\]/);
      await view(page, 'Records');
      await page.getByText('Nothing is here.').first().waitFor();
      await page.context().close();
    });
  });
});

async function styleOf(element: Locator, property: string): Promise<string> {
  return element.evaluate((node, name) => {
    const { getComputedStyle } = globalThis as unknown as {
      getComputedStyle: (of: unknown) => { getPropertyValue: (name: string) => string };
    };
    return getComputedStyle(node).getPropertyValue(name);
  }, property);
}

/** Keeps what is written on canvases, for what the axes of charts say. */
const RECORD_TEXTS = `globalThis.canvasTexts = [];
const { fillText } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  canvasTexts.push(text);
  return fillText.call(this, text, ...place);
};`;

/** A version in the list; the head of the page names the one that serves, too. */
function listed(page: Page, version: string): Locator {
  return page.locator('.rows').getByText(version, { exact: true });
}

/** Nothing is wider than the window. */
async function assertNarrow(page: Page): Promise<void> {
  const wide = await page.evaluate(() => {
    const { document: shown, innerWidth } = globalThis as unknown as {
      document: { documentElement: { scrollWidth: number } };
      innerWidth: number;
    };
    return shown.documentElement.scrollWidth - innerWidth;
  });
  assert.ok(wide <= 0, `${wide} pixels too wide`);
}
