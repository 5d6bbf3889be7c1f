/** A new version whose time ends on its way to a function: what is kept of it, and when the function goes on. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { openVersions } from '../../../lib/compose/versions.ts';
import type { Runner } from '../../../lib/contract/values.ts';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { temporaryFolder } from '../../support/runner.ts';

const REFRESH_MS = 1_000;
const LEFT_MS = 60_000;
const FILE = Buffer.from('0123456789');

type Step = 'before its bytes' | 'between its bytes' | 'in its opening';

/** A job with v1, then v2, in an S3 without a network, and a call whose time ends at a step of its own. */
async function scene(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const logged: string[] = [];
  const write = process.stdout.write.bind(process.stdout) as (...given: unknown[]) => boolean;
  // The output of the test runner goes the same way.
  t.mock.method(process.stdout, 'write', (text: unknown, ...rest: unknown[]) =>
    String(text).startsWith('{"level"') ? logged.push(String(text)) > 0 : write(text, ...rest),
  );
  const state = { version: 'v1', nowMs: 0, ends: undefined as Step | undefined, readMs: 0 };
  const errors: string[] = [];
  const asked: string[] = [];
  const opened: string[] = [];
  const end = (step: Step) => {
    if (state.ends === step) t.mock.timers.tick(LEFT_MS);
  };
  async function* body(key: string, range: string, signal: AbortSignal) {
    if (key === 'current.json') {
      const sha256 = createHash('sha256').update(FILE).digest('hex');
      const files = [{ path: 'a', bytes: FILE.length, sha256 }];
      yield Buffer.from(JSON.stringify({ version: state.version, files }));
      return;
    }
    const start = Number(/\d+/.exec(range)?.[0]);
    end('before its bytes');
    signal.throwIfAborted();
    yield FILE.subarray(start, start + 5);
    end('between its bytes');
    signal.throwIfAborted();
    yield FILE.subarray(start + 5);
    state.nowMs += state.readMs;
  }
  const s3 = {
    send: async (
      { input }: { input: { Key: string; Range: string } },
      { abortSignal }: { abortSignal: AbortSignal },
    ) => {
      asked.push(input.Key === 'current.json' ? 'version' : input.Range);
      return { ETag: 'etag', Body: body(input.Key, input.Range, abortSignal) };
    },
    destroy: () => undefined,
  } as unknown as S3Client;
  const model = openVersions<Runner>({
    s3,
    location: { bucket: 'b', prefix: '' },
    directory: await temporaryFolder(t),
    open: async (_folder, { version }) => {
      opened.push(version);
      end('in its opening');
      await new Promise((resolve) => setImmediate(resolve));
      return { version, run: async () => [], close: async () => undefined };
    },
    refreshMs: REFRESH_MS,
    now: () => state.nowMs,
    onError: (error) => errors.push(error.message),
    leftMs: () => LEFT_MS,
  });
  const serve = async (more: Partial<typeof state> = {}) => {
    Object.assign(state, { ends: undefined, readMs: 0 }, more);
    asked.length = 0;
    return model.use(async ({ version }) => version);
  };
  assert.equal(await serve(), 'v1');
  state.nowMs = REFRESH_MS;
  state.version = 'v2';
  logged.length = 0;
  return { state, serve, errors, asked, opened, logged };
}

for (const [what, call, message, rest] of [
  [
    'while it comes',
    { ends: 'between its bytes' },
    '5 bytes of it are here, and the next request continues',
    ['bytes=5-9'],
  ],
  ['too late to be opened', { readMs: LEFT_MS }, 'it is here, and the next request opens it', []],
  [
    'while it is opened',
    { ends: 'in its opening' },
    'it is being opened, and the next request waits for it',
    [],
  ],
] as const) {
  test(`a version that the end of its time meets ${what} continues in the next call, and is not an error`, async (t) => {
    const { serve, errors, asked, opened, logged } = await scene(t);
    assert.equal(await serve(call), 'v1');
    const lines = logged.map((text) => (JSON.parse(text) as { message: string }).message);
    assert.deepEqual(lines, [`version v2 of the model: ${message}`]);
    assert.equal(await serve(), 'v2');
    assert.deepEqual(asked, ['version', ...rest]);
    assert.deepEqual([opened, errors], [['v1', 'v2'], []]);
  });
}

test('a version of which nothing came is an error, and is asked for when it is due', async (t) => {
  const { state, serve, errors, asked, opened } = await scene(t);
  assert.equal(await serve({ ends: 'before its bytes' }), 'v1');
  assert.deepEqual(errors, [
    'version v2 of the model: 0 bytes of it are here, and the next request continues',
  ]);
  assert.deepEqual([await serve(), asked], ['v1', []]);
  state.nowMs += REFRESH_MS;
  assert.equal(await serve(), 'v2');
  assert.deepEqual(opened, ['v1', 'v2']);
});
