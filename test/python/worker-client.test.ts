/** The Python client, as its users call it, against the routes of a worker's service. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import { test } from 'node:test';
import { EncodedImage } from '../../lib/contract/worker-values.ts';
import { WITH_PILLOW, WITH_PYTHON } from '../support/python.ts';
import type { Hooks } from '../support/runner.ts';
import { FRAME_TYPE, workerService } from '../support/worker-service.ts';
import { python } from './script.ts';

const echo = (value: unknown) => value;

test('every kind of value comes back as it was sent', WITH_PYTHON, async (t) => {
  const { port } = await workerService(t, echo);
  const [differing] = await python(
    port,
    `
from datetime import datetime, timezone
values = [None, True, 7, -2.5, "é\\0😀", b"\\0\\xff", 10**40, float("inf"), float("-inf"), -0.0, (1, (2, "x")), {1, "a", None},
          [1, [2, []]], {"a b": {"$t": 1}, "n": [None]}, datetime(2026, 1, 2, 3, 4, 5, 678901), datetime(2026, 1, 2, tzinfo=timezone.utc),
          "x" * 3_000_000, list(range(100_000))]
arrays = [np.arange(6).reshape(2, 3).astype(d) for d in ("float16", "float32", ">f8", "int8", "int64", "uint64", "bool")]
arrays += [np.array(5.0), np.empty((0, 3)), np.array(["a", "bc"]), np.asfortranarray(np.eye(3))[:, 1:]]
def same(a, b):
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=") and a.tolist() == b.tolist()
    return type(a) is type(b) and repr(a) == repr(b) if not isinstance(a, set) else a == b
with WKRClient(**CALL) as client:
    answers = [(value, client.encode(value)) for value in values + arrays]
    nan = client.encode(float("nan"))
    together = client.encode({"boxes": np.ones((2, 4)), "labels": ["a"]})
show([repr(a)[:80] for a, b in answers if not same(a, b)] + [repr(nan), together["boxes"].tolist(), together["boxes"].flags.writeable])
`,
  );
  assert.deepEqual(differing, [
    'nan',
    [
      [1, 1, 1, 1],
      [1, 1, 1, 1],
    ],
    true,
  ]);
});

test('what cannot be sent is a TypeError with its path, and nothing is sent', WITH_PYTHON, async (t) => {
  const { port, requests } = await workerService(t, echo);
  const shown = await python(
    port,
    `
client = WKRClient(**CALL)
show(error_of(lambda: client.encode({"a": [1, object()]})))
show(error_of(lambda: client.encode(lambda: 1, blocking=False)))
show(error_of(lambda: client.encode(np.zeros(33 * 2**20, np.uint8))))
show(error_of(lambda: WKRClient(protocol="npy", **CALL).encode([1])))
show(error_of(lambda: client.encode(1, target_request_id="a b")))
show(error_of(lambda: WKRClient(identity="a/b", **CALL)))
show(error_of(lambda: WKRClient(token="secret with spaces\\r\\n", **CALL)))
show(error_of(lambda: WKRClient(url="ftp://x", **CALL)))
show(error_of(lambda: WKRClient(protocol="pickle")))
show(client.status["num_pending_request"])
`,
  );
  assert.deepEqual(shown.slice(0, 3), [
    ['TypeError', null, 'data.a[1]: a object cannot be sent'],
    ['TypeError', null, 'data: a function cannot be sent'],
    ['WKRError', 'too_large', 'too_large: data: 34603008 bytes are over the limit of 33554432'],
  ]);
  assert.deepEqual(
    shown.slice(3, 9).map((error) => (error as string[])[0]),
    ['TypeError', 'ValueError', 'ValueError', 'ValueError', 'ValueError', 'AttributeError'],
  );
  assert.doesNotMatch(JSON.stringify(shown[6]), /secret/);
  assert.equal(shown[9], 0);
  assert.deepEqual(requests, []);
});

test(
  'twelve results come in the order of their ids, whatever order they finished in',
  WITH_PYTHON,
  async (t) => {
    // The first is the last to finish.
    const { port } = await workerService(t, async (value) => {
      await new Promise((resolve) => setTimeout(resolve, (12 - Number(value)) * 10));
      return Number(value) * 10;
    });
    const shown = await python(
      port,
      `
client = WKRClient(**CALL)
def send(): return [client.encode(i, blocking=False) for i in range(12)]
show(send())
show(client.status["num_pending_request"])
show(client.fetch_all())
show(client.fetch_all())
send(); show(client.fetch_all(sort=True, return_id=True))
send(); show(client.fetch_all(parse_id_func=lambda response: -int(response.id)))
send(); show(sorted((r.id, r.embedding) for r in client.fetch()))
show([client.encode(1, blocking=False, target_request_id="b"), client.encode(0, blocking=False, target_request_id=7)])
show(client.fetch_all(return_id=True))
`,
    );
    const tens = Array.from({ length: 12 }, (_, i) => i * 10);
    const ids = (from: number) => tens.map((_, i) => String(from + i));
    assert.deepEqual(shown.slice(0, 4), [ids(1), 12, tens, null]);
    assert.deepEqual(
      shown[4],
      ids(13).map((id, i) => [id, i * 10]),
    );
    assert.deepEqual(shown[5], tens.toReversed());
    assert.deepEqual(new Map(shown[6] as [string, number][]), new Map(ids(37).map((id, i) => [id, i * 10])));
    assert.deepEqual(shown.slice(7), [
      ['b', '7'],
      [
        ['7', 0],
        ['b', 10],
      ],
    ]);
  },
);

test('results are joined, as lists or as arrays', WITH_PYTHON, async (t) => {
  const { port } = await workerService(t, (value) => {
    if (value === 'poison') throw new Error('ValueError: no');
    return value;
  });
  const shown = await python(
    port,
    `
client = WKRClient(**CALL)
for i in range(3): client.encode([i, [i]], blocking=False)
show(client.fetch_all(concat=True))
arrays = WKRClient(protocol="numpy", **CALL)
for i in range(11): arrays.encode(np.full((2, 1), i), blocking=False)
show(arrays.fetch_all(concat=True).ravel().tolist())
client.encode("poison", blocking=False)
show(error_of(lambda: client.fetch_all(concat=True)))
`,
  );
  assert.deepEqual(shown[0], [0, [0], 1, [1], 2, [2]]);
  assert.deepEqual(
    shown[1],
    Array.from({ length: 22 }, (_, i) => Math.floor(i / 2)),
  );
  assert.deepEqual(shown[2], ['WKRError', 'model_failed', 'model_failed: ValueError: no']);
});

test('an item that failed is a WKRError, or None and a warning', WITH_PYTHON, async (t) => {
  const { port } = await workerService(t, (value) => {
    if (value === 1) throw Object.assign(new Error('ValueError: one'), { code: 'model_failed' });
    return value;
  });
  const shown = await python(
    port,
    `
client = WKRClient(**CALL)
show(error_of(lambda: client.encode(1)))
def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return [call(), [str(warning.message) for warning in caught]]
for i in range(3): client.encode(i, blocking=False)
show(warned(client.fetch_all))
show(warned(lambda: [r.embedding for r in client.encode_async(iter([0, 1, object(), 2]))]))
`,
  );
  const failed = (id: number) => `the item ${id} failed: model_failed: ValueError: one`;
  assert.deepEqual(shown[0], ['WKRError', 'model_failed', 'model_failed: ValueError: one']);
  assert.deepEqual(shown[1], [[0, null, 2], [failed(3)]]);
  const [values, warnings] = shown[2] as [unknown[], string[]];
  assert.deepEqual(new Set(values), new Set([0, 2, null]));
  assert.deepEqual(warnings.sort(), [failed(6), 'the item 7 failed: data: a object cannot be sent']);
});

test(
  'encode_async sends while it receives, to its end, and raises what the generator raised',
  WITH_PYTHON,
  async (t) => {
    const { port, requests } = await workerService(t, echo);
    const [all, some, left, failed] = await python(
      port,
      `
client = WKRClient(**CALL)
pulled = []
def items(count, error=None):
    for i in range(count):
        pulled.append(i)
        yield i
    if error: raise error
show(sorted(r.embedding for r in client.encode_async(items(300), delay=0)))
pulled.clear()
show([sorted(r.embedding for r in client.encode_async(items(9), max_num_batch=3)), pulled])
for response in client.encode_async(items(10000)): break
show(len(pulled) < 1000)
client = WKRClient(**CALL)
got = []
def read():
    for response in client.encode_async(items(3, KeyError("mine"))): got.append(response.embedding)
show([error_of(read), sorted(got)])
`,
    );
    assert.deepEqual(
      all,
      Array.from({ length: 300 }, (_, i) => i),
    );
    assert.deepEqual(some, [
      [0, 1, 2],
      [0, 1, 2],
    ]);
    assert.equal(left, true);
    assert.deepEqual(failed, [
      ['KeyError', null, "'mine'"],
      [0, 1, 2],
    ]);
    assert.ok(requests.length > 300);
  },
);

test('clients with one identity all receive what is theirs, and count alike', WITH_PYTHON, async (t) => {
  const { port } = await workerService(t, echo);
  const shown = await python(
    port,
    `
first, second = WKRClient(identity="same", **CALL), WKRClient(identity=b"same", **CALL)
for i in range(12):
    first.encode(["first", i], blocking=False)
    second.encode(["second", i], blocking=False)
show(second.fetch_all())
show(first.fetch_all())
later = WKRClient(identity="same", **CALL)
later.encode("later", blocking=False)
show(later.fetch_all(return_id=True))
`,
  );
  const of = (name: string) => Array.from({ length: 12 }, (_, i) => [name, i]);
  assert.deepEqual(shown, [of('second'), of('first'), [['1', 'later']]]);
});

test('threads share a client, each with its own answer, and a fork begins anew', WITH_PYTHON, async (t) => {
  const { port } = await workerService(t, echo);
  const shown = await python(
    port,
    `
import os
client = ConcurrentWKRClient(max_concurrency=8, **CALL)
wrong = []
def work(k):
    for i in range(25):
        if client.encode([k, i]) != [k, i]: wrong.append([k, i])
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
show([wrong, client.status["num_request"]])
client.encode("parent", blocking=False)
child = os.fork()
if child == 0:
    client.encode("child", blocking=False)
    client.encode("child", blocking=False)
    show([client.fetch_all(), client.encode("c")])
    os._exit(0)
os.waitpid(child, 0)
show([client.fetch_all(), client.encode("p")])
`,
  );
  assert.deepEqual(shown, [
    [[], 200],
    [['child', 'child'], 'c'],
    [['parent'], 'p'],
  ]);
});

test(
  'a service that is busy: one more try for each retry, room is waited for, and no call is above max_concurrency',
  WITH_PYTHON,
  async (t) => {
    let busy = 0;
    let status = 429;
    const { port, requests } = await workerService(t, echo, {
      refuse: (request) => (request.url === '/encode' && busy-- > 0 ? status : undefined),
    });
    const service = { busy: (count: number, with_: number) => ((busy = count), (status = with_)) };
    service.busy(1, 429);
    assert.deepEqual(
      await python(
        port,
        'show([error_of(lambda: WKRClient(**CALL).encode(1))[:2], WKRClient(**CALL).encode(2)])',
      ),
      [[['WKRError', 'rate_limited'], 2]],
    );
    service.busy(2, 503);
    assert.deepEqual(
      await python(port, 'show(ConcurrentWKRClient(retry=2, retry_gap=0.01, **CALL).encode(1))'),
      [1],
    );
    service.busy(2, 503);
    const concurrent =
      'show(error_of(lambda: ConcurrentWKRClient(retry=1, retry_gap=0.01, **CALL).encode(1))[:2])';
    assert.deepEqual(await python(port, concurrent), [['WKRError', 'model_unavailable']]);
    service.busy(1, 500);
    const before = requests.length;
    assert.deepEqual(await python(port, concurrent), [['WKRError', 'internal']]);
    assert.equal(requests.length, before + 1);
    const full = `
client = ConcurrentWKRClient(max_concurrency=1, retry=1, **CALL)
with client._places: show(error_of(lambda: client.encode(1)))
show(client.encode(1))
`;
    const [refused, taken] = await python(port, full);
    assert.match(String(refused), /^RuntimeError,,Too many concurrent connections!.*which is 1/);
    assert.equal(taken, 1);
    service.busy(3, 429);
    const waiting = 'c = WKRClient(**CALL); c.encode(1, blocking=False); show(c.fetch_all())';
    assert.deepEqual(await python(port, waiting), [[1]]);
  },
);

test('checks: protocol, version, token, and what the service shows', WITH_PYTHON, async (t) => {
  const right = await workerService(t, echo, {
    refuse: ({ headers }) => (headers.authorization === 'Bearer 0123456789abcdef' ? undefined : 401),
  });
  const other = await workerService(t, echo, { status: { protocol: 'npy', wkr_protocol: 2 } });
  const url = JSON.stringify(other.url);
  const shown = await python(
    right.port,
    `
show(error_of(lambda: WKRClient(port=PORT, token="fedcba9876543210"))[:2])
client = WKRClient(port=PORT, ip="0.0.0.0", show_server_config=False)
show([client.server_status["server_version"], client.status["timeout"], client.status["server_ip"]])
show(error_of(lambda: WKRClient(url=${url})))
show(error_of(lambda: WKRClient(url=${url}, protocol="numpy")))
show(WKRClient(url=${url}, protocol="npy", check_version=False).protocol)
client.close()
client.close()
show(error_of(lambda: client.encode(1))[:2])
`,
    { WKR_TOKEN: '0123456789abcdef' },
  );
  assert.deepEqual(shown[0], ['WKRError', 'unauthorized']);
  assert.deepEqual(shown[1], ['0.1.0', 900_000, '0.0.0.0']);
  assert.match(JSON.stringify(shown[2]), /AttributeError.*speaks the protocol 'npy', this client \\"obj\\"/);
  assert.match(JSON.stringify(shown[3]), /AttributeError.*install matching versions/);
  assert.deepEqual(shown.slice(4), ['npy', ['WKRError', 'closed']]);
});

/** A TCP server that does `serve` with each connection. */
async function tcp(t: Hooks, serve: (socket: Socket, count: number) => void): Promise<number> {
  const sockets = new Set<Socket>();
  let count = 0;
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    serve(socket, count++);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

test(
  'a silent port, a port that drips, and a port without a service end the call',
  WITH_PYTHON,
  async (t) => {
    const silent = await tcp(t, () => undefined);
    const dripping = await tcp(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx: ');
      const drip = setInterval(() => socket.write('x'), 20);
      socket.on('close', () => clearInterval(drip));
    });
    const shown = await python(
      silent,
      `
limit = {"timeout": 300}
show(error_of(lambda: WKRClient(port=PORT, **limit)))
show(error_of(lambda: WKRClient(port=PORT, ignore_all_checks=True, **limit).encode(1)))
show(error_of(lambda: WKRClient(port=${dripping}, ignore_all_checks=True, **limit).encode(1)))
show(error_of(lambda: WKRClient(port=1)))
client = WKRClient(port=PORT, ignore_all_checks=True, timeout=-1)
threading.Timer(0.3, client.close).start()
show(error_of(lambda: client.encode(1)))
`,
    );
    for (const error of shown.slice(0, 3))
      assert.match(String(error), /^TimeoutError,,no answer from http.* within 300 ms/);
    assert.deepEqual((shown[3] as string[]).slice(0, 2), ['WKRError', 'unreachable']);
    assert.deepEqual((shown[4] as string[]).slice(0, 2), ['WKRError', 'closed']);
  },
);

