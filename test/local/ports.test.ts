import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { after, describe, it } from 'node:test';
import { assertPortsFree, listenError, portHolder, portInUse } from '../../local/machine/ports.ts';
import { freePort } from '../support/free-port.ts';

const onLinux = process.platform === 'linux';
const servers: Server[] = [];

async function listening(host: string): Promise<number> {
  const server = createServer();
  servers.push(server);
  server.listen(0, host);
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

after(() => {
  for (const server of servers) server.close();
});

describe('ports', () => {
  it('names the process that listens on an IPv4 port', { skip: !onLinux && 'needs /proc' }, async () => {
    const holder = await portHolder(await listening('127.0.0.1'));
    assert.equal(holder?.pid, process.pid);
    assert.match(holder.command, /node/);
  });

  it('names the process that listens on an IPv6 port', { skip: !onLinux && 'needs /proc' }, async (t) => {
    const port = await listening('::1').catch(() => undefined);
    if (port === undefined) return t.skip('no IPv6 here');
    assert.equal((await portHolder(port))?.pid, process.pid);
  });

  it('knows no holder of a port that only a client uses', async () => {
    const socket = connect(await listening('127.0.0.1'), '127.0.0.1');
    await once(socket, 'connect');
    assert.equal(await portHolder(socket.localPort ?? 0), undefined);
    socket.destroy();
  });

  it('knows no holder of a free port', async () => {
    assert.equal(await portHolder(await freePort()), undefined);
  });

  it('says who holds the port and which option changes it', { skip: !onLinux && 'needs /proc' }, async () => {
    const port = await listening('127.0.0.1');
    const error = await portInUse(port, '--redis-port');
    assert.equal(error.code, 'bad_config');
    const expected = new RegExp(
      `^port ${port} is in use by process ${process.pid} \\(.*node.*\\); stop it or choose another with --redis-port$`,
    );
    assert.match(error.message, expected);
  });

  it('says "another process" where the system does not tell', async () => {
    const error = await portInUse(await freePort(), '--port');
    assert.match(error.message, /is in use by another process; stop it or choose another with --port$/);
  });

  it('accepts free ports and port 0 any number of times', async () => {
    await assertPortsFree([
      { port: await freePort(), option: '--port' },
      { port: 0, option: '--aws-port' },
      { port: 0, option: '--redis-port' },
    ]);
  });

  it('reports every taken and every doubled port in one error', async () => {
    const taken = await listening('127.0.0.1');
    const free = await freePort();
    const wanted = [
      { port: taken, option: '--port' },
      { port: free, option: '--aws-port' },
      { port: free, option: '--redis-port' },
    ];
    await assert.rejects(assertPortsFree(wanted), (error: Error) => {
      assert.match(error.message, new RegExp(`port ${taken} is in use by .*--port`));
      assert.match(error.message, new RegExp(`--aws-port and --redis-port are both ${free}`));
      return true;
    });
  });

  it('explains an address that is not of this machine', async () => {
    const wanted = { port: 1234, option: '--host', host: '203.0.113.1' };
    const error = await listenError(
      Object.assign(new Error('EADDRNOTAVAIL'), { code: 'EADDRNOTAVAIL' }),
      wanted,
    );
    assert.match(error.message, /cannot listen on 203\.0\.113\.1:1234 \(--host\): EADDRNOTAVAIL/);
  });
});
