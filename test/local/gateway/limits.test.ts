import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, describe, it } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { type Gateway, type GatewayOptions, startGateway } from '../../../local/gateway/gateway.ts';
import type { GatewayRoute } from '../../../local/gateway/routes.ts';

const MB = 1024 * 1024;
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
const opened: Gateway[] = [];
after(() => Promise.all(opened.map((gateway) => gateway.close())));

async function gatewayFor(
  handler: GatewayRoute['handler'],
  options: Partial<GatewayOptions> & { readonly functionTimeoutMs?: number } = {},
): Promise<Gateway> {
  const { functionTimeoutMs, ...rest } = options;
  const limit = functionTimeoutMs === undefined ? {} : { timeoutMs: functionTimeoutMs };
  const routes: GatewayRoute[] = [{ method: 'POST', path: '/', handler, ...limit }];
  const gateway = await startGateway({ port: 0, log: quiet, routes, closeTimeoutMs: 500, ...rest });
  opened.push(gateway);
  return gateway;
}

const sizeOf = async (event: APIGatewayProxyEventV2) => String(event.body?.length ?? 0);

/** Everything the gateway says on one connection until it closes it. */
async function talk(gateway: Gateway, text: string): Promise<string> {
  const socket = connect(gateway.port, '127.0.0.1').setEncoding('latin1');
  let reply = '';
  socket.on('data', (chunk: string) => {
    reply += chunk;
  });
  socket.on('error', () => undefined);
  socket.write(text);
  await once(socket, 'close');
  return reply;
}

async function post(gateway: Gateway, body: string | Uint8Array<ArrayBuffer>, type = 'text/plain') {
  const response = await fetch(gateway.url, { method: 'POST', headers: { 'content-type': type }, body });
  return { status: response.status, body: await response.text() };
}

const untilTrue = async (condition: () => boolean) => {
  const deadline = Date.now() + 60_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, 'the condition did not come true in 60 s');
    await new Promise((resolve) => setImmediate(resolve));
  }
};

/** Within less than the 30 s after which the gateway gives up on any handler. */
const untilStatus = async (condition: () => Promise<boolean>) => {
  const deadline = Date.now() + 15_000;
  while (!(await condition())) assert.ok(Date.now() < deadline, 'the answer did not change in 15 s');
};