test(
  'a service that closes connections it has kept: no item is lost, and none is sent twice',
  WITH_PYTHON,
  async (t) => {
    const seen: unknown[] = [];
    const { port, server } = await workerService(t, (value) => {
      seen.push(value);
      return value;
    });
    server.on('request', (request, response) => response.on('finish', () => request.socket.end()));
    const [answers] = await python(
      port,
      `
import select
client = WKRClient(**CALL)
def ask(i):
    answer = client.encode(i)
    # Until the end of the connection is here.
    select.select([client._session.http._idle[0][0].sock], [], [], 10)
    return answer
show([ask(i) for i in range(20)])
`,
    );
    const numbers = Array.from({ length: 20 }, (_, i) => i);
    assert.deepEqual(answers, numbers);
    assert.deepEqual(seen, numbers);
  },
);

test('a request whose connection breaks is an error, and is not sent again', WITH_PYTHON, async (t) => {
  let received = 0;
  const port = await tcp(t, (socket) => {
    socket.once('data', () => {
      received++;
      socket.destroy();
    });
  });
  const [blocking, later] = await python(
    port,
    'c = WKRClient(**CALL); show(error_of(lambda: c.encode(1))); show(error_of(lambda: c.encode(1, blocking=False)))',
  );
  assert.deepEqual((blocking as string[]).slice(0, 2), ['WKRError', 'connection_lost']);
  assert.deepEqual((later as string[]).slice(0, 2), ['WKRError', 'connection_lost']);
  assert.equal(received, 2);
});

