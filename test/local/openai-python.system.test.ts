/** A batch on one machine, sent and fetched by OpenAI's client for Python, which is installed at the first run. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { childEnvironment } from '../support/environment.ts';
import { temporaryFolder } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';
import { textModelFolder } from '../support/text-models.ts';
import { installed, quiet } from '../support/tools.ts';

const VERSION = '3.57.0';
const PROGRAM = `
import json, sys, time
from openai import OpenAI, NotFoundError

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
file = client.files.create(file=open(sys.argv[2], "rb"), purpose="batch")
batch = client.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h", metadata={"a": "b"})
assert batch.status == "validating", batch
while batch.status not in ("completed", "failed", "expired", "cancelled"):
    time.sleep(0.2)
    batch = client.batches.retrieve(batch.id)
assert batch.status == "completed", batch
assert batch.metadata == {"a": "b"}, batch
output = client.files.content(batch.output_file_id)
names = [one.filename for one in client.files.list(limit=1)]
assert [one.id for one in client.batches.list()] == [batch.id]
assert client.files.delete(file.id).deleted
try:
    client.files.retrieve(file.id)
    raise SystemExit("the file is still there")
except NotFoundError as error:
    assert "No such File object" in str(error), error
lines = [json.loads(line) for line in output.text.splitlines()]
errors = [json.loads(line) for line in client.files.content(batch.error_file_id).text.splitlines()]
print(json.dumps({"counts": batch.request_counts.to_dict(), "lines": lines, "errors": errors, "names": names}))
`;

interface Said {
  readonly counts: object;
  readonly names: readonly string[];
  readonly lines: readonly { readonly custom_id: string; readonly response: { readonly body: object } }[];
  readonly errors: readonly {
    readonly custom_id: string;
    readonly response: { readonly status_code: number };
  }[];
}

test("OpenAI's client for Python sends a batch, waits for it and fetches what it wrote", async (t) => {
  const tool = await installed(`openai-python-${VERSION}`, async (folder) => {
    await quiet('python3', ['-m', 'venv', folder]);
    await quiet(join(folder, 'bin', 'python'), ['-m', 'pip', 'install', '-q', `openai==${VERSION}`]);
  });
  if ('missing' in tool) return t.skip(tool.missing);
  const { url } = await testStack(t, { modelDirectory: textModelFolder(t, 'encoder') });
  const line = (id: string, input: unknown) =>
    JSON.stringify({
      custom_id: id,
      method: 'POST',
      url: '/v1/embeddings',
      body: { model: 'serving_stream', input },
    });
  const path = join(await temporaryFolder(t), 'requests.jsonl');
  await writeFile(path, [line('a', 'a text'), line('b', ['one', 'two']), line('c', 3)].join('\n'));
  const python = join(tool.folder, 'bin', 'python');
  const options = { env: childEnvironment({}), timeout: 120_000 };
  const { stdout } = await promisify(execFile)(python, ['-c', PROGRAM, url, path], options);
  const said = JSON.parse(stdout) as Said;
  assert.deepEqual(said.counts, { total: 3, completed: 2, failed: 1 });
  assert.equal(said.names.length, 3);
  assert.deepEqual(
    said.errors.map(({ custom_id: id, response }) => [id, response.status_code]),
    [['c', 400]],
  );
  const body = JSON.stringify({ model: 'serving_stream', input: ['one', 'two'] });
  const direct = await (await fetch(`${url}/v1/embeddings`, { method: 'POST', body })).json();
  assert.deepEqual([said.lines[1]?.custom_id, said.lines[1]?.response.body], ['b', direct]);
});
