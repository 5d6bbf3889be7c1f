/**
 * The server fetches nothing that a caller names: whatever text stands where an image, a text or a tensor may stand, no
 * socket is opened, no name is looked up, no file is touched. Two witnesses: Node's own record of every handle it opens,
 * and a server on this machine whose address is among the texts.
 */
import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { once } from 'node:events';
import fs from 'node:fs';
import { readFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeMessage } from '../../lib/codecs/message.ts';
import type { OnnxRunner } from '../../lib/compose/onnx.ts';
import type { Inputs } from '../../lib/contract/values.ts';
import { serveEvent } from '../../lib/pipeline/event.ts';
import { resultSink } from '../../lib/results/sink.ts';
import { encodeArrowRecord } from '../support/arrow-record.ts';
import { quietObservers } from '../support/observers.ts';
import { temporaryFolder } from '../support/runner.ts';
import { predictEndpoint, predictionsEndpoint } from './hostile/endpoints.ts';
import { DOT, type ModelName, Models } from './hostile/models.ts';

/** Handles of the network and of the file system, by the names Node gives them. */
const OUTSIDE = /^(TCP|PIPE|UDP|GETADDRINFO|QUERYWRAP|DNS|TLS|HTTP|FS|STATWATCHER|FILEHANDLE|PROCESS)/;

/** What Node opens while `work` runs, file system calls that do not wait included. */
async function openedBy(work: () => Promise<unknown>): Promise<string[]> {
  const opened: string[] = [];
  const hook = createHook({
    init(_id, type) {
      if (OUTSIDE.test(type)) opened.push(type);
    },
  });
  const waiting = ['openSync', 'readFileSync', 'statSync', 'lstatSync', 'readdirSync', 'existsSync'] as const;
  const originals = waiting.map((name) => [name, fs[name]] as const);
  for (const [name, original] of originals) {
    const watched = (...args: unknown[]) => {
      opened.push(`${name} ${String(args[0])}`);
      return (original as (...args: unknown[]) => unknown)(...args);
    };
    Object.assign(fs, { [name]: watched });
  }
  syncBuiltinESMExports();
  hook.enable();
  try {
    await work();
  } finally {
    hook.disable();
    Object.assign(fs, Object.fromEntries(originals));
    syncBuiltinESMExports();
  }
  return opened;
}

interface Bait {
  readonly texts: readonly string[];
  /** Connections that were made to the server. */
  readonly connections: () => number;
}

async function layBait(t: TestContext): Promise<Bait> {
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const image = join(await temporaryFolder(t), 'image.png');
  fs.writeFileSync(image, Buffer.from(DOT, 'base64'));
  const texts = [
    `http://127.0.0.1:${port}/image.png`,
    `https://127.0.0.1:${port}/image.png`,
    `http://localhost:${port}/`,
    `ftp://127.0.0.1:${port}/`,
    `//127.0.0.1:${port}/`,
    'http://169.254.169.254/latest/meta-data/iam/security-credentials/',
    'file:///etc/passwd',
    `file://${image}`,
    image,
    '/etc/passwd',
    '../../../../etc/passwd',
    'image.png',
    's3://models/models/job/current.json',
    'arn:aws:s3:::models/models/job/current.json',
    `data:text/x-url,http://127.0.0.1:${port}/`,
    `redis://127.0.0.1:${port}`,
    '\\\\127.0.0.1\\share\\image.png',
    `<svg xmlns="http://www.w3.org/2000/svg"><image href="http://127.0.0.1:${port}/"/></svg>`,
    `<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><svg>&b;</svg>`,
    `\${jndi:ldap://127.0.0.1:${port}/a}`,
  ];
  // The same, sent as an image.
  return {
    texts: [...texts, ...texts.map((text) => Buffer.from(text).toString('base64'))],
    connections: () => connections,
  };
}

/** The ways a text can stand in an instance. */
const INSTANCES: readonly ((text: string) => unknown)[] = [
  (text) => ({ x: text }),
  (text) => ({ x: { b64: text } }),
  (text) => ({ x: { path: text } }),
  (text) => ({ x: { url: text } }),
  (text) => ({ x: { shape: [1], data: [text], indices: [[0]] } }),
  (text) => ({ x: [text] }),
  (text) => ({ [text.slice(0, 200)]: [1, 2] }),
];

/** Models that take an image, a text and numbers: each reads a text in its own way. */
const TAKERS: readonly ModelName[] = ['image', 'texts', 'pair'];