/** Answers of 200 that no service gives. The item is `{identity, id}` of the request. */
const frame = (json: string, blocks = '') => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(json));
  return Buffer.concat([length, Buffer.from(json), Buffer.from(blocks)]);
};
const encoded =
  (outcome: string, more = '') =>
  (id: string) =>
    frame(`{"type":"encoded","id":"${id}","outcome":${outcome}${more}}`);
const HOSTILE: Readonly<Record<string, (id: string) => Buffer>> = {
  'no frame': () => Buffer.from('hello'),
  nothing: () => Buffer.alloc(0),
  'a cut frame': (id) => encoded('{"value":1}')(id).subarray(0, 20),
  'two frames': (id) => Buffer.concat([encoded('{"value":1}')(id), encoded('{"value":1}')(id)]),
  'another type': (id) => frame(`{"type":"run","id":"${id}","outcome":{"value":1}}`),
  'the answer of another': () => frame('{"type":"encoded","id":"2","outcome":{"value":1}}'),
  'no outcome': encoded('null'),
  'value and error': encoded('{"value":1,"error":{"code":"a","message":"b"}}'),
  'an error without a message': encoded('{"error":{"code":"a"}}'),
  'a code that is no text': encoded('{"error":{"code":{},"message":"b"}}'),
  'a block that is not there': encoded('{"value":{"$t":"bytes","b":7}}'),
  'a block that is too long': encoded('{"value":{"$t":"bytes","b":0}}', ',"blocks":[200000000]'),
  'a block of no value': (id) =>
    frame(`{"type":"encoded","id":"${id}","outcome":{"value":1},"blocks":[1]}`, 'x'),
  'an array of another size': (id) =>
    frame(
      `{"type":"encoded","id":"${id}","outcome":{"value":{"$t":"ndarray","dtype":"float64","shape":[5],"b":0}},"blocks":[1]}`,
      'x',
    ),
  'a set of lists': encoded('{"value":{"$t":"set","items":[[1]]}}'),
};

