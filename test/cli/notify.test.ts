/** A target that asks to be called no more, and what the command line shows of it and does about it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { withNotices } from '../../cli/notify/notices.ts';
import { noticesText } from '../../cli/notify/text.ts';
import { ACTION_HEADER } from '../../console/api.ts';
import { present } from '../../lib/contract/present.ts';
import { InputQueue } from '../../sdk/index.ts';
import { quietLog } from '../support/faults/quiet.ts';
import { SECRET } from '../support/receiver.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { cli } from './cli.ts';

/** One of several reasons is shown. */
function reasonless(facts: unknown): unknown {
  return JSON.parse(JSON.stringify(facts), (key, value: unknown) => (key === 'reason' ? '' : value));
}

test('410 pauses a target and gives its notices up; `notify resume` sends them again, under the ids that they had', async (t) => {
  quietLog(t);
  let status = 410;
  const ids: string[] = [];
  const server = createServer((request, response) => {
    ids.push(`${String(request.headers['webhook-id'])} ${status}`);
    request.resume().once('end', () => response.writeHead(status).end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  process.env['CLUSTER_SERVING_NOTIFY_SECRET_SHOP'] = SECRET;
  t.after(() => {
    delete process.env['CLUSTER_SERVING_NOTIFY_SECRET_SHOP'];
  });
  const { port } = server.address() as AddressInfo;
  const config = `imageResize: 8,8\nnotify: {shop: {url: 'http://127.0.0.1:${port}/'}}`;
  const stack = await testStack(t, { config });
  clientOptions(stack);
  const queue = new InputQueue({ frontendUrl: stack.url });
  t.after(() => queue.close());
  const place = { job: stack.job, bucket: stack.bucket, endpoint: stack.aws.url, region: stack.aws.region };
  const all = { ...place, queueUrl: stack.queueUrl };
  const factsNow = () => withNotices(all, (notices) => notices.facts());
  const resume = (target: string) => withNotices(all, (notices) => notices.resume(target));
  const none = { waiting: 0, outbox: 0, givenUp: 0, paused: [], targets: [] };

  assert.deepEqual(await factsNow(), none);
  const image = join(SAMPLE, 'images/digit-3.png');
  for (const uri of ['a', 'b', 'c']) await queue.enqueue(uri, { image }, { notify: 'shop' });
  await until(async () => (await factsNow())?.givenUp === 3);
  const facts = present(await factsNow(), 'facts');
  const [shop] = facts.targets;
  const { reason } = present(shop, 'shop');
  // The first one was refused, and the others found the pause.
  assert.match(reason ?? '', /^it answered 410$|^the target is paused$/);
  assert.deepEqual(facts, {
    ...none,
    givenUp: 3,
    paused: ['shop'],
    targets: [{ name: 'shop', waiting: 0, givenUp: 3, reason, isPaused: true }],
  });
  assert.equal(
    noticesText(facts),
    `notices: 0 wait, 3 given up (cluster-serving notify resume)\n  shop: paused, 3 given up: ${reason}`,
  );
  // A look leaves everything where it is.
  assert.deepEqual(reasonless(await factsNow()), reasonless(facts));
  const page = async (path: string, init: RequestInit = {}) => {
    const headers = { 'content-type': 'application/json', [ACTION_HEADER]: '1' };
    return (await fetch(`${stack.url}/console/api/${path}`, { ...init, headers })).json();
  };
  assert.deepEqual(reasonless(await page('notices')), reasonless(facts));
  const refused = [...ids];
  assert.ok(refused.length >= 1);

  // There is nothing of another target.
  status = 204;
  assert.equal(await resume('crm'), 0);
  assert.deepEqual((await factsNow())?.paused, ['shop']);
  const done = await page('resume', { method: 'POST', body: '{"target": "shop"}' });
  assert.deepEqual(done, { done: '3 given up notices of shop are sent again.' });
  await until(() => new Set(ids.filter((id) => id.endsWith('204'))).size === 3);
  for (const id of refused) assert.ok(ids.includes(id.replace(/410$/, '204')));
  await until(async () => (await factsNow())?.waiting === 0);
  assert.deepEqual(await factsNow(), none);
});

test('enqueue --notify names a target for each record, and a target that the job does not have is refused', async (t) => {
  const ids: string[] = [];
  const server = createServer((request, response) => {
    ids.push(String(request.headers['webhook-id']));
    request.resume().once('end', () => response.writeHead(204).end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  process.env['CLUSTER_SERVING_NOTIFY_SECRET_SHOP'] = SECRET;
  t.after(() => {
    delete process.env['CLUSTER_SERVING_NOTIFY_SECRET_SHOP'];
  });
  const { port } = server.address() as AddressInfo;
  const config = `imageResize: 8,8\nnotify: {shop: {url: 'http://127.0.0.1:${port}/'}}`;
  const stack = await testStack(t, { config });
  const image = join(SAMPLE, 'images/digit-3.png');
  const enqueue = (target: string) => cli(['enqueue', `a=${image}`, '--notify', target, '--url', stack.url]);
  const told = await enqueue('shop');
  assert.equal(told.code, 0, told.stderr);
  await until(() => ids.length > 0);
  const unknown = await enqueue('shpo');
  assert.notEqual(unknown.code, 0);
  assert.match(unknown.stderr, /no target "shpo" in the job's config.yaml; did you mean "shop"/);
  assert.match((await enqueue('no name')).stderr, /--notify "no name": expected a name of 1 to 40/);
});
