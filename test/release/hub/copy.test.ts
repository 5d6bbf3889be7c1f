/** Models of the hub of Hugging Face: what is asked of it, what is downloaded, and what a hub that lies gets. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { readHubAddress } from '../../../lib/config/model-path.ts';
import { GraphBuilder } from '../../../onnx-import/graph/builder.ts';
import { importModel } from '../../../onnx-import/import/import.ts';
import { writeOnnx } from '../../../onnx-import/onnx/write.ts';
import { readOrigin } from '../../../onnx-import/source/hub-origin.ts';
import { copyFromHub, type HubCopyOptions } from '../../../release/hub/copy.ts';
import { type Lie, type StandInHub, startHub } from '../../support/hub.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

const MODEL = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
const ADDRESS = 'hf://org/name';
const TOKEN = 'hf_a-secret-that-is-never-shown';

interface Place {
  readonly hub: StandInHub;
  readonly directory: string;
  readonly copy: (address?: string, options?: HubCopyOptions) => Promise<string>;
}

async function placeWith(t: TestContext, ...[options]: [Parameters<typeof startHub>[1]]): Promise<Place> {
  const hub = await startHub(t, options);
  const directory = await temporaryFolder(t);
  return {
    hub,
    directory,
    copy: (address = ADDRESS, more = {}) =>
      copyFromHub(address, directory, { endpoint: hub.endpoint, token: '', pauseMs: 0, ...more }),
  };
}

const namesIn = async (folder: string) =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

test('a branch becomes a commit, and only what an import needs is downloaded, once', async (t) => {
  const { hub, directory, copy } = await placeWith(t, {
    files: {
      'README.md': '# A model',
      'config.json': '{}',
      'tokenizer.json': '{}',
      '1_Pooling/config.json': '{}',
      'pytorch_model.bin': 'a pickle',
      'model.safetensors': 'weights',
      'onnx/model.onnx': MODEL,
      'onnx/model_quantized.onnx': 'another',
      'onnx/model_fp16.onnx': 'another',
    },
    large: ['onnx/model.onnx', 'pytorch_model.bin', 'model.safetensors'],
    pageSize: 2,
  });
  const told: string[] = [];
  const bytes: (readonly [number, number])[] = [];
  const folder = await copy(ADDRESS, {
    onCommit: ({ commit }) => told.push(commit),
    onBytes: (done, total) => bytes.push([done, total]),
  });
  assert.equal(folder, join(directory, 'org--name', hub.commit));
  assert.deepEqual(told, [hub.commit]);
  assert.deepEqual(await namesIn(folder), [
    '.hub.json',
    '1_Pooling/config.json',
    'config.json',
    'model.onnx',
    'tokenizer.json',
  ]);
  assert.deepEqual(await readFile(join(folder, 'model.onnx')), Buffer.from(MODEL));
  const total = MODEL.length + 3 * '{}'.length;
  assert.deepEqual(bytes.at(-1), [total, total]);

  // A commit is known without a question, and its files by their digests.
  const asked = hub.requests.length;
  assert.equal(await copy(`${ADDRESS}@${hub.commit}`), folder);
  assert.equal(hub.requests.length, asked);
  await truncate(join(folder, 'model.onnx'), 10);
  await copy(`${ADDRESS}@${hub.commit}`);
  assert.equal((await readFile(join(folder, 'model.onnx'))).length, MODEL.length);

  const next = hub.commitFiles({ 'model.onnx': MODEL });
  assert.equal(await copy(), join(directory, 'org--name', next));
  assert.equal(await copy(`${ADDRESS}@${hub.commit}`), folder);
});

test('the report of an import names repository and commit', async (t) => {
  const { hub, copy } = await placeWith(t, { files: { 'net.onnx': MODEL } });
  const out = join(await temporaryFolder(t), 'out');
  const { importReport } = await importModel(await copy(), { out, version: '1', measure: false });
  assert.deepEqual(importReport.source.hub, { repo: 'org/name', commit: hub.commit });
  const text = await readFile(join(out, 'import-report.md'), 'utf8');
  assert.match(text, new RegExp(`^- hub: org/name, commit ${hub.commit}$`, 'm'));
});

test('external weights are those that the file names', async (t) => {
  const builder = new GraphBuilder();
  const x = builder.input('x', 'float32', ['N', 300]);
  const weights = { dtype: 'float32', shape: [300, 2], data: new Float32Array(600).fill(0.5) } as const;
  builder.output('y', builder.one('MatMul', [x, builder.constant(weights)]));
  const folder = await temporaryFolder(t);
  await writeOnnx(builder.finish(), join(folder, 'model.onnx'), { producerVersion: '1', maxFileBytes: 0 });
  const read = (name: string) => readFile(join(folder, name));
  const files = {
    'onnx/model.onnx': await read('model.onnx'),
    'onnx/model.onnx.data': await read('model.onnx.data'),
    'onnx/model.onnx.data2': 'of nobody',
  };
  const { hub, copy } = await placeWith(t, { files });
  assert.deepEqual(await namesIn(await copy()), ['.hub.json', 'model.onnx', 'model.onnx.data']);
  hub.commitFiles({ 'onnx/model.onnx': files['onnx/model.onnx'] });
  await assert.rejects(copy(), {
    code: 'bad_model',
    message:
      'hf://org/name: onnx/model.onnx keeps its weights in onnx/model.onnx.data, which the repository lacks',
  });
});

test('a file can be named, and must be where there are several', async (t) => {
  const files = {
    'a.onnx': MODEL,
    'b.onnx': `${MODEL.length}`,
    'openvino/m.xml': '<net/>',
    'openvino/m.bin': 'w',
  };
  const { hub, copy } = await placeWith(t, { files });
  await assert.rejects(copy(), {
    code: 'bad_model',
    message: 'hf://org/name: expected one model, found a.onnx, b.onnx; name one, as hf://org/name/a.onnx',
  });
  assert.deepEqual(await namesIn(await copy(`${ADDRESS}@main/a.onnx`)), ['.hub.json', 'a.onnx']);
  const openvino = await copy(`${ADDRESS}@${hub.commit}/openvino/m.xml`);
  assert.deepEqual(await namesIn(openvino), ['.hub.json', 'm.bin', 'm.xml']);
  await assert.rejects(copy(`${ADDRESS}/c.onnx`), {
    message: /there is no file c\.onnx; there are a\.onnx, b\.onnx,/,
  });
});

test('models of other formats come with their files', async (t) => {
  const { hub, copy } = await placeWith(t, {
    files: {
      'saved_model.pb': 'graph',
      'variables/variables.index': 'i',
      'variables/variables.data-00000-of-00001': 'd',
      'assets/vocab.txt': 'a',
      'train.py': 'code',
    },
  });
  assert.deepEqual(await namesIn(await copy()), [
    '.hub.json',
    'assets/vocab.txt',
    'saved_model.pb',
    'variables/variables.data-00000-of-00001',
    'variables/variables.index',
  ]);
  hub.commitFiles({ 'deploy.prototxt': 'net', 'net.caffemodel': 'w', 'notes.txt': '' });
  assert.deepEqual(await namesIn(await copy()), ['.hub.json', 'deploy.prototxt', 'net.caffemodel']);
});

const REFUSED: readonly (readonly [files: readonly string[], message: RegExp])[] = [
  [
    ['config.json', 'pytorch_model.bin'],
    /pytorch_model\.bin is a pickle, which is code and is never downloaded: `optimum-cli export onnx --model org\/name name-onnx` writes ONNX/,
  ],
  [
    ['config.json', 'model.safetensors'],
    /model\.safetensors holds weights without a graph: `optimum-cli export/,
  ],
  [['model.pt'], /model\.pt is a pickle, which is code and is never downloaded: export the model to ONNX/],
  [['model.joblib'], /model\.joblib is a pickle/],
  [
    ['README.md'],
    /expected a model that can be imported, such as model\.onnx or onnx\/model\.onnx; found README\.md$/,
  ],
];

test('pickles are refused with advice, and nothing is downloaded', async (t) => {
  const { hub, directory, copy } = await placeWith(t, { files: {} });
  for (const [names, message] of REFUSED) {
    hub.commitFiles(Object.fromEntries(names.map((name) => [name, 'x'])));
    await assert.rejects(copy(), { code: 'bad_model', message });
  }
  hub.commitFiles({ 'model.onnx': MODEL, 'model.pt': 'x' });
  await assert.rejects(copy(`${ADDRESS}/model.pt`), { code: 'bad_model', message: /model\.pt is a pickle/ });
  assert.ok(hub.requests.every(({ path }) => !path.includes('/resolve/')));
  assert.deepEqual(await readdir(directory), []);
});

test('the token goes to the hub alone, and is in no message', async (t) => {
  const files = { 'model.onnx': MODEL };
  const { hub, copy } = await placeWith(t, { files, large: ['model.onnx'], token: TOKEN });
  await assert.rejects(copy(), {
    code: 'bad_config',
    message: /status 401; it is private, .* or set HF_TOKEN/,
  });
  await assert.rejects(copy(ADDRESS, { token: 'hf_other' }), (error: Error) => {
    assert.match(error.message, /HF_TOKEN is not allowed to read it/);
    return !error.message.includes('hf_other');
  });
  hub.requests.length = 0;
  await copy(ADDRESS, { token: TOKEN });
  const { host } = new URL(hub.endpoint);
  const [own, others] = [true, false].map((isHub) =>
    hub.requests.filter((one) => (one.host === host) === isHub),
  );
  assert.ok(own?.every(({ authorization }) => authorization === `Bearer ${TOKEN}`));
  assert.deepEqual(
    others?.map(({ authorization }) => authorization),
    [undefined],
  );
  await assert.rejects(copy(ADDRESS, { token: 'a\nb' }), {
    code: 'bad_config',
    message: /^hf:.*HF_TOKEN: expected/,
  });
});

describe('a refusal says what to do', () => {
  const answers = (status: number, headers: Readonly<Record<string, string>> = {}): Lie => {
    return (_, response) => {
      response.writeHead(status, headers).end();
      return true;
    };
  };
  const cases: readonly (readonly [Lie, string, RegExp])[] = [
    [answers(403), 'bad_config', /status 403; it is private, or there is none of this name/],
    [answers(403, { 'x-error-code': 'GatedRepo' }), 'bad_config', /the model is gated; accept its terms/],
    [answers(404, { 'x-error-code': 'RevisionNotFound' }), 'bad_config', /there is no such revision/],
    [answers(404), 'bad_config', /status 404; there is none of this name/],
    [
      answers(429, { 'retry-after': '30' }),
      'bad_config',
      /too many requests; try again in 30 s; with HF_TOKEN/,
    ],
    [answers(500), 'model_unavailable', /status 500/],
    [answers(200), 'model_unavailable', /expected JSON; check HF_ENDPOINT/],
  ];
  for (const [lie, code, message] of cases)
    test(`${message}`, async (t) => {
      const { copy } = await placeWith(t, { files: { 'model.onnx': MODEL }, lie });
      await assert.rejects(copy(), { code, message });
    });

  test('a hub that is away', async (t) => {
    const { copy } = await placeWith(t, { files: {} });
    await assert.rejects(copy(ADDRESS, { endpoint: 'http://127.0.0.1:1' }), {
      code: 'model_unavailable',
      message: /^hf:\/\/org\/name: http:\/\/127\.0\.0\.1:1\/.*; HF_ENDPOINT names another server$/,
    });
    await assert.rejects(copy(ADDRESS, { endpoint: 'ftp://x' }), {
      code: 'bad_config',
      message: /HF_ENDPOINT/,
    });
  });

  test('%2F in a revision stands for a slash', () => {
    for (const revision of ['refs%2Fpr%2F1', 'refs%2fpr%2f1', 'refs/pr/1'])
      assert.deepEqual(readHubAddress(`hf://org/name@${revision}/a.onnx`), {
        repo: 'org/name',
        revision: 'refs/pr/1',
        file: 'a.onnx',
      });
  });

  for (const address of [
    'hf://name',
    'hf://datasets/org/name',
    'hf://../name',
    'hf://org/name/../x',
    'hf://org/name@',
  ])
    test(`no address: ${address}`, async (t) => {
      const { hub, copy } = await placeWith(t, { files: {} });
      await assert.rejects(copy(address), { code: 'bad_config', message: /^expected hf:\/\/org\/name, or/ });
      assert.deepEqual(hub.requests, []);
    });
});

describe('a hub that lies', () => {
  const files = { 'model.onnx': MODEL };
  const isFile = (path: string) => path.includes('/resolve/');

  async function refused(t: TestContext, lie: Lie, code: string, message: RegExp, options?: HubCopyOptions) {
    const { hub, directory, copy } = await placeWith(t, { files, lie });
    await assert.rejects(copy(ADDRESS, options), { code, message });
    assert.ok(!existsSync(join(directory, 'org--name', hub.commit)));
    // The rest that it left does no harm to an honest one.
    hub.lie(undefined);
    assert.deepEqual(await readFile(join(await copy(), 'model.onnx')), Buffer.from(MODEL));
    assert.deepEqual(await readdir(join(directory, 'org--name')), [hub.commit]);
  }

  const file = (answer: (response: Parameters<Lie>[1]) => void): Lie => {
    return ({ path }, response) => {
      if (isFile(path)) answer(response);
      return isFile(path);
    };
  };
  const tree = (entry: object): Lie => {
    return ({ path }, response) => {
      if (path.includes('/tree/')) response.end(JSON.stringify([entry]));
      return path.includes('/tree/');
    };
  };

  test('another content of the same length', (t) =>
    refused(
      t,
      file((response) => response.end(Buffer.alloc(MODEL.length))),
      'bad_model',
      /not that of the digest/,
    ));

  test('more bytes, without an end', (t) =>
    refused(
      t,
      file((response) => {
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(65_536)));
        };
        response.on('drain', more);
        more();
      }),
      'bad_model',
      /sends more than the \d+ bytes that the list gives/,
    ));

  test('a body that is cut each time', (t) =>
    refused(
      t,
      file((response) => {
        response.writeHead(200, { 'content-length': MODEL.length });
        response.write(MODEL.slice(0, 4), () => response.socket?.end());
      }),
      'model_unavailable',
      /model\.onnx/,
    ));

  test('a body that stops', (t) =>
    refused(
      t,
      file((response) => response.write(MODEL.slice(0, 4))),
      'model_unavailable',
      /no byte for 0\.05 s/,
      {
        stallMs: 50,
      },
    ));

  test('redirects without an end', (t) =>
    refused(
      t,
      file((response) =>
        response.writeHead(302, { location: `/org/name/resolve/${'0'.repeat(40)}/x` }).end(),
      ),
      'model_unavailable',
      /more than 5 redirects/,
    ));

  test('a redirect to a file', (t) =>
    refused(
      t,
      file((response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end()),
      'bad_model',
      /a redirect leads to file:/,
    ));

  test('a range that was not asked for', async (t) => {
    const { hub, copy } = await placeWith(t, { files });
    let ranges = 0;
    const { lie, onBytes } = cutOnce();
    hub.lie((request, response) => {
      if (request.range === undefined) return lie(request, response);
      if (ranges++ > 0) return false;
      response.writeHead(206, { 'content-range': `bytes 0-9/${MODEL.length}` }).end(MODEL.slice(0, 10));
      return true;
    });
    const folder = await copy(ADDRESS, { onBytes });
    assert.deepEqual(await readFile(join(folder, 'model.onnx')), Buffer.from(MODEL));
    assert.equal(ranges, 2);
  });

  const names = [
    '../../evil.onnx',
    '/etc/evil.onnx',
    'a\\..\\evil.onnx',
    'a//b.onnx',
    './x.onnx',
    'a\n.onnx',
    '',
  ];
  for (const path of names)
    test(`a name that leads out: ${JSON.stringify(path)}`, (t) =>
      refused(
        t,
        tree({ type: 'file', path, size: 1, oid: '0'.repeat(40) }),
        'bad_model',
        /lists a file that leads out of its folder/,
      ));

  test('a file without a digest', (t) =>
    refused(
      t,
      tree({ type: 'file', path: 'model.onnx', size: 1 }),
      'model_unavailable',
      /gives no size and digest/,
    ));

  test('a file that is too large', (t) =>
    refused(
      t,
      tree({ type: 'file', path: 'model.onnx', size: 2 ** 35, oid: '0'.repeat(40) }),
      'bad_model',
      /34359738368 bytes are over the limit/,
    ));

  test('a commit that is none', (t) =>
    refused(
      t,
      ({ path }, response) => {
        const isRevision = path.includes('/revision/');
        if (isRevision) response.end('{"sha": "../../x"}');
        return isRevision;
      },
      'model_unavailable',
      /gives no commit for revision main/,
    ));

  test('a next page on another host, and pages without an end', async (t) => {
    for (const [link, message] of [
      ['<http://127.0.0.1:1/x>; rel="next"', /the next page of the list is on another host, 127\.0\.0\.1:1/],
      ['<ORIGIN/api/models/org/name/tree/x>; rel="next"', /more than 20000 files/],
    ] as const)
      await refused(
        t,
        ({ path, host }, response) => {
          const isTree = path.includes('/tree/');
          if (isTree) response.setHeader('link', link.replace('ORIGIN', `http://${host}`)).end('[]');
          return isTree;
        },
        'bad_model',
        message,
      );
  });
});

/** Cuts the first download of a file in the middle, once the client has what came before. */
function cutOnce(): { readonly lie: Lie; readonly onBytes: () => void } {
  let cut: (() => void) | undefined;
  return {
    onBytes: () => cut?.(),
    lie({ path }, response) {
      if (cut !== undefined || !path.includes('/resolve/')) return false;
      cut = () => response.destroy();
      response.writeHead(200, { 'content-length': MODEL.length });
      response.write(MODEL.slice(0, 20));
      return true;
    },
  };
}

