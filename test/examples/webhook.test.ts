/** docs/how-to/be-told-when-it-is-done.md with its config and its receiver, as they are, against a service. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { secretKeys, signatureHeaders } from '../../lib/notify/webhook.ts';
import { InputQueue } from '../../sdk/index.ts';
import { childEnvironment } from '../support/environment.ts';
import { freePort } from '../support/free-port.ts';
import { SECRET } from '../support/receiver.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { ROOT } from '../support/start.ts';
import { until } from '../support/until.ts';

const RECEIVER = 'examples/webhook/receiver.mts';
const PAGE = 'docs/how-to/be-told-when-it-is-done.md';

const blocksOf = (page: string, language: string) =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, 'gm'))].map(([, text = '']) => text);

test('the receiver of the page prints each record once, and refuses what the service did not sign', async (t) => {
  const [page, code] = await Promise.all([PAGE, RECEIVER].map((path) => readFile(join(ROOT, path), 'utf8')));
  assert.ok(page && code);
  const shown = blocksOf(page, 'ts').at(-1) ?? '';
  for (const line of shown.trim().split('\n')) assert.ok(code.includes(line), line);

  const port = await freePort();
  const child = spawn(process.execPath, [RECEIVER], {
    cwd: ROOT,
    env: childEnvironment({ SECRET, PORT: String(port) }),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill());
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  await until(() => lines.includes('ready'));

  const [config = ''] = blocksOf(page, 'yaml');
  const url = `http://localhost:${port}/hooks`;
  process.env['CLUSTER_SERVING_NOTIFY_SECRET_SHOP'] = SECRET;
  t.after(() => {
    delete process.env['CLUSTER_SERVING_NOTIFY_SECRET_SHOP'];
  });
  const stack = await testStack(t, { config: `imageResize: 8,8\n${config.replace(/https:\S+/, url)}` });
  const queue = new InputQueue({ frontendUrl: stack.url });
  t.after(() => queue.close());
  const image = join(SAMPLE, 'images/digit-3.png');
  for (const uri of ['a', 'b']) await queue.enqueue(uri, { image }, { notify: 'shop' });
  await assert.rejects(queue.enqueue('c', { image }, { notify: 'nobody' }), { code: 'bad_request' });
  await until(() => lines.length >= 3);
  assert.deepEqual(lines.slice(1).toSorted(), ['record.succeeded a', 'record.succeeded b']);

  const body = '{"type":"record.succeeded","data":{"uri":"again"}}';
  const headers = signatureHeaders('msg_1', Math.floor(Date.now() / 1000), body, secretKeys(SECRET));
  const post = (text: string) => fetch(url, { method: 'POST', body: text, headers });
  const statuses = [await post(body), await post(body), await post(`${body} `)].map(({ status }) => status);
  assert.deepEqual(statuses, [204, 204, 401]);
  await until(() => lines.includes('record.succeeded again'));
  assert.equal(lines.length, 4);
});
