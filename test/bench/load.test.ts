import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { driveClosed } from '../../bench/load/closed.ts';
import { Connection, cutChunks, type Exchange, requestBytes } from '../../bench/load/connection.ts';
import { driveOpen } from '../../bench/load/open.ts';
import { poissonArrivals } from '../../bench/load/poisson.ts';
import { RateSearch } from '../../bench/load/search.ts';

describe('Poisson arrivals', () => {
  const gapsOf = (times: Float64Array) => times.subarray(1).map((ms, i) => ms - (times[i] as number));

  test('the same seed gives the same arrivals, another seed others', () => {
    const of = (seed: number) => [...poissonArrivals({ ratePerSecond: 500, seconds: 2, seed })];
    assert.deepEqual(of(1), of(1));
    assert.notDeepEqual(of(1), of(2));
  });

  test('as many arrive as the rate says, in order and before the end', () => {
    for (const seed of [1, 2, 3]) {
      const times = poissonArrivals({ ratePerSecond: 1_000, seconds: 20, seed });
      // Five standard deviations of a count of 20,000.
      assert.ok(Math.abs(times.length - 20_000) < 5 * Math.sqrt(20_000), `${times.length} arrivals`);
      assert.ok(gapsOf(times).every((gap) => gap > 0));
      assert.ok((times[0] as number) > 0 && (times.at(-1) as number) < 20_000);
    }
  });

  test('gaps are spread as between independent callers: as much as their mean', () => {
    const gaps = gapsOf(poissonArrivals({ ratePerSecond: 1_000, seconds: 20, seed: 4 }));
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
    assert.ok(Math.abs(deviation / mean - 1) < 0.05, `deviation ${deviation}, mean ${mean}`);
  });

  test('a rate of nothing is refused', () => {
    for (const ratePerSecond of [0, -1, Number.NaN])
      assert.throws(() => poissonArrivals({ ratePerSecond, seconds: 1, seed: 1 }), /above 0/);
  });
});

describe('the search for the highest rate', () => {
  /** A server that sustains every rate up to `limit`. */
  const searched = (limit: number, guess: number, maxTries = 40) => {
    const search = new RateSearch({ guess, precision: 1.01, maxTries });
    let tries = 0;
    for (let rate = search.next; rate !== undefined; rate = search.next) {
      search.report(rate <= limit);
      tries++;
    }
    return { search, tries };
  };

  test('it ends within its precision below the limit, from a guess above and below', () => {
    for (const guess of [10, 900, 1_000, 1_100, 40_000]) {
      const { search } = searched(1_000, guess);
      const best = search.best as number;
      assert.ok(best <= 1_000 && best >= 1_000 / 1.01, `${best} from ${guess}`);
      assert.ok(search.isBracketed);
    }
  });

  test('a server that sustains nothing has no best rate, and the tries end', () => {
    const { search, tries } = searched(0, 1_000, 7);
    assert.equal(search.best, undefined);
    assert.equal(tries, 7);
  });

  test('tries that end too early say that the limit was not found', () => {
    const { search } = searched(1e9, 10, 3);
    assert.equal(search.isBracketed, false);
    assert.ok(search.best !== undefined);
  });
});

describe('the load generator', () => {
  const exchange: Exchange = {
    request: requestBytes({ path: '/predict', body: '{"ask":1}' }),
    expected: Buffer.from('{"answer":1}'),
  };
  const serve = async (t: TestContext, answer: (count: number) => string, isChunked = false) => {
    let count = 0;
    const server = createServer((request, response) => {
      request.resume().on('end', () => {
        const text = answer(count++);
        if (isChunked) {
          response.write(text.slice(0, 3));
          response.end(text.slice(3));
        } else response.writeHead(200, { 'content-length': text.length }).end(text);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return { port: (server.address() as AddressInfo).port, count: () => count };
  };
  const load = { connections: 4, ratePerSecond: 400, seconds: 0.25, seed: 9, lateShare: 0.01 };

  test('an open loop sends every request that is due, one for each arrival', async (t) => {
    const { port, count } = await serve(t, () => '{"answer":1}');
    const report = await driveOpen([exchange], { ...load, port, limitMs: 60_000 });
    const planned = poissonArrivals(load).length;
    assert.equal(report.planned, planned);
    assert.equal(report.latencies.length, planned);
    assert.equal(count(), planned + load.connections, 'and one on each connection before the clock');
    assert.equal(report.stoppedEarly, false);
    assert.deepEqual(
      [...report.latencies],
      [...report.latencies].sort((a, b) => a - b),
    );
  });

  test('an open loop stops when too many requests are late', async (t) => {
    const { port } = await serve(t, () => '{"answer":1}');
    const report = await driveOpen([exchange], { ...load, port, limitMs: 0 });
    assert.equal(report.stoppedEarly, true);
    assert.ok(report.latencies.length < report.planned);
  });

  test('a wrong answer fails an open and a closed loop', async (t) => {
    const { port } = await serve(t, (count) => (count < 20 ? '{"answer":1}' : '{"answer":2}'));
    await assert.rejects(
      driveOpen([exchange], { ...load, port, limitMs: 60_000 }),
      /wrong answer: \{"answer":2\}/,
    );
    const closed = { port, connections: 2, warmUpMs: 0, measureMs: 200 };
    await assert.rejects(driveClosed([exchange], closed), /wrong answer/);
  });

  test('a server that went away fails the request under way and the next one', async (t) => {
    const server = createServer((request) => request.socket.destroy());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => new Promise((resolve) => server.close(resolve)));
    const connection = new Connection((server.address() as AddressInfo).port);
    await assert.rejects(connection.ask(exchange.request));
    await assert.rejects(connection.ask(exchange.request));
    connection.close();
  });

  test('an answer that cannot be read fails its request and not the process', async (t) => {
    const server = createServer((request) => {
      request.socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno length\r\n');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => new Promise((resolve) => server.close(resolve)));
    const connection = new Connection((server.address() as AddressInfo).port);
    await assert.rejects(connection.ask(exchange.request), /a chunk without a length/);
    connection.close();
  });

  test('an answer in chunks is read as one with a length', async (t) => {
    const { port } = await serve(t, () => '{"answer":1}', true);
    const connection = new Connection(port);
    for (let i = 0; i < 3; i++)
      assert.equal((await connection.ask(exchange.request)).toString(), '{"answer":1}');
    connection.close();
  });

  test('chunks that have not all come are waited for, and what follows them is left', () => {
    const whole = Buffer.from('3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nnext');
    for (let length = 0; length < whole.length - 'next'.length; length++)
      assert.equal(cutChunks(whole.subarray(0, length)), undefined, `${length} bytes`);
    const cut = cutChunks(whole);
    assert.equal(cut?.body.toString(), 'abcde');
    assert.equal(whole.subarray(cut?.end).toString(), 'next');
  });
});
