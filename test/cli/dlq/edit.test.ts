/** `cluster-serving dlq replay --edit` and `--payload`, through the local stack: a changed payload is a new enqueue, and nothing is lost on the way. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeDeadLetter } from '../../../lib/codecs/dead-letter.ts';
import { encodePointer } from '../../../lib/codecs/pointer.ts';
import { DEFAULT_JOB } from '../../../lib/config/job.ts';
import { deadLetterPrefix, payloadPrefix } from '../../../lib/contract/names.ts';
import { present } from '../../../lib/contract/present.ts';
import type { SentRecord } from '../../../lib/pipeline/submit.ts';
import { DeadLetters } from '../../../lib/s3/dead-letters.ts';
import { putText } from '../../../lib/s3/objects.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { editableText, replayEdited } from '../../../local/console/edit.ts';
import { childEnvironment } from '../../support/environment.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { ROOT } from '../../support/start.ts';
import { until } from '../../support/until.ts';
import { loopMessage, outcomeOf, sharedDlq } from './support.ts';

const openService = sharedDlq();

interface Edited {
  readonly id: string;
  readonly sent: boolean;
  readonly uri?: string;
  readonly identity?: string;
}

test('a payload that is given is enqueued under the uri of the dead letter, which leaves the bucket, and gets its result', async (t) => {
  const { archive, archived, dlq, dlqJson, output, stack } = await openService(t);
  await archive(['{"uri":"a","data":"AAAA"}', loopMessage('b', 7)]);
  const queue = ['--queue-url', stack.queueUrl];
  const idOf = async (uri: string) => {
    const { json } = await dlqJson<{ deadLetters: { id: string }[] }>('list', `uri=${uri}`);
    return present(json.deadLetters[0], uri).id;
  };
  const id = await idOf('a');
  const payload = '{"instances": [{"rounds": 5}]}';
  const dry = await dlqJson<Edited>('replay', id, '--payload', payload, '--dry-run', ...queue);
  assert.deepEqual([dry.code, dry.json.sent, dry.json.uri], [0, false, 'a']);
  assert.equal((await archived()).length, 2);
  const { code, json } = await dlqJson<Edited>('replay', id, '--payload', payload, ...queue);
  assert.deepEqual([code, json], [0, { id, sent: true, uri: 'a', identity: dry.json.identity }]);
  await until(async () => (await outcomeOf(output, 'a')) === 5);
  assert.equal((await output.query('a'))?.identity, json.identity);

  // Another uri is another record, and the failure of the first one stays.
  const file = join(await temporaryFolder(t), 'b.json');
  await writeFile(file, '{"uri": "c", "instances": [{"rounds": 3}]}');
  assert.equal((await dlq('replay', await idOf('b'), '--payload', file, ...queue)).code, 0);
  await until(async () => (await outcomeOf(output, 'c')) === 3);
  assert.equal(await outcomeOf(output, 'b'), 'max_receives_exceeded');
  assert.deepEqual(await archived(), []);
});

test('a payload that no record can have is refused, and so are several ids; the dead letters stay', async (t) => {
  const { archive, archived, dlq, stack } = await openService(t);
  await archive([loopMessage('a', 7), loopMessage('b', 8)]);
  const ids = await archived();
  const [id = ''] = ids;
  const queue = ['--queue-url', stack.queueUrl];
  const refused: readonly (readonly [args: readonly string[], message: RegExp])[] = [
    [[id, '--payload', '{"instances": []}', ...queue], /instances/],
    [[id, '--payload', '{"instances": [{"rounds": 1}', ...queue], /JSON/],
    [[id, '--payload', '{"instances": [{"rounds": 1}, {"rounds": 2}]}', ...queue], /one record/],
    [[id, '--payload', '{"instances": [{"rounds": 1}], "prority": 1}', ...queue], /priority|unknown/],
    [[id, '--payload', '/no/such/file', ...queue], /\/no\/such\/file/],
    [[...ids, '--payload', '{}', ...queue], /one id/],
    [['--all', '--edit', ...queue], /one id/],
    [[id, '--edit', '--enqueue', ...queue], /one id/],
    [[id, '--edit', ...queue], /neither is set; --payload/],
    [[id, '--edit'], /into which queue/],
  ];
  for (const [args, message] of refused) {
    const { code, stderr } = await dlq('replay', ...args);
    assert.notEqual(code, 0, args.join(' '));
    assert.match(stderr, message);
  }
  assert.deepEqual(await archived(), ids);
});

/** A command with a terminal of its own. @returns what it printed */
async function atTerminal(args: readonly string[], env: Readonly<Record<string, string>>, cwd: string) {
  const program = [process.execPath, join(ROOT, 'cli/bin/cluster-serving.mjs'), ...args];
  const script = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';
  const child = spawn('python3', ['-c', script, ...program], { cwd, env: childEnvironment(env) });
  let text = '';
  child.stdout.on('data', (chunk) => (text += String(chunk)));
  const [code]: unknown[] = await once(child, 'exit');
  return { code, text };
}

