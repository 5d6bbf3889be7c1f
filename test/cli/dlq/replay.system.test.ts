/** `cluster-serving dlq replay`, through the local stack: what works now succeeds, and nothing else leaves the bucket. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { openDlq } from '../../../cli/dlq/place.ts';
import { replay } from '../../../cli/dlq/replay.ts';
import { parseWhere } from '../../../cli/dlq/where.ts';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { RedisConnection } from '../../../lib/redis/connection.ts';
import { RecordStates } from '../../../lib/redis/record-states.ts';
import { ENDLESS } from '../../support/endless.ts';
import { useAws } from '../../support/environment.ts';
import { startHttpProxy } from '../../support/faults/http-proxy.ts';
import { busyIsolated, isolatedCost, isolatedPids } from '../../support/isolated.ts';
import { until } from '../../support/until.ts';
import type { CliAnswer } from '../cli.ts';
import { warmCliJson } from '../warm.ts';
import { type Replayed, replayPoisoned } from './poison.ts';
import { JOB, loopMessage, outcomeOf, sharedDlq, startDlq } from './support.ts';

const openService = sharedDlq();

test('F14: of 120 dead letters with 10 % poison the good ones succeed, and exactly the poison stays', async (t) =>
  replayPoisoned(await openService(t), 120));

test('a dry run says what would succeed and changes nothing; then it does, and the word is out for who waits', async (t) => {
  const { archive, archived, dlq, dlqJson, output, stack } = await openService(t);
  await archive([loopMessage('a', 7), loopMessage('b', 8), '{"uri":"bad","data":"AAAA"}']);
  const before = await archived();
  const dry = await dlqJson<Replayed>('replay', '--all', '--dry-run');
  assert.deepEqual(
    [dry.code, dry.json.dryRun, dry.json.succeeded, dry.json.stillFailing, dry.json.model],
    [1, true, 2, 1, stack.model],
  );
  assert.deepEqual(await archived(), before);
  assert.deepEqual(await Promise.all(['a', 'b', 'bad'].map((uri) => outcomeOf(output, uri))), [
    'max_receives_exceeded',
    'max_receives_exceeded',
    'max_receives_exceeded',
  ]);
  assert.equal((await dlq('replay', 'uri=a')).code, 0);
  assert.deepEqual(await Promise.all(['a', 'b'].map((uri) => outcomeOf(output, uri))), [
    7,
    'max_receives_exceeded',
  ]);
  assert.equal(await output.status('a'), 'succeeded');
  const text = await dlq('replay', '--all');
  assert.equal(text.code, 1);
  assert.match(
    text.stdout,
    /^model \w+ of loops, with .*config\.yaml\nsucceeded +1\nstill fail +1\n {2}bad_request +1/,
  );
  assert.equal((await archived()).length, 1);
  // The taker finds both, though one of them was written over a failure.
  const taken = await output.dequeue();
  assert.deepEqual([...taken.keys()].sort(), ['a', 'b', 'bad']);
});

test('a result that came by another way stays, and its message is archived no more', async (t) => {
  const { archive, archived, dlqJson, output, stack } = await openService(t);
  await archive([loopMessage('twice', 5), loopMessage('cancelled', 6), loopMessage('other', 7)]);
  // Taken, and the uris used again: for the same record, for nothing, for another record.
  for (const uri of ['twice', 'cancelled', 'other']) await output.queryAndDelete(uri).catch(() => undefined);
  const send = async (uri: string, rounds: number) => {
    const { InputQueue } = await import('../../../sdk/index.ts');
    const { url: endpoint, region } = stack.aws;
    const places = { name: JOB, queueUrl: stack.queueUrl, redisUrl: stack.redisUrl, endpoint, region };
    useAws(stack.aws.environment);
    const queue = new InputQueue(places);
    await queue.enqueue(uri, { rounds: { data: Float64Array.of(rounds), shape: [] } });
    await queue.close();
    await until(async () => (await outcomeOf(output, uri)) === rounds);
  };
  await send('twice', 5);
  await send('other', 70);
  // Enqueued again and cancelled before it ran: what was taken cannot be cancelled.
  assert.equal(await output.cancel('cancelled'), false);
  const connection = new RedisConnection(stack.redisUrl);
  t.after(() => connection.close());
  const states = new RecordStates(connection, { job: JOB, now: Date.now });
  await states.announce({ uri: 'cancelled', identity: 'again', message: 'the same' });
  assert.equal(await output.cancel('cancelled'), true);
  const { code, json } = await dlqJson<Replayed>('replay', '--all');
  assert.deepEqual([code, json.succeeded, json.over, json.stillFailing], [1, 0, 2, 1]);
  assert.deepEqual(
    json.failed.map(({ uri, code: why }) => [uri, why]),
    [['other', 'conflict']],
  );
  assert.deepEqual(await Promise.all(['twice', 'cancelled', 'other'].map((uri) => outcomeOf(output, uri))), [
    5,
    'cancelled',
    70,
  ]);
  assert.equal((await archived()).length, 1);
});

test('--enqueue puts what works back into the queue, its failure gone, and the deployed function gives the result', async (t) => {
  const { archive, archived, dlqJson, output, stack } = await openService(t);
  await archive([loopMessage('again', 11), '{"uri":"never","data":"AAAA"}']);
  const { code, json, stderr } = await dlqJson<Replayed>(
    'replay',
    '--all',
    '--enqueue',
    '--queue-url',
    stack.queueUrl,
  );
  assert.deepEqual([code, json.succeeded, json.stillFailing], [1, 1, 1], stderr);
  await until(async () => (await outcomeOf(output, 'again')) === 11);
  assert.equal(await outcomeOf(output, 'never'), 'max_receives_exceeded');
  assert.equal((await archived()).length, 1);
});

test('a replay that cannot delete what it has stored says so, and the next one finds the results and ends it', async (t) => {
  const { archive, archived, stack, configFile, output } = await openService(t);
  await archive([loopMessage('a', 1), loopMessage('b', 2), '{"uri":"bad","data":"AAAA"}']);
  const proxy = await startHttpProxy(t, stack.aws.url);
  const body = Buffer.from('<Error><Code>AccessDenied</Code><Message>not you</Message></Error>');
  proxy.onRequest = ({ method, path }) => {
    if (method !== 'POST' || !path.includes('?delete')) return { kind: 'pass' };
    return { kind: 'answer', answer: { status: 403, headers: {}, body } };
  };
  const args = [
    'dlq',
    'replay',
    '--all',
    '--bucket',
    stack.bucket,
    '-c',
    configFile,
    '--redis-url',
    stack.redisUrl,
  ];
  const env = { ...stack.aws.environment, AWS_ENDPOINT_URL: proxy.url };
  const broken = (await warmCliJson(args, { env })) as CliAnswer<{
    error: string;
    code: string;
    failed: unknown[];
  }>;
  assert.equal(broken.code, 1);
  assert.deepEqual([broken.json.code, broken.json.failed.length], ['queue_unavailable', 1]);
  assert.match(broken.json.error, /dead-letters\/loops\/ cannot be deleted: not you/);
  assert.equal((await archived()).length, 3);
  assert.deepEqual(await Promise.all(['a', 'b'].map((uri) => outcomeOf(output, uri))), [1, 2]);
  proxy.onRequest = () => ({ kind: 'pass' });
  const { json } = (await warmCliJson(args, { env })) as CliAnswer<Replayed>;
  assert.deepEqual([json.succeeded, json.over, json.stillFailing, (await archived()).length], [0, 2, 1, 1]);
});

test('a Redis that is away ends a replay with its address, and every message stays', async (t) => {
  const { archive, archived, stack, configFile } = await openService(t);
  await archive([loopMessage('a', 1), loopMessage('b', 2)]);
  const args = ['dlq', 'replay', '--all', '--bucket', stack.bucket, '-c', configFile];
  const { code, json } = (await warmCliJson([...args, '--redis-url', 'redis://127.0.0.1:1'], {
    env: stack.aws.environment,
  })) as CliAnswer<{ error: string; code: string }>;
  assert.deepEqual([code, json.code], [1, 'results_unavailable']);
  assert.match(json.error, /Redis at redis:\/\/127\.0\.0\.1:1/);
  assert.equal((await archived()).length, 2);
});

test('a replay that is stopped has handed over whole parts, and what it did not look at stays as it was', async (t) => {
  const { archive, archived, stack, configFile, output } = await openService(t);
  const uris = Array.from({ length: 150 }, (_, i) => `r-${i}`);
  await archive(uris.map((uri, i) => loopMessage(uri, i)));
  useAws(stack.aws.environment);
  const place = await openDlq({ bucket: stack.bucket, config: configFile, 'redis-url': stack.redisUrl });
  assert.ok(place);
  t.after(() => place.close());
  let looked = 0;
  const counts = await replay(place, parseWhere([], 0), {
    dryRun: false,
    send: undefined,
    onFailed: ({ error }) => assert.fail(error),
    onProgress: (count) => {
      looked = count;
    },
    isStopped: () => looked > 0,
  });
  assert.ok(looked > 0 && looked < 150);
  assert.deepEqual(counts, { succeeded: looked, over: 0, failed: 0 });
  const left = await archived();
  assert.equal(left.length, 150 - looked);
  const outcomes = await Promise.all(uris.map((uri) => outcomeOf(output, uri)));
  assert.equal(outcomes.filter((outcome) => outcome === 'max_receives_exceeded').length, left.length);
});

test('a record that ends its process ends no other, nor the command', async (t) => {
  const { archive, archived, stack, configFile, output } = await openService(t);
  const ofService = await isolatedPids();
  await archive([loopMessage('a', 1), loopMessage('deadly', ENDLESS), loopMessage('b', 2)]);
  useAws(stack.aws.environment);
  const place = await openDlq({ bucket: stack.bucket, config: configFile, 'redis-url': stack.redisUrl });
  assert.ok(place);
  t.after(() => place.close());
  const { busyMs } = await isolatedCost(t);
  // The record stands for one that a defect of the native runtime ends: it is killed whenever it runs.
  const over = new AbortController();
  const killer = (async () => {
    while (!over.signal.aborted) {
      for (const pid of await busyIsolated(busyMs)) process.kill(pid, 'SIGSEGV');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  const failed: string[] = [];
  const counts = await replay(place, parseWhere([], 0), {
    dryRun: false,
    send: undefined,
    limitMs: 60_000,
    onFailed: ({ uri, error }) => failed.push(`${uri} ${error.code} ${error.message}`),
    onProgress: () => undefined,
  }).finally(() => over.abort());
  await killer;
  assert.deepEqual(counts, { succeeded: 2, over: 0, failed: 1 });
  assert.deepEqual(failed, ['deadly model_failed the model ended its process (SIGSEGV) on this record']);
  assert.deepEqual(await Promise.all(['a', 'b'].map((uri) => outcomeOf(output, uri))), [1, 2]);
  assert.equal((await archived()).length, 1);
  assert.deepEqual(await isolatedPids(), ofService);
});

test('a model that cannot be had is no fault of any record: the replay ends and every message stays', async (t) => {
  const { archive, archived, stack, dlqJson } = await startDlq(t);
  await archive([loopMessage('a', 1)]);
  const Key = `${modelPrefix(JOB)}current.json`;
  await stack.aws.s3.send(new PutObjectCommand({ Bucket: stack.bucket, Key, Body: '{"version"' }));
  const { code, json } = await dlqJson<{ error: string; code: string }>('replay', '--all');
  assert.deepEqual([code, json.code], [1, 'model_unavailable']);
  assert.match(json.error, /current\.json is no model pointer/);
  assert.equal((await archived()).length, 1);
});