test('hostile answers are WKRErrors', WITH_PYTHON, async (t) => {
  const names = Object.keys(HOSTILE);
  const port = await tcp(t, (socket, count) => {
    socket.once('data', (data) => {
      const id = /"id":"([^"]+)"/.exec(data.toString('latin1'))?.[1] ?? '';
      const body = (HOSTILE[names[count] ?? ''] ?? HOSTILE['nothing'])?.(id) ?? '';
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: ${FRAME_TYPE}\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n`,
      );
      socket.end(body);
    });
  });
  const [codes] = await python(
    port,
    `show([error_of(lambda: WKRClient(**CALL).encode(1))[:2] for _ in range(${names.length})])`,
  );
  assert.deepEqual(
    (codes as string[][]).map((error, i) => [names[i], ...error]),
    names.map((name) => [name, 'WKRError', 'malformed_answer']),
  );
});

const HOSTILE_HTTP: Readonly<Record<string, readonly [answer: string, code: string]>> = {
  'a line of no protocol': ['SMTP ready\r\n\r\n', 'malformed_answer'],
  'a page': ['HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi', 'malformed_answer'],
  'an answer that is cut off': [
    `HTTP/1.1 200 OK\r\ncontent-type: ${FRAME_TYPE}\r\ncontent-length: 99\r\n\r\nhi`,
    'connection_lost',
  ],
  'a length over the limit': [
    `HTTP/1.1 200 OK\r\ncontent-type: ${FRAME_TYPE}\r\ncontent-length: 99999999999\r\n\r\nhi`,
    'too_large',
  ],
  'an error in JSON that is no object': ['HTTP/1.1 422 No\r\ncontent-length: 2\r\n\r\n[]', 'model_failed'],
  'an error with a code of its own': [
    'HTTP/1.1 400 No\r\ncontent-length: 40\r\n\r\n{"code":"bad_input","error_message":"x"}',
    'bad_input',
  ],
  'a redirect': [
    'HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n',
    'bad_request',
  ],
  'an answer of 202': ['HTTP/1.1 202 OK\r\ncontent-length: 2\r\n\r\n{}', 'malformed_answer'],
};

test(
  'answers of no such service are WKRErrors, and an endless answer is not read to its end',
  WITH_PYTHON,
  async (t) => {
    const names = Object.keys(HOSTILE_HTTP);
    let sent = 0;
    const port = await tcp(t, (socket, count) => {
      socket.once('data', () => {
        const answer = HOSTILE_HTTP[names[count] ?? ''];
        if (answer) return socket.end(answer[0]);
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${FRAME_TYPE}\r\n\r\n`);
        const piece = Buffer.alloc(2 ** 20);
        const more = () => {
          sent += piece.length;
          socket.write(piece, (error) => error ?? (sent < 2 ** 28 && more()));
        };
        more();
      });
    });
    const [codes] = await python(
      port,
      `show([error_of(lambda: WKRClient(**CALL).encode(1))[1] for _ in range(${names.length + 1})])`,
    );
    assert.deepEqual(codes, [...names.map((name) => HOSTILE_HTTP[name]?.[1]), 'too_large']);
    assert.ok(sent < 2 ** 27, `${sent} bytes were read`);
  },
);

