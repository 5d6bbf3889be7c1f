/** `cluster-serving dlq`: list, show and purge through the local stack, and what is refused. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { HeadObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { findDeadLetters, parseWhere } from '../../../cli/dlq/where.ts';
import { encodeDeadLetter } from '../../../lib/codecs/dead-letter.ts';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { deadLetterPrefix, payloadPrefix } from '../../../lib/contract/names.ts';
import { openS3 } from '../../../lib/s3/client.ts';
import { DeadLetters } from '../../../lib/s3/dead-letters.ts';
import { useAws } from '../../support/environment.ts';
import { until } from '../../support/until.ts';
import { type CliAnswer, MODEL, serviceFolder } from '../cli.ts';
import { runHere } from '../in-process.ts';
import { warmCli, warmCliJson } from '../warm.ts';
import { JOB, loopMessage, outcomeOf, sharedDlq } from './support.ts';

const openService = sharedDlq();

interface Listed {
  readonly deadLetters: readonly {
    readonly id: string;
    readonly uri?: string;
    readonly attempts?: number;
    readonly bytes: number;
    readonly result?: { readonly status: string; readonly code?: string };
    readonly readable?: boolean;
  }[];
  readonly count: number;
  readonly next?: string;
}

interface Shown {
  readonly uri?: string;
  readonly message: string;
  readonly payload?: { readonly key: string; readonly bytes?: number };
  readonly inputs?: readonly {
    readonly name: string;
    readonly kind: string;
    readonly dtype?: string;
    readonly shape?: readonly number[];
    readonly first: readonly (number | string)[];
  }[];
  readonly error?: { readonly code: string };
}

test('list tells id, uri, attempts, size and the stored failure, page by page, and conditions narrow it', async (t) => {
  const { archive, archived, dlq, dlqJson, output } = await openService(t);
  await archive([loopMessage('day1/a', 1), loopMessage('day1/b', 2), loopMessage('day2/c', 3), 'no JSON']);
  // A dead letter is archived before its failure is stored.
  for (const uri of ['day1/a', 'day1/b', 'day2/c'])
    await until(async () => (await outcomeOf(output, uri)) === 'max_receives_exceeded');
  await assert.rejects(output.queryAndDelete('day2/c'), { code: 'max_receives_exceeded' });
  const all = await dlqJson<Listed>('list');
  assert.equal(all.code, 0, all.stderr);
  assert.deepEqual(
    all.json.deadLetters.map(({ id }) => id),
    await archived(),
  );
  const facts = all.json.deadLetters.map(({ uri, attempts, result }) => [uri, attempts, result?.code]);
  assert.deepEqual(
    facts.sort((a, b) => String(a[0]).localeCompare(String(b[0]))),
    [
      ['day1/a', 2, 'max_receives_exceeded'],
      ['day1/b', 2, 'max_receives_exceeded'],
      ['day2/c', 2, undefined],
      [undefined, 2, undefined],
    ],
  );
  const first = await dlqJson<Listed>('list', '--limit', '3');
  assert.deepEqual([first.json.count, first.json.next], [3, all.json.deadLetters[2]?.id]);
  const rest = await dlqJson<Listed>('list', '--after', first.json.next as string);
  assert.deepEqual(
    [rest.json.next, rest.json.deadLetters.map(({ id }) => id)],
    [undefined, [all.json.deadLetters[3]?.id]],
  );
  const uris = async (...conditions: string[]) =>
    (await dlqJson<Listed>('list', ...conditions)).json.deadLetters.map(({ uri }) => uri ?? '').sort();
  assert.deepEqual(await uris('uri=day1/*'), ['day1/a', 'day1/b']);
  assert.deepEqual(await uris('--where', 'uri=day2/c', '--where', 'code=none'), ['day2/c']);
  assert.deepEqual(await uris('code=max_receives_exceeded', 'since=1h'), ['day1/a', 'day1/b']);
  assert.deepEqual(await uris('until=1h'), []);
  const text = await dlq('list', 'uri=day1/a');
  assert.match(
    text.stdout,
    /^id +archived +attempts +size +stored result +uri\n\S{36} .+ 2 +\d+ B +max_receives_exceeded +day1\/a\n$/,
  );
});

test('show decodes the inputs, also behind a pointer, and says why when it cannot', async (t) => {
  const { archive, archived, dlq, dlqJson, stack } = await openService(t);
  const key = `${payloadPrefix(JOB)}large-1`;
  const { bucket } = stack;
  const Body = loopMessage('large', 17);
  await stack.aws.s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body }));
  const bodies = [loopMessage('small', 4), encodePointer('large', key), '{"uri":"odd\u202e","data":"AAAA"}'];
  await archive(bodies);
  const shown = new Map<string, Shown & { readonly id: string }>();
  for (const id of await archived()) {
    const { json } = await dlqJson<Shown>('show', id);
    shown.set(json.uri ?? '', { ...json, id });
  }
  const rounds = (first: number) => [
    { name: 'rounds', kind: 'tensor', dtype: 'float64', shape: [], first: [first] },
  ];
  assert.deepEqual(shown.get('small')?.inputs, rounds(4));
  assert.deepEqual(shown.get('large')?.inputs, rounds(17));
  assert.deepEqual(shown.get('large')?.payload, { key, bytes: Buffer.byteLength(Body) });
  const odd = shown.get('odd\u202e');
  assert.equal(odd?.error?.code, 'bad_request');
  assert.equal(odd?.message, bodies[2]);
  const text = await dlq('show', shown.get('large')?.id as string);
  assert.match(
    text.stdout,
    /\nuri +large\n[\s\S]*\npayload +s3:.*large-1[\s\S]*\ninputs +rounds tensor float64\[\] {2}17\n/,
  );
  // Characters that reverse a terminal's text do not reach it.
  assert.doesNotMatch((await dlq('show', odd?.id ?? '')).stdout, /\u202e/);
  const missing = await dlqJson<{ code: string }>('show', 'nowhere');
  assert.deepEqual([missing.code, missing.json.code], [1, 'not_found']);
});

test('purge asks, deletes what is meant with its payloads, and nothing else', async (t) => {
  const { archive, archived, dlq, dlqJson, stack } = await openService(t);
  const key = `${payloadPrefix(JOB)}large-2`;
  await stack.aws.s3.send(
    new PutObjectCommand({ Bucket: stack.bucket, Key: key, Body: loopMessage('old/large', 1) }),
  );
  await archive([encodePointer('old/large', key), loopMessage('old/b', 2), loopMessage('new', 3), 'no JSON']);
  const asked = await dlq('purge', 'uri=old/*');
  assert.deepEqual([asked.code, (await archived()).length], [2, 4]);
  assert.match(asked.stderr, /deletes 2 dead letters of loops .* no terminal to ask at; pass --yes/);
  const purged = await dlqJson<{ purged: number }>('purge', 'uri=old/*', '-y');
  assert.deepEqual([purged.code, purged.json], [0, { purged: 2 }]);
  assert.equal((await archived()).length, 2);
  const head = new HeadObjectCommand({ Bucket: stack.bucket, Key: key });
  await assert.rejects(stack.aws.s3.send(head), { name: 'NotFound' });
  const [id = ''] = await archived();
  assert.deepEqual((await dlqJson('purge', id, '-y')).json, { purged: 1 });
  assert.deepEqual((await dlqJson('purge', '--all', '-y')).json, { purged: 1 });
  assert.deepEqual((await dlqJson('purge', '--all', '-y')).json, { purged: 0 });
});

test('the local service is found by its data folder, with its own config', async (t) => {
  const cwd = await serviceFolder(t);
  const none = (await warmCliJson(['dlq', 'list'], { cwd })) as CliAnswer<{ code: string }>;
  assert.deepEqual([none.code, none.json.code], [3, 'not_running']);
  await writeFile(join(cwd, 'job.yaml'), `jobName: cats\nmodelPath: ${MODEL}\nimageResize: 8,8\n`);
  const started = await warmCliJson(['start', '-c', 'job.yaml', '--port', '0'], { cwd });
  assert.equal(started.code, 0, started.stderr);
  const { environment, bucket, job } = started.json as {
    environment: Record<string, string>;
    bucket: string;
    job: string;
  };
  const s3 = openS3({ endpoint: environment['AWS_ENDPOINT_URL'], region: 'local' });
  t.after(() => s3.destroy());
  useAws(environment);
  const body = JSON.stringify({ uri: 'x', data: '{"instances":[{"image":[1]}]}', serde: 'stream' });
  const text = encodeDeadLetter({
    messageId: 'one',
    sentAt: 0,
    identity: 'one',
    replays: 0,
    attempts: 5,
    body,
  });
  await s3.send(
    new PutObjectCommand({ Bucket: bucket, Key: `${deadLetterPrefix(job)}one.json`, Body: text }),
  );
  const { json } = (await warmCliJson(['dlq', 'list'], { cwd })) as CliAnswer<Listed>;
  assert.deepEqual(
    json.deadLetters.map(({ id, uri }) => [id, uri]),
    [['one', 'x']],
  );
  const replayed = await warmCli(['dlq', 'replay', 'one'], { cwd });
  assert.equal(replayed.code, 1, replayed.stderr);
  assert.match(replayed.stdout, /still fail +1\n {2}bad_input +1/);
  await warmCli(['stop'], { cwd });
});

/** A bucket with any number of dead letters that exist only in its answers. */
async function endlessBucket(t: TestContext, objects: number) {
  const asked = { lists: 0, gets: 0 };
  const id = (i: number) => `m-${String(i).padStart(9, '0')}`;
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    if (!url.searchParams.has('list-type')) {
      asked.gets++;
      const i = Number(/m-(\d+)/.exec(url.pathname)?.[1]);
      response.end(
        encodeDeadLetter({
          messageId: id(i),
          sentAt: 0,
          identity: id(i),
          replays: 0,
          attempts: 5,
          body: `{"uri":"u${i}","data":""}`,
        }),
      );
      return;
    }
    asked.lists++;
    response.setHeader('content-type', 'application/xml');
    if (url.searchParams.get('prefix') !== deadLetterPrefix('big')) {
      response.end('<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>');
      return;
    }
    const after = /m-(\d+)\.json$/.exec(url.searchParams.get('start-after') ?? '')?.[1];
    const from = after === undefined ? 0 : Number(after) + 1;
    const to = Math.min(objects, from + 1_000);
    const contents = Array.from(
      { length: to - from },
      (_, i) =>
        `<Contents><Key>${deadLetterPrefix('big')}${id(from + i)}.json</Key><Size>80</Size><LastModified>2026-11-21T00:00:00.000Z</LastModified></Contents>`,
    );
    response.end(
      `<ListBucketResult><IsTruncated>${to < objects}</IsTruncated>${contents.join('')}</ListBucketResult>`,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  useAws({ AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x' });
  const s3 = openS3({ endpoint: `http://127.0.0.1:${port}`, region: 'local' });
  t.after(() => s3.destroy());
  return { asked, source: { deadLetters: new DeadLetters(s3, 'bucket', 'big'), results: undefined } };
}

test('of 100,000 dead letters a listing of the first 150 reads one page of the archive and no more messages than their parts', async (t) => {
  const { asked, source } = await endlessBucket(t, 100_000);
  const uris: (string | undefined)[] = [];
  for await (const part of findDeadLetters(source, parseWhere([], 0))) {
    uris.push(...part.map(({ uri }) => uri));
    if (uris.length >= 150) break;
  }
  assert.deepEqual([uris[0], uris[149], asked], ['u0', 'u149', { lists: 1, gets: 200 }]);
});

test('a time is asked of the listing alone: no message of 20,000 is read that is too old', async (t) => {
  const { asked, source } = await endlessBucket(t, 20_000);
  const where = parseWhere(['since=2026-11-22'], 0);
  for await (const part of findDeadLetters(source, where)) assert.deepEqual(part, []);
  assert.deepEqual(asked, { lists: 20, gets: 0 });
});

const WRONG: readonly (readonly [what: string, args: readonly string[], message: RegExp])[] = [
  ['no action', [], /dlq: expected list, show, replay or purge, got nothing/],
  ['an action there is not', ['delete'], /got "delete"/],
  ['a replay of nothing in particular', ['replay'], /dlq replay what\? Give ids, conditions .*, or --all/],
  ['a purge of all and of some', ['purge', '--all', 'uri=a'], /dlq purge what\?/],
  ['a show without an id', ['show'], /dlq show: which id\?/],
  ['a field there is not', ['list', 'name=x'], /"name=x": expected code=/],
  ['a condition without a value', ['list', 'uri='], /uri= needs a value/],
  ['a condition twice', ['list', 'uri=a', '--where', 'uri=b'], /uri is given twice/],
  ['a time that is none', ['purge', 'until=soon', '-y'], /expected a time .* or so long ago/],
  ['an option of another action', ['list', '--dry-run'], /--dry-run belongs to dlq replay/],
  [
    'an id that leads elsewhere',
    ['show', '../../models/x', '--bucket', 'b'],
    /expected the id of a dead letter/,
  ],
  [
    'a code without Redis',
    ['list', 'code=x', '--bucket', 'b'],
    /pass --redis-url to say where results are stored/,
  ],
  ['a replay whose results have no place', ['replay', '--all', '--bucket', 'b'], /where are the results\?/],
];
for (const [what, args, message] of WRONG) {
  test(`${what} is exit code 2 and says what to do`, async () => {
    const { code, text } = await runHere(['dlq', ...args]);
    assert.match(text, message);
    assert.equal(code, 2);
  });
}

test('a message whose uri stands behind its data, and one cut in the middle of an escape, are listed by their uri', async (t) => {
  const { archive, dlqJson, output } = await openService(t);
  const quoted = 'quo"ted\\';
  const long = JSON.stringify({ uri: quoted, data: '\\"'.repeat(3_000) });
  const late = `{"data":"${'x'.repeat(9_000)}","uri":"late"}`;
  await archive([long, late]);
  const { json } = await dlqJson<Listed>('list');
  assert.deepEqual(json.deadLetters.map(({ uri }) => uri ?? '').sort(), ['late', quoted]);
  assert.equal(await outcomeOf(output, 'late'), 'max_receives_exceeded');
});