async function runnersOf(t: TestContext): Promise<OnnxRunner[]> {
  const models = new Models(t);
  const runners = await Promise.all(TAKERS.map((name) => models.runner(name)));
  // What is loaded with the first image is loaded now.
  await predictEndpoint(runners[0] as OnnxRunner)(JSON.stringify({ instances: [{ x: DOT }] }));
  return runners;
}

test('POST /predict opens nothing that an instance names', async (t) => {
  const { texts, connections } = await layBait(t);
  const statuses = new Set<number>();
  for (const runner of await runnersOf(t)) {
    const endpoint = predictEndpoint(runner);
    const bodies = texts.flatMap((text) =>
      INSTANCES.map((make) => JSON.stringify({ instances: [make(text)] })),
    );
    const opened = await openedBy(async () => {
      for (const body of bodies) statuses.add((await endpoint(body)).status);
    });
    assert.deepEqual(opened, []);
  }
  assert.ok(
    statuses.has(200) && statuses.has(400),
    'texts reached a text model and were refused by the others',
  );
  assert.equal(connections(), 0);
});

test('POST /predictions opens nothing that a record names', async (t) => {
  const { texts, connections } = await layBait(t);
  const { endpoint, sent } = predictionsEndpoint();
  const opened = await openedBy(async () => {
    for (const text of texts)
      for (const make of INSTANCES) {
        await endpoint(JSON.stringify({ instances: [make(text)], uri: text.slice(0, 100) }));
        await endpoint(JSON.stringify({ uri: 'u', data: text, serde: text.slice(0, 20) }));
        await endpoint(JSON.stringify({ uri: 'u', pointer: text, data: text }));
      }
  });
  assert.deepEqual(opened, []);
  assert.ok(sent.length > 0);
  assert.equal(connections(), 0);
});

const arrowMessage = (uri: string, inputs: Inputs) =>
  JSON.stringify({ uri, data: Buffer.from(encodeArrowRecord(inputs)).toString('base64') });

test('the queue opens nothing that a message names, in any of its three wires', async (t) => {
  const { texts, connections } = await layBait(t);
  const bodies = texts.flatMap((text, i) => {
    const uri = `u${i}`;
    const encoded: Inputs[] = [
      new Map([['x', { kind: 'text', text }]]),
      new Map([['x', { kind: 'image', bytes: Buffer.from(text) }]]),
    ];
    return [
      ...INSTANCES.map((make) =>
        JSON.stringify({ uri, serde: 'stream', data: JSON.stringify({ instances: [make(text)] }) }),
      ),
      ...encoded.map((inputs) => arrowMessage(uri, inputs)),
      encodeMessage(uri, encoded[1] as Inputs),
      JSON.stringify({ uri, data: text }),
      JSON.stringify({ uri, data: text, serde: 'safetensors' }),
      JSON.stringify({ uri, pointer: text }),
      JSON.stringify({ uri, path: text, data: { path: text } }),
    ];
  });
  for (const runner of await runnersOf(t)) {
    let saved = 0;
    const handle = serveEvent({
      now: Date.now,
      model: { use: (work) => work(runner) },
      sink: resultSink({ save: async (finished) => (saved += finished.length) }),
      running: { begin: () => async () => undefined },
      payloads: { resolve: async (texts_) => [...texts_] },
      observers: quietObservers(),
    });
    const records = bodies.map((body, i) => ({
      messageId: String(i),
      body,
      attributes: { SentTimestamp: '0' },
    }));
    const opened = await openedBy(() => handle({ Records: records } as never));
    assert.deepEqual(opened, []);
    assert.ok(saved > texts.length, 'each got its answer');
  }
  assert.equal(connections(), 0);
});

test('the witnesses would have told', async (t) => {
  const { texts, connections } = await layBait(t);
  const { port } = new URL(texts[0] as string);
  const opened = await openedBy(async () => {
    await readFile('/etc/hostname').catch(() => undefined);
    fs.existsSync('/etc/hostname');
    const socket = connect(Number(port), '127.0.0.1');
    await once(socket, 'close');
  });
  assert.ok(
    opened.some((type) => type.startsWith('FS')),
    opened.join(),
  );
  assert.ok(opened.some((type) => type.startsWith('TCP')));
  assert.ok(opened.includes('existsSync /etc/hostname'));
  assert.equal(connections(), 1);
});
