/** Bodies over 6 MiB through both SDKs against the service on one machine. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { DIRECT_BODY_BYTES, UPLOAD_BYTES } from '../../lib/contract/client-limits.ts';
import type { Stack } from '../../local/service/stack.ts';
import { type Fetch, InputQueue, OutputQueue } from '../../sdk/index.ts';
import { python } from '../python/python.ts';
import { WITH_PYTHON } from '../support/python.ts';
import type { Hooks } from '../support/runner.ts';
import { testStack } from '../support/stack.ts';

const cleanups: (() => unknown)[] = [];
let stack: Stack;
before(async () => {
  stack = await testStack({ after: (cleanup) => cleanups.unshift(cleanup) });
});
after(async () => {
  for (const cleanup of cleanups) await cleanup();
});

/** A picture whose file has this many pixels of three bytes, and a line of another colour. */
function bitmap(width: number, height: number): Uint8Array {
  const row = Math.ceil((width * 3) / 4) * 4;
  const file = Buffer.alloc(54 + row * height, 40);
  file.fill(200, 54 + row * (height >> 1), 54 + row * (height >> 1) + row * (height >> 3));
  file.write('BM', 0, 'latin1');
  file.writeUInt32LE(file.length, 2);
  file.writeUInt32LE(0, 6);
  file.writeUInt32LE(54, 10);
  file.writeUInt32LE(40, 14);
  file.writeInt32LE(width, 18);
  file.writeInt32LE(height, 22);
  file.writeUInt16LE(1, 26);
  file.writeUInt16LE(24, 28);
  file.fill(0, 30, 54);
  return file;
}

const LARGE = bitmap(2_000, 1_500);
const ZEROS = { image: Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => Array(8).fill(1))) };

function clients(t: Hooks) {
  const asked: string[] = [];
  const send: Fetch = async (url, init) => {
    asked.push(`${init.method ?? 'GET'} ${new URL(url).pathname.replace(/[0-9a-f]{64}/, 'ID')}`);
    return fetch(url, init);
  };
  const input = new InputQueue({ frontendUrl: stack.url, fetch: send });
  const output = new OutputQueue({ url: stack.url });
  t.after(async () => {
    await Promise.all([input.close(), output.close()]);
  });
  return { input, output, asked };
}

test('a prediction and a record of 12 MB go through the API of one machine, and are answered as what they are', async (t) => {
  const { input, output, asked } = clients(t);
  const predicted = await input.predict({ image: { bytes: LARGE } });
  assert.deepEqual(asked.slice(0, 3), ['POST /uploads', 'PUT /uploads/ID', 'POST /predict']);
  const { identity } = await input.enqueue('large', { image: { bytes: LARGE } }, { expiresAfter: 600 });
  const result = await output.wait('large', { identity, timeoutMs: 60_000 });
  assert.deepEqual(result.outputs[0]?.data, predicted.outputs[0]?.data);
  assert.equal(asked.filter((each) => each === 'PUT /uploads/ID').length, 2);
});

test('a body is sent as it is up to the limit, uploaded above it, and refused above 32 MiB before anything is sent', async (t) => {
  const { input, asked } = clients(t);
  const request = JSON.stringify({ instances: [ZEROS] });
  const padded = (bytes: number) => request + ' '.repeat(bytes - request.length);
  const [small] = await input.predict(request);
  assert.deepEqual(await input.predict(padded(DIRECT_BODY_BYTES)), [small]);
  assert.deepEqual(asked, ['POST /predict', 'POST /predict']);
  assert.deepEqual(await input.predict(padded(DIRECT_BODY_BYTES + 1)), [small]);
  assert.deepEqual(await input.predict(padded(UPLOAD_BYTES)), [small]);
  asked.length = 0;
  await assert.rejects(input.predict(padded(UPLOAD_BYTES + 1)), {
    code: 'too_large',
    message: /payloadBytes/,
  });
  assert.deepEqual(asked, []);
});

test('over HTTP an upload is checked as it arrives, and answers both routes', async () => {
  const body = JSON.stringify({ instances: [ZEROS], uri: 'by hand' });
  const sha256 = createHash('sha256').update(body).digest('hex');
  const post = (path: string, json: object) =>
    fetch(stack.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(json),
    });
  const answer = await post('/uploads', { bytes: body.length, sha256 });
  assert.equal(answer.status, 201);
  const { url, expiresAt } = (await answer.json()) as { url: string; expiresAt: string };
  assert.equal(url, `/uploads/${sha256}`);
  assert.ok(Date.parse(expiresAt) > Date.now());
  const put = (text: string, id = sha256) =>
    fetch(`${stack.url}/uploads/${id}`, { method: 'PUT', body: text });
  const other = await put(`${body} `);
  assert.deepEqual(
    [other.status, await other.json()],
    [400, { error: 'the body is not the one whose sha256 POST /uploads was told', code: 'bad_request' }],
  );
  assert.equal((await put(body, 'x')).status, 400);
  assert.equal((await post('/predict', { payload: sha256 })).status, 404);
  assert.equal((await put(body)).status, 200);
  // The uploaded body has keys that POST /predictions alone takes.
  assert.equal((await post('/predict', { payload: sha256 })).status, 400);
  const enqueued = await post('/predictions?expiresAfter=60', { payload: sha256 });
  assert.equal(enqueued.status, 202);
  assert.equal(((await enqueued.json()) as { uri: string }).uri, 'by hand');
  const output = new OutputQueue({ url: stack.url });
  assert.ok(await output.wait('by hand'));
  await output.close();
});

test(
  'the Python client uploads what is too large for the gateway, to predict and to enqueue',
  WITH_PYTHON,
  async () => {
    const shown = await python(
      stack.url,
      `
image = np.full((1500, 2000, 3), 40, np.uint8)
import io, struct
row = 2000 * 3
pixels = image.tobytes()
header = b"BM" + struct.pack("<IIIIiiHHIIiiII", 54 + len(pixels), 0, 54, 40, 2000, 1500, 1, 24, 0, 0, 0, 0, 0, 0)
client = Client(URL, timeout=120)
large = header + pixels
found = client.predict({"image": large})
mine = client.enqueue("from python", {"image": large}, delay_seconds=0)
show(bool((client.wait(mine).output == found.output).all()))
show(error_of(lambda: client.enqueue("u", {"image": np.zeros(8 * 1024 * 1024, np.float32)}))[:2])

async def main():
    async with AsyncClient(URL, timeout=120) as many:
        return float((await many.predict({"image": large})).output.argmax())

show(asyncio.run(main()) == float(found.output.argmax()))
`,
    );
    assert.deepEqual(shown, [true, ['too_large', 'u'], true]);
  },
);