describe('gateway limits', () => {
  it('answers 413 to a body of more than 10 MB and keeps serving', async () => {
    const gateway = await gatewayFor(sizeOf);
    const tooLarge = {
      status: 413,
      body: '{"message":"Request Entity Too Large","error":"Request Entity Too Large"}',
    };
    assert.deepEqual(await post(gateway, new Uint8Array(10 * MB + 1)), tooLarge);
    assert.deepEqual(await post(gateway, 'abc'), { status: 200, body: '3' });
  });

  it('answers 413 to an event of more than 6 MB, as text and as base64', async () => {
    const gateway = await gatewayFor(sizeOf);
    const status = async (bytes: number, type: string) =>
      (await post(gateway, 'x'.repeat(bytes), type)).status;
    assert.equal(await status(6 * MB, 'text/plain'), 413);
    assert.equal(await status(5.9 * MB, 'text/plain'), 200);
    assert.equal(await status(5 * MB, 'application/octet-stream'), 413);
    assert.equal(await status(4.4 * MB, 'application/octet-stream'), 200);
    // Quotes take two bytes in JSON.
    assert.equal((await post(gateway, '"'.repeat(3.2 * MB))).status, 413);
    assert.equal((await post(gateway, '"'.repeat(2.9 * MB))).status, 200);
  });

  it('answers 413 to a chunked body that grows beyond 10 MB', async () => {
    const gateway = await gatewayFor(sizeOf);
    const chunk = 'x'.repeat(MB);
    const chunks = `${chunk.length.toString(16)}\r\n${chunk}\r\n`.repeat(11);
    const reply = await talk(
      gateway,
      `POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
    );
    assert.match(
      reply,
      /^HTTP\/1\.1 413 [^]*\{"message":"Request Entity Too Large","error":"Request Entity Too Large"\}$/,
    );
  });

  it('refuses an expected body that is too large before it is sent', async () => {
    const gateway = await gatewayFor(sizeOf);
    const head = `POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: ${11 * MB}\r\n\r\n`;
    const reply = await talk(gateway, head);
    assert.match(reply, /^HTTP\/1\.1 413 /);
    assert.doesNotMatch(reply, /100 Continue/);
  });

  it('answers 431 to request line and header values of more than 10,240 bytes', async () => {
    const gateway = await gatewayFor(sizeOf);
    const status = async (bytes: number) => {
      const headers = { 'x-a': 'a'.repeat(bytes / 2), 'x-b': 'b'.repeat(bytes / 2) };
      const response = await fetch(gateway.url, { method: 'POST', headers });
      return { status: response.status, body: await response.text() };
    };
    assert.equal((await status(9900)).status, 200);
    const tooLarge = {
      status: 431,
      body: '{"message":"Request Header Fields Too Large","error":"Request Header Fields Too Large"}',
    };
    assert.deepEqual(await status(10_240), tooLarge);
    assert.deepEqual(await status(60_000), tooLarge);
  });

  it('answers 503 when the gateway, 500 when the function runs out of time', async () => {
    const never = () => new Promise<never>(() => undefined);
    const slowGateway = await gatewayFor(never, { timeoutMs: 30 });
    assert.deepEqual(await post(slowGateway, ''), {
      status: 503,
      body: '{"message":"Service Unavailable","error":"Service Unavailable"}',
    });
    const slowFunction = await gatewayFor(never, { functionTimeoutMs: 30 });
    assert.deepEqual(await post(slowFunction, ''), {
      status: 500,
      body: '{"message":"Internal Server Error","error":"Internal Server Error"}',
    });
  });

  it('calls a handler that blocked the thread beyond its time timed out', async () => {
    const block = async () => {
      const end = Date.now() + 60;
      while (Date.now() < end);
      return 'late';
    };
    const gateway = await gatewayFor(block, { timeoutMs: 20 });
    assert.equal((await post(gateway, '')).status, 503);
  });

  it('answers 429 beyond its concurrent requests and serves again afterwards', async () => {
    let release: (value: string) => void = () => undefined;
    let running = 0;
    const gateway = await gatewayFor(
      () => {
        running += 1;
        return new Promise<string>((resolve) => {
          release = resolve;
        });
      },
      { maxConcurrentRequests: 1 },
    );
    const first = post(gateway, '');
    await untilTrue(() => running === 1);
    assert.deepEqual(await post(gateway, 'abc'), {
      status: 429,
      body: '{"message":"Too Many Requests","error":"Too Many Requests"}',
    });
    release('done');
    assert.deepEqual(await first, { status: 200, body: 'done' });
    const third = post(gateway, '');
    await untilTrue(() => running === 2);
    release('again');
    assert.deepEqual(await third, { status: 200, body: 'again' });
  });

  it('answers 429 to a body it has no room for while others are held, and has room afterwards', async () => {
    let release: (value: string) => void = () => undefined;
    let running = 0;
    const gateway = await gatewayFor(
      (event) => {
        running += 1;
        if (event.body !== 'first') return Promise.resolve('short');
        return new Promise<string>((resolve) => {
          release = resolve;
        });
      },
      { maxHeldBytes: 10 },
    );
    const first = post(gateway, 'first');
    await untilTrue(() => running === 1);
    assert.equal((await post(gateway, 'second')).status, 429);
    assert.equal((await post(gateway, 'third')).status, 200);
    release('done');
    assert.equal((await first).status, 200);
    assert.equal((await post(gateway, 'as-much-10')).status, 200);
  });

  it('gives up a client that does not finish its request', async () => {
    const gateway = await gatewayFor(sizeOf, { requestTimeoutMs: 100 });
    const halfHead = await talk(gateway, 'POST / HTTP/1.1\r\nhost: localhost\r\n');
    assert.match(halfHead, /^HTTP\/1\.1 408 /);
    const halfBody = await talk(
      gateway,
      'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc',
    );
    assert.match(halfBody, /^HTTP\/1\.1 408 /);
  });

  it('answers 400 to what is not HTTP', async () => {
    const gateway = await gatewayFor(sizeOf);
    assert.match(
      await talk(gateway, 'hello\r\n\r\n'),
      /^HTTP\/1\.1 400 [^]*\{"message":"Bad Request","error":"Bad Request"\}$/,
    );
    const twoLengths =
      'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab';
    assert.match(await talk(gateway, twoLengths), /^HTTP\/1\.1 400 /);
  });
});

describe('gateway connections', () => {
  it('serves many requests on one connection, refused ones too', async () => {
    const gateway = await gatewayFor(sizeOf);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const sockets = new Set<Socket>();
    const send = (path: string, body: string) =>
      new Promise<number>((resolve, reject) => {
        const sent = httpRequest({ port: gateway.port, agent, method: 'POST', path }, (response) =>
          response.resume().on('end', () => resolve(response.statusCode ?? 0)),
        );
        sent.on('socket', (socket) => sockets.add(socket)).on('error', reject);
        sent.end(body);
      });
    const statuses: number[] = [];
    for (const path of ['/', '/nope', '/', '/%zz', '/']) statuses.push(await send(path, 'x'.repeat(100_000)));
    agent.destroy();
    assert.deepEqual(statuses, [200, 404, 200, 400, 200]);
    assert.equal(sockets.size, 1);
  });

  it('answers pipelined requests in order', async () => {
    const gateway = await gatewayFor(async (event) => `<${event.body}>`);
    const one = (body: string, last: string) =>
      `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n${last}content-length: 1\r\n\r\n${body}`;
    const reply = await talk(gateway, one('a', '') + one('b', '') + one('c', 'connection: close\r\n'));
    assert.deepEqual(reply.match(/<.>/g), ['<a>', '<b>', '<c>']);
  });

  it('invokes nothing for a client that leaves in the middle of its body', async () => {
    let invoked = 0;
    const gateway = await gatewayFor(
      async () => {
        invoked += 1;
        return '';
      },
      { maxConcurrentRequests: 1 },
    );
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write('POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nabc');
    await once(socket, 'connect');
    socket.destroy();
    // Its place becomes free again: until then, this is answered 429.
    let status = 429;
    while (status === 429) status = (await post(gateway, '')).status;
    assert.equal(status, 200);
    assert.equal(invoked, 1);
  });

  it('drops the answer for a client that left while the handler ran', async () => {
    let finish: () => void = () => undefined;
    let invoked = 0;
    const gateway = await gatewayFor(() => {
      invoked += 1;
      return new Promise<string>((resolve) => {
        finish = () => resolve('ok');
      });
    });
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write('POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n');
    await untilTrue(() => invoked === 1);
    socket.destroy();
    await once(socket, 'close');
    finish();
    const second = post(gateway, '');
    await untilTrue(() => invoked === 2);
    finish();
    assert.deepEqual(await second, { status: 200, body: 'ok' });
  });
});

describe('clients that went away', () => {
  /** A gateway whose waits end on request, and clients of it that may leave. */
  async function waitingGateway(options: Partial<GatewayOptions> = {}) {
    const waits: (() => void)[] = [];
    const wait = () => new Promise<string>((resolve) => waits.push(() => resolve('late')));
    const gateway = await gatewayFor(sizeOf, {
      routes: [
        { method: 'POST', path: '/', handler: sizeOf },
        { method: 'POST', path: '/wait', handler: wait },
        { method: 'GET', path: '/ready', handler: async () => 'yes', ownSlots: true },
      ],
      ...options,
    });
    const come = async (body = '') => {
      const socket = connect(gateway.port, '127.0.0.1');
      const before = waits.length;
      socket.write(`POST /wait HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      await untilTrue(() => waits.length > before);
      return socket;
    };
    return { gateway, waits, come };
  }

  const untilPlace = async (gateway: Gateway) => {
    let status = 429;
    await untilStatus(async () => {
      status = (await post(gateway, 'abc')).status;
      return status !== 429;
    });
    assert.equal(status, 200);
  };

  it('give their places to others although their handlers still run', async () => {
    const { gateway, waits, come } = await waitingGateway({ maxConcurrentRequests: 2 });
    const sockets = [await come(), await come()];
    assert.equal((await post(gateway, 'abc')).status, 429);
    for (const socket of sockets) socket.destroy();
    await untilPlace(gateway);
    for (const end of waits) end();
  });

  it('come and go without end, and are refused while four times as many handlers run as there are places', async () => {
    const { gateway, waits, come } = await waitingGateway({ maxConcurrentRequests: 2 });
    for (let i = 0; i < 8; i++) {
      await untilPlace(gateway);
      (await come()).destroy();
    }
    await untilStatus(async () => (await post(gateway, 'abc')).status === 429);
    assert.equal(waits.length, 8);
    waits[1]?.();
    await untilPlace(gateway);
    for (const end of waits) end();
  });

  it('keep the bytes of their bodies held until their handlers end', async () => {
    const { gateway, waits, come } = await waitingGateway({ maxConcurrentRequests: 1, maxHeldBytes: 10 });
    const socket = await come('12345678');
    socket.destroy();
    // An empty body needs a place and no bytes.
    await untilStatus(async () => (await post(gateway, '')).status === 200);
    assert.equal((await post(gateway, 'abc')).status, 429);
    waits[0]?.();
    await untilPlace(gateway);
  });

  it('and those that wait never keep anybody from a route with places of its own', async () => {
    const { gateway, waits, come } = await waitingGateway({ maxConcurrentRequests: 1 });
    await come();
    assert.equal((await post(gateway, 'abc')).status, 429);
    const ready = await fetch(`${gateway.url}/ready`);
    assert.deepEqual([ready.status, await ready.text()], [200, 'yes']);
    for (const end of waits) end();
  });
});

describe('closing the gateway', () => {
  it('finishes requests under way, cuts idle connections and takes no more', async () => {
    let finish: () => void = () => undefined;
    let invoked = 0;
    const gateway = await gatewayFor(
      () => {
        invoked += 1;
        return new Promise<string>((resolve) => {
          finish = () => resolve('finished');
        });
      },
      { closeTimeoutMs: 10_000 },
    );
    const idle = connect(gateway.port, '127.0.0.1');
    await once(idle, 'connect');
    const underWay = post(gateway, '');
    await untilTrue(() => invoked === 1);
    const closed = gateway.close();
    await assert.rejects(post(gateway, ''));
    finish();
    assert.deepEqual(await underWay, { status: 200, body: 'finished' });
    await closed;
    if (!idle.closed) await once(idle, 'close');
    await gateway.close();
  });

  it('does not wait longer than its limit for a handler that hangs', async () => {
    let invoked = 0;
    const gateway = await gatewayFor(
      () => {
        invoked += 1;
        return new Promise<never>(() => undefined);
      },
      { closeTimeoutMs: 50, timeoutMs: 5_000 },
    );
    const hanging = assert.rejects(post(gateway, ''));
    await untilTrue(() => invoked === 1);
    await gateway.close();
    await hanging;
  });

  it('says which process has the port when it is taken', async () => {
    const gateway = await gatewayFor(sizeOf);
    const second = startGateway({ port: gateway.port, log: quiet, routes: [] });
    await assert.rejects(second, (error: Error) => {
      assert.match(
        error.message,
        new RegExp(`^port ${gateway.port} is in use by .*choose another with --port$`),
      );
      return true;
    });
  });
});