test('a download continues at its byte, also in another attempt', async (t) => {
  const { hub, copy } = await placeWith(t, { files: { 'model.onnx': MODEL } });
  const cut = cutOnce();
  hub.lie(cut.lie);
  await copy(ADDRESS, { onBytes: cut.onBytes });
  assert.deepEqual(
    hub.requests.flatMap(({ range }) => range ?? []),
    ['bytes=20-'],
  );

  const commit = hub.commitFiles({ 'model.onnx': MODEL, 'x.txt': '' });
  const stop = new AbortController();
  const reason = new Error('stopped');
  hub.lie(({ path }, response) => {
    if (!path.includes('/resolve/')) return false;
    response.writeHead(200, { 'content-length': MODEL.length });
    response.write(MODEL.slice(0, 30));
    return true;
  });
  const onBytes = () => stop.abort(reason);
  await assert.rejects(copy(ADDRESS, { signal: stop.signal, onBytes }), reason);
  hub.lie(undefined);
  hub.requests.length = 0;
  const folder = await copy();
  assert.match(folder, new RegExp(`${commit}$`));
  assert.deepEqual(
    hub.requests.flatMap(({ range }) => range ?? []),
    ['bytes=30-'],
  );
  assert.deepEqual(await readdir(dirname(folder)), [hub.commit, commit].sort());
});

test('a copy that takes too long says that it continues', async (t) => {
  const { copy } = await placeWith(t, { files: { 'model.onnx': MODEL }, lie: () => true });
  await assert.rejects(copy(ADDRESS, { limitMs: 50 }), {
    code: 'model_unavailable',
    message:
      'hf://org/name: the download took too long; what came is kept, and the next attempt continues it',
  });
});

test('a folder that somebody else made has no origin', async (t) => {
  const folder = await temporaryFolder(t);
  assert.equal(readOrigin(folder), undefined);
  for (const text of ['nothing', '{}', '[]', '{"repo": 1}']) {
    await writeFile(join(folder, '.hub.json'), text);
    assert.equal(readOrigin(folder), undefined);
  }
});