test(
  'results that no service gives end a fetch, and what came before is not lost',
  WITH_PYTHON,
  async (t) => {
    const wrong = [
      '{"type":"results","cursor":-1,"results":[]}',
      '{"type":"results","cursor":1,"results":{}}',
      '{"type":"results","cursor":1,"results":[null]}',
      '{"type":"results","cursor":"1","results":[]}',
    ];
    let mode: 'right' | 'wrong' | 'none' = 'right';
    const service = await workerService(t, (value) => {
      mode = value === 'last' ? 'wrong' : mode;
      return value;
    });
    const [own] = service.server.listeners('request') as [(...args: unknown[]) => void];
    service.server.removeAllListeners('request');
    service.server.on('request', (request, response) => {
      if (mode === 'right' || request.method === 'POST' || wrong.length === 0) return own(request, response);
      response.writeHead(200, { 'content-type': FRAME_TYPE });
      response.end(frame(wrong.shift() ?? ''));
    });
    const [errors, results] = await python(
      service.port,
      `
client = WKRClient(**CALL)
client.encode("first", blocking=False)
client.encode("last", blocking=False)
show([error_of(client.fetch_all)[:2] for _ in range(4)])
show(client.fetch_all())
`,
    );
    assert.deepEqual(
      errors,
      Array.from({ length: 4 }, () => ['WKRError', 'malformed_answer']),
    );
    assert.deepEqual(results, ['first', 'last']);
  },
);

test(
  'an image comes back as a Pillow image, and one that cannot be read fails alone',
  WITH_PILLOW,
  async (t) => {
    const { port } = await workerService(t, (value) =>
      value === 'broken' ? new EncodedImage(Uint8Array.of(1, 2, 3)) : value,
    );
    const shown = await python(
      port,
      `
from PIL import Image
client = WKRClient(**CALL)
answer = client.encode(Image.new("RGB", (3, 2), (1, 2, 3)))
show([answer.size, list(answer.getpixel((2, 1)))])
show(error_of(lambda: client.encode("broken"))[:2])
warnings.simplefilter("ignore")
for item in ("broken", 7): client.encode(item, blocking=False)
show(client.fetch_all())
`,
    );
    assert.deepEqual(shown, [
      [
        [3, 2],
        [1, 2, 3],
      ],
      ['WKRError', 'malformed_answer'],
      [null, 7],
    ]);
  },
);
