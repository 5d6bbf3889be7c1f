/** The Python client, and the names of the former one, against the local service. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { RedisConnection } from '../../lib/redis/connection.ts';
import type { Stack } from '../../local/service/stack.ts';
import { parseConfig } from '../support/config.ts';
import { textsOf } from '../support/documents.ts';
import { WITH_PYTHON } from '../support/python.ts';
import { PATIENT } from '../support/redis.ts';
import { SAMPLE, testStack } from '../support/stack.ts';
import { MIGRATED, migratedProgram, python } from './python.ts';

/** Each project of `init` has a job of its own name, and a client need not know it. */
const JOBS = ['serving_stream', 'digits'] as const;
const configOf = (job: string) => `jobName: ${job}\nimageResize: 8,8`;

const cleanups: (() => unknown)[] = [];
let stack: Stack;
before(async () => {
  if (WITH_PYTHON.skip) return;
  const [first, ...others] = JOBS;
  const more = others.map((job) => ({
    job: parseConfig(configOf(job), 'test config'),
    modelDirectory: join(SAMPLE, 'model'),
  }));
  const hooks = { after: (cleanup: () => unknown) => cleanups.unshift(cleanup) };
  stack = await testStack(hooks, { config: configOf(first), more });
});
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

/** A job of the shared service, without results. */
async function serviceOf(job: string) {
  const connection = new RedisConnection(stack.redisUrl, PATIENT);
  await connection.use((redis) => redis.flushall(), false);
  await connection.close();
  return stack.jobs.find((one) => one.job === job) ?? assert.fail(job);
}

const IMAGE = JSON.stringify(`${SAMPLE}images/digit-3.png`);

for (const job of JOBS) {
  test(
    `a record is predicted, enqueued, waited for, queried, taken and cancelled (${job})`,
    WITH_PYTHON,
    async () => {
      const { url } = await serviceOf(job);
      const shown = await python(
        url,
        `
client = Client(URL, timeout=120)
show(client.is_ready())
found = client.predict({"image": ${IMAGE}})
show([str(found.output.dtype), found.output.shape, int(found.output.argmax()), list(found.outputs)])
show([int(each.output.argmax()) for each in client.predict([{"image": open(${IMAGE}, "rb")}, {"image": {"path": ${IMAGE}}}])])
show(error_of(lambda: client.predict({"image": [1, 2]}))[0])

mine = client.enqueue("a/b?c é", {"image": ${IMAGE}})
waited = client.wait(mine)
show([waited.uri, waited.identity == mine.identity, waited.output.tobytes() == found.output.tobytes(), waited.model == found.model])
show([client.status(mine), client.query("no such uri"), client.cancel(mine)])
show([client.query_and_delete(mine).uri, client.query(mine)])

bad = client.enqueue("bad", {"image": [1, 2]})
show(error_of(lambda: client.wait(bad))[:2])
show(client.cancel("later"))
show(error_of(lambda: client.query("later"))[0])

many = client.enqueue_many((f"r{i}", {"image": np.full((3, 8, 8), i, np.float32)}) for i in range(60))
outcomes = list(client.results(many, take=True))
show([outcome.uri for outcome in outcomes] == [f"r{i}" for i in range(60)] and all(outcome.result for outcome in outcomes))
show({uri: type(found).__name__ for uri, found in client.dequeue().items()})
show(client.dequeue())

async def main():
    async with AsyncClient(URL, timeout=120) as client:
        show(int((await client.predict({"image": ${IMAGE}})).output.argmax()))
        many = await client.enqueue_many([(f"s{i}", {"image": ${IMAGE}}) for i in range(20)])
        show([int(outcome.result.output.argmax()) async for outcome in client.results(many)] == [3] * 20)
        show((await client.query("s1")).uri)
        show([await client.query("none"), await client.status("s1"), await client.is_ready(), await client.cancel("s1")])
        show((await client.query_and_delete(many[0])).uri)
        show(len(await client.dequeue()))

asyncio.run(main())
`,
      );
      assert.deepEqual(shown, [
        true,
        ['float32', [10], 3, ['probabilities']],
        [3, 3],
        'bad_input',
        ['a/b?c é', true, true, true],
        ['succeeded', null, false],
        ['a/b?c é', null],
        ['bad_input', 'bad'],
        true,
        'cancelled',
        true,
        { bad: 'ServingError', later: 'ServingError' },
        {},
        3,
        true,
        's1',
        [null, 'succeeded', true, false],
        's0',
        19,
      ]);
    },
  );
}