test('an editor gets the record as JSON; what it changes is enqueued, what cannot be sent is kept, and no change sends nothing', async (t) => {
  const { archive, archived, output, stack, configFile } = await openService(t);
  await archive([loopMessage('a', 7)]);
  const [id = ''] = await archived();
  const folder = await temporaryFolder(t);
  const edit = async (script: string) => {
    const editor = join(folder, 'editor.sh');
    await writeFile(editor, `#!/bin/sh\n${script}\n`);
    await chmod(editor, 0o700);
    const place = ['--bucket', stack.bucket, '-c', configFile, '--redis-url', stack.redisUrl];
    const args = ['dlq', 'replay', id, '--edit', ...place, '--queue-url', stack.queueUrl];
    return atTerminal(args, { ...stack.aws.environment, EDITOR: `${editor} --wait` }, folder);
  };
  // The first argument is the option.
  const same = await edit('true');
  assert.match(same.text, /the payload was not changed: nothing was sent/);
  const broken = await edit('echo "{" > "$2"');
  assert.notEqual(broken.code, 0);
  const [, kept = ''] = /what you wrote is in (\S+)/.exec(broken.text) ?? [];
  assert.equal((await readFile(kept, 'utf8')).trim(), '{');
  assert.match((await edit('exit 3')).text, /the editor ended with 3/);
  assert.deepEqual(await archived(), [id]);
  const changed = await edit(`cp "$2" ${join(folder, 'shown.json')}; sed -i s/7/4/ "$2"`);
  assert.equal(changed.code, 0, changed.text);
  assert.deepEqual(JSON.parse(await readFile(join(folder, 'shown.json'), 'utf8')), {
    uri: 'a',
    instances: [{ rounds: 7 }],
  });
  await until(async () => (await outcomeOf(output, 'a')) === 4);
  assert.deepEqual(await archived(), []);
});

async function archiveOf(t: TestContext, letter: Partial<Parameters<typeof encodeDeadLetter>[0]>) {
  const aws = await startAws({ port: 0, log: { info: ignore, warn: ignore, error: ignore } });
  t.after(() => aws.close());
  await aws.createBucket('bucket');
  const job = { ...DEFAULT_JOB, jobName: 'job' };
  const whole = { messageId: 'm', sentAt: 1, identity: 'i', replays: 0, attempts: 5, body: '', ...letter };
  await putText(
    aws.s3,
    { bucket: 'bucket', key: `${deadLetterPrefix('job')}m.json` },
    encodeDeadLetter(whole),
  );
  return { job, s3: aws.s3, bucket: 'bucket', deadLetters: new DeadLetters(aws.s3, 'bucket', 'job') };
}

function ignore(): void {
  // Quiet.
}

test('a caller that is killed before or after the enqueue finds the dead letter, and sends the same enqueue again', async (t) => {
  const place = await archiveOf(t, { body: '{"uri":"a","data":"AAAA"}', notify: 'shop', groupId: 'g' });
  const sent: SentRecord[] = [];
  const text = '{"instances": [{"x": 12345678901234567890}]}';
  const away = async () => {
    throw new Error('SQS is away');
  };
  await assert.rejects(replayEdited(place, 'm', text, away), /SQS is away/);
  const killed = {
    messages: place.deadLetters.messages.bind(place.deadLetters),
    remove: away,
  };
  const enqueue = async (record: SentRecord) => void sent.push(record);
  await assert.rejects(replayEdited({ ...place, deadLetters: killed }, 'm', text, enqueue));
  await replayEdited(place, 'm', text, enqueue);
  assert.deepEqual(sent[0], sent[1]);
  const [record] = sent;
  assert.deepEqual([record?.uri, record?.notify, record?.groupId], ['a', 'shop', 'g']);
  assert.notEqual(record?.identity, 'i');
  assert.match(record?.message ?? '', /12345678901234567890/);
  await assert.rejects(replayEdited(place, 'm', text, enqueue), { code: 'not_found' });
});

const SHOWN: readonly (readonly [what: string, body: string, text: string])[] = [
  [
    'JSON, with the digits of its numbers',
    JSON.stringify({ uri: 'ü', data: '{"instances":[{"x":12345678901234567890}]}', serde: 'stream' }),
    '{"uri":"ü","instances":[{"x":12345678901234567890}]}',
  ],
  [
    'what cannot be read, as its message',
    '{"uri":"a","data":"AAAA"}',
    '{\n  "uri": "a",\n  "data": "AAAA"\n}',
  ],
  ['what is no JSON', 'no JSON', 'no JSON'],
];
for (const [what, body, text] of SHOWN)
  test(`an editor shows ${what}`, async (t) => {
    assert.equal(await editableText(await archiveOf(t, { body }), 'm'), text);
  });

test('a record in S3 is read for an editor', async (t) => {
  const key = `${payloadPrefix('job')}0b0c7f2e-6a52-4a53-9f0e-0c8d7c5f8a11`;
  const body = encodePointer('a', key, 2_000_000);
  const place = await archiveOf(t, { body });
  await putText(
    place.s3,
    { bucket: 'bucket', key },
    '{"uri":"a","data":"{\\"instances\\":[{\\"x\\":1}]}","serde":"stream"}',
  );
  assert.deepEqual(JSON.parse(await editableText(place, 'm')), { uri: 'a', instances: [{ x: 1 }] });
});
