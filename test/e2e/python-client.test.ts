/** Real pyarrow and redis-py against the running service, where they are installed (PYTHON names the interpreter). */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { encodeRefusal } from '../../lib/codecs/arrow/refusal.ts';
import { encodeBase64 } from '../../lib/codecs/encode-base64.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { OutputQueue } from '../../sdk/index.ts';
import { clientOptions, SAMPLE, testStack } from '../support/stack.ts';
import { ROOT } from '../support/start.ts';

const PYTHON = process.env['PYTHON'] ?? 'python3';
const run = promisify(execFile);
const python = async (script: string, ...args: string[]) =>
  JSON.parse((await run(PYTHON, [join(ROOT, 'test/python', script), ...args])).stdout) as unknown;

test('a record that pyarrow wrote is answered, and redis-py and pyarrow read the answer', async (t) => {
  if (spawnSync(PYTHON, ['-c', 'import numpy, pyarrow, redis']).status !== 0) {
    t.skip(`needs numpy, pyarrow and redis for ${PYTHON}`);
    return;
  }
  const stack = await testStack(t);
  const output = new OutputQueue(clientOptions(stack).output);
  t.after(() => output.close());
  const send = async (record: unknown) =>
    stack.aws.sqs.send(
      new SendMessageCommand({ QueueUrl: stack.queueUrl, MessageBody: JSON.stringify(record) }),
    );
  const { hostname, port } = new URL(stack.redisUrl);
  const read = (uri: string) => python('read_result.py', hostname, port, 'serving_stream', uri);

  const b64 = (await readFile(join(SAMPLE, 'images/digit-3.png'))).toString('base64');
  await send(await python('write_record.py', 'an image', 'image', JSON.stringify(b64)));
  const plane = Array.from({ length: 8 }, () => Array.from({ length: 8 }, (_, x) => x * 30));
  await send(await python('write_record.py', 'a:tensor', 'dense', JSON.stringify([plane, plane, plane])));
  await send(await python('write_record.py', 'wrong', 'dense', '[1,2]'));

  for (const uri of ['an image', 'a:tensor']) {
    const ours = (await output.wait(uri)).outputs[0]?.data as Float32Array;
    const theirs = (await read(uri)) as number[];
    assert.deepEqual(theirs.map(Math.fround), [...ours]);
  }
  await assert.rejects(output.wait('wrong'), { code: 'bad_input' });
  assert.equal(await read('wrong'), 'NaN');

  // The entry in Redis for a large result: an error that names the size, and no numbers.
  const refusal = encodeBase64(encodeRefusal('the result has 12000000 bytes and is in S3'));
  const redis = new RedisConnection(stack.redisUrl);
  t.after(() => redis.close());
  await redis.use((client) => client.hset('cluster-serving_serving_stream:large', 'value', refusal), true);
  await assert.rejects(read('large'), /the result has 12000000 bytes and is in S3/);
});