for (const job of JOBS) {
  test(
    `the names of the former client work over HTTPS with the shapes of 0.11 (${job})`,
    WITH_PYTHON,
    async () => {
      const { url } = await serviceOf(job);
      const shown = await python(
        url,
        `
import time
from zoo.serving.client import InputQueue, OutputQueue, http_json_to_ndarray
from bigdl.serving.client import InputQueue as Same
show([Same is InputQueue, InputQueue("localhost", 6379).client is None, InputQueue().client is not None])
input, output = InputQueue(timeout=120), OutputQueue(timeout=120)
show(output.query("a:b"))
input.enqueue("a:b", image=${IMAGE})
input.enqueue("bad", t=np.array([1, 2]))
input.enqueue_tensor("tensor", np.zeros((3, 8, 8)))
while any(isinstance(output.query(uri), str) and output.query(uri) == "[]" for uri in ("a:b", "bad", "tensor")):
    time.sleep(0.02)
show([int(output.query("a:b").argmax()), output.query("bad")])
text = input.predict(json.dumps({"instances": [{"image": np.zeros((3, 8, 8)).tolist()}]}), timeout=120)
show(list(json.loads(text)))
show(http_json_to_ndarray(json.dumps({"predictions": ["{value=" + text + "}"]})).shape)
show(http_json_to_ndarray('{"predictions":["{\\\\"value\\\\":\\\\"{\\\\\\\\\\\\"data\\\\\\\\\\\\":[1.5],\\\\\\\\\\\\"shape\\\\\\\\\\\\":[1]}\\\\"}"]}').tolist())
show(output.query_and_delete("a:b").shape)
show({uri: getattr(found, "shape", found) for uri, found in output.dequeue().items()})
`,
        { CLUSTER_SERVING_URL: url },
      );
      assert.deepEqual(shown, [
        [true, true, true],
        '[]',
        [3, 'NaN'],
        ['data', 'shape'],
        [10],
        [1.5],
        [10],
        { bad: 'NaN', tensor: [10] },
      ]);
    },
  );
}

for (const job of JOBS) {
  test(`records go through SQS, one by one and in calls of ten (${job})`, WITH_PYTHON, async () => {
    const { url, queueUrl } = await serviceOf(job);
    const shown = await python(
      url,
      `
from zoo.serving.client import InputQueue
client = Client(URL, timeout=120, sqs=${JSON.stringify(queueUrl)})
many = client.enqueue_many((f"r{i}", {"image": np.full((3, 8, 8), i, np.float32)}) for i in range(45))
show(sum(outcome.error is None for outcome in client.results(many)))
odd = "one\\ufffe\\uffff"
InputQueue(sqs=${JSON.stringify(queueUrl)}, timeout=120).enqueue(odd, image=${IMAGE})
show(int(client.wait(odd).output.argmax()))
`,
      stack.aws.environment,
    );
    assert.deepEqual(shown, [45, 3]);
  });
}

for (const job of JOBS) {
  test(
    `names and dtypes need no name, and a wrong one says which job is served (${job})`,
    WITH_PYTHON,
    async () => {
      const { url } = await serviceOf(job);
      const shown = await python(
        url,
        `
for kw in ({}, {"name": ${JSON.stringify(job)}}):
    show([[name, str(each.dtype)] for name, each in Client(URL, timeout=120, **kw).predict({"image": ${IMAGE}}).outputs.items()])
wrong = Client(URL, timeout=120, name="other")
show(error_of(lambda: wrong.predict({"image": ${IMAGE}})))
from zoo.serving.client import InputQueue
show(InputQueue(url=URL, timeout=120).client.predict({"image": ${IMAGE}}).output.dtype.name)

async def main():
    async with AsyncClient(URL, timeout=120) as client:
        found = await asyncio.gather(*(client.predict({"image": ${IMAGE}}) for _ in range(8)))
        show([list(each.outputs) for each in found])

asyncio.run(main())
`,
      );
      assert.deepEqual(shown, [
        [['probabilities', 'float32']],
        [['probabilities', 'float32']],
        ['bad_config', null, `name: no model "other"; the model of this job is "${job}"`],
        'float32',
        Array.from({ length: 8 }, () => ['probabilities']),
      ]);
    },
  );
}

