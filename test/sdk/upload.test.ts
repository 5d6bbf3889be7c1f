/** Bodies over the gateway's limit through the SDK, with an API whose uploads are elsewhere. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { DIRECT_BODY_BYTES, UPLOAD_BYTES } from '../../lib/contract/client-limits.ts';
import { type Fetch, InputQueue } from '../../sdk/index.ts';
import type { Hooks } from '../support/runner.ts';

/** S3 as a presigned URL reaches it, which notes what came. */
async function otherOrigin(t: Hooks, status = 200) {
  const seen: { headers: Readonly<Record<string, unknown>>; bytes: number }[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const { length } = await buffer(request);
      seen.push({ headers: request.headers, bytes: length });
      response.writeHead(status).end();
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return { seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const TOKEN = 'a-token-of-16-characters';
const BODY = ' '.repeat(DIRECT_BODY_BYTES + 1);

/** An API whose uploads are at `place`. */
function apiOf(place: (asked: { bytes: number; sha256: string }) => Response) {
  const bodies: string[] = [];
  const send: Fetch = async (url, { body }) => {
    assert.ok(typeof body === 'string');
    if (new URL(url).pathname === '/uploads') return place(JSON.parse(body));
    bodies.push(body);
    return Response.json({ predictions: ['{value=[1]}'] });
  };
  return { bodies, input: new InputQueue({ frontendUrl: 'http://api.example', token: TOKEN, fetch: send }) };
}

test('another origin gets the body and the headers of the answer, and nothing that says who calls', async (t) => {
  const { seen, url } = await otherOrigin(t);
  const { bodies, input } = apiOf(({ bytes, sha256 }) => {
    assert.equal(bytes, BODY.length);
    return Response.json({
      id: sha256,
      url: `${url}/key?X-Amz-Signature=1`,
      headers: { 'x-amz-checksum-sha256': 'c' },
    });
  });
  await input.predict(BODY);
  const [put] = seen;
  assert.equal(put?.bytes, BODY.length);
  assert.equal(put?.headers['content-length'], String(BODY.length));
  assert.equal(put?.headers['x-amz-checksum-sha256'], 'c');
  assert.equal(put?.headers['authorization'], undefined);
  assert.deepEqual(bodies, [JSON.stringify({ payload: createHash('sha256').update(BODY).digest('hex') })]);
});

test('an upload that is refused is an error without its signature, and nothing is predicted', async (t) => {
  const { url } = await otherOrigin(t, 403);
  const { bodies, input } = apiOf(({ sha256 }) =>
    Response.json({ id: sha256, url: `${url}/key?X-Amz-Signature=secret`, headers: {} }),
  );
  await assert.rejects(input.predict(BODY), (error: Error & { code: string }) => {
    assert.equal(error.code, 'queue_unavailable');
    assert.equal(error.message, `the body cannot be uploaded: ${url}/key answered 403`);
    return true;
  });
  assert.deepEqual(bodies, []);
});

test('a service of before, which takes no uploads, gets the body itself', async () => {
  for (const answer of [
    Response.json({ message: 'Not Found' }, { status: 404 }),
    Response.json({ error: 'no such path: /uploads', code: 'not_found' }, { status: 404 }),
  ]) {
    const { bodies, input } = apiOf(() => answer);
    await input.predict(BODY);
    assert.deepEqual(
      bodies.map(({ length }) => length),
      [BODY.length],
    );
  }
});

test('an address that is less safe than the API is not followed', async () => {
  const send: Fetch = async () =>
    Response.json({ id: 'i', url: 'http://elsewhere.example/key', headers: {} });
  const input = new InputQueue({ frontendUrl: 'https://api.example', token: TOKEN, fetch: send });
  await assert.rejects(input.predict(BODY), { code: 'bad_config', message: /which is not https/ });
});

test('a body over the limit of an upload is refused before anything is asked', async () => {
  const { bodies, input } = apiOf(() => assert.fail('asked'));
  await assert.rejects(input.predict(' '.repeat(UPLOAD_BYTES + 1)), {
    code: 'too_large',
    message: /the body is 33554433 bytes/,
  });
  assert.deepEqual(bodies, []);
});

test('bytes count, not characters; what has the very limit is not uploaded', async () => {
  let asked = 0;
  const { bodies, input } = apiOf(({ bytes }) => {
    asked = bytes;
    return Response.json({ code: 'not_found' }, { status: 404 });
  });
  const most = ' '.repeat(DIRECT_BODY_BYTES);
  await input.predict(most);
  assert.deepEqual([bodies, asked], [[most], 0]);
  // Three bytes each.
  await input.predict('€'.repeat(2_100_000));
  assert.equal(asked, 6_300_000);
});

test('an answer that does not say where to upload, and one that fails, are errors of the request', async () => {
  for (const body of [{ id: 'i' }, { url: 'http://api.example/key' }, {}, 'text']) {
    const { bodies, input } = apiOf(() => Response.json(body));
    await assert.rejects(input.predict(BODY), /does not say where to upload/, JSON.stringify(body));
    assert.deepEqual(bodies, []);
  }
  const { bodies, input } = apiOf(() => Response.json({ error: 'no', code: 'forbidden' }, { status: 403 }));
  await assert.rejects(input.predict(BODY), { code: 'forbidden' });
  assert.deepEqual(bodies, []);
});

test('an upload to the API itself, by a path, says who calls as every request does', async () => {
  const asked: (string | null)[][] = [];
  const send: Fetch = async (url, init) => {
    asked.push([init.method ?? 'GET', url, new Headers(init.headers).get('authorization')]);
    return url.endsWith('/uploads')
      ? Response.json({ id: 'an id', url: '/uploads/an-id' })
      : Response.json({ predictions: ['{value=[1]}'] });
  };
  const input = new InputQueue({ frontendUrl: 'http://api.example', token: TOKEN, fetch: send });
  await input.predict(BODY);
  assert.deepEqual(asked, [
    ['POST', 'http://api.example/uploads', `Bearer ${TOKEN}`],
    ['PUT', 'http://api.example/uploads/an-id', `Bearer ${TOKEN}`],
    ['POST', 'http://api.example/predict', `Bearer ${TOKEN}`],
  ]);
});