test('a filter is JSON, and its text for the former client', WITH_PYTHON, async (t) => {
  const { url } = await testStack(t, { config: 'imageResize: 8,8\npostProcessing: topN(1)' });
  const shown = await python(
    url,
    `
from zoo.serving.client import OutputQueue
client = Client(URL, timeout=120)
show([client.predict({"image": ${IMAGE}}).value[0][0], dict(client.predict({"image": ${IMAGE}}).outputs)])
waited = client.wait(client.enqueue("u", {"image": ${IMAGE}}))
show([waited.value[0][0], OutputQueue(url=URL).query("u")[:4]])
show([error_of(lambda: each.output)[2] for each in (client.predict({"image": ${IMAGE}}), waited, Client(URL).query("u"))])
`,
  );
  const answers = (filter: string) => `the job answers with its filter${filter}: read .value`;
  assert.deepEqual(shown, [
    [3, {}],
    [3, '[[3,'],
    [answers(' topN(1)'), answers(' topN(1)'), answers('')],
  ]);
});

for (const job of JOBS) {
  test(`a program of the former client runs with two lines changed (${job})`, WITH_PYTHON, async () => {
    const { url } = await serviceOf(job);
    const program = await migratedProgram(`url="${url}", timeout=120`, `${SAMPLE}images/digit-3.png`);
    const shown = await python(
      url,
      `
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as printed:
    exec(${JSON.stringify(program)})
from zoo.serving.client import http_response_to_ndarray
show(printed.getvalue())
sync = InputQueue(sync=True, frontend_url=URL)
response = sync.predict(json.dumps({"instances": [{"image": np.zeros((3, 8, 8)).tolist()}]}), timeout=120)
show(json.loads(response)["shape"])
# The last line of the guide's sample.
show([response.text.startswith('{"predictions":["{value='), http_response_to_ndarray(response).shape, response.json()["predictions"] == ["{value=" + response + "}"]])
import copy, pickle
show([copy.copy(response).text == response.text, pickle.loads(pickle.dumps(response)).text == response.text])
`,
    );
    assert.deepEqual(shown, [MIGRATED, [10], [true, [10], true], [true, true]]);
  });
}

for (const job of JOBS) {
  test(`the programs of docs/how-to/python.md run as they are (${job})`, WITH_PYTHON, async () => {
    const { url } = await serviceOf(job);
    const blocks = await textsOf('py', 'docs/how-to/python.md');
    assert.ok(blocks.length >= 4);
    const script = blocks
      .join('\n')
      .replaceAll('"http://localhost:10020"', `"${url}", timeout=120`)
      .replaceAll(/timeout=\d+\)/g, 'timeout=120)')
      .replaceAll('"digit-3.png"', IMAGE)
      .replaceAll('print(', 'show(str(');
    // Each print ends its line, or its line's comment.
    const shown = await python(url, script.replaceAll(/^(\s*show\(str\()(.*)\)$/gm, '$1[$2]))'));
    assert.deepEqual(shown[0], "[3, dtype('float32'), (10,)]");
    assert.match(String(shown[2]), /^\['[0-9a-f]{12}', None\]$/);
    assert.match(String(shown[3]), /^\['r0', \d\]$/);
    assert.equal(shown.length, 3 + 100 + 2);
    assert.equal(shown[103], '[[3, 3]]');
    assert.match(String(shown[104]), /^\['bad_input', 400, False, 'input "image": expected/);
  });
}
