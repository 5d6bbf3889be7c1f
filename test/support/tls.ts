/**
 * Puts TLS in front of a TCP port on this machine, with a certificate made for the test. Without the openssl command
 * there is no proxy and the test is skipped.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer } from 'node:tls';

export interface TlsProxy {
  readonly port: number;
  /** The file with the certificate, for NODE_EXTRA_CA_CERTS. */
  readonly certificate: string;
  /** The number of TLS connections so far. */
  accepted(): number;
  close(): Promise<void>;
}

/** The files of a certificate for `localhost` and of its key; undefined where there is no openssl. */
export function makeCertificate(folder: string): { certificate: string; key: string } | undefined {
  const certificate = join(folder, 'certificate.pem');
  const key = join(folder, 'key.pem');
  const request =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost';
  const names = ['-addext', 'subjectAltName=DNS:localhost'];
  const made = spawnSync('openssl', [...request.split(' '), ...names, '-keyout', key, '-out', certificate]);
  return made.status === 0 ? { certificate, key } : undefined;
}

/** For `localhost`; undefined where there is no openssl. */
export async function startTlsProxy(targetPort: number, folder: string): Promise<TlsProxy | undefined> {
  const files = makeCertificate(folder);
  if (!files) return undefined;
  const { certificate, key } = files;
  const sockets = new Set<Socket>();
  let accepted = 0;
  const server = createServer({ key: await readFile(key), cert: await readFile(certificate) }, (outside) => {
    accepted++;
    const inside = connect(targetPort, '127.0.0.1');
    for (const socket of [outside, inside]) {
      sockets.add(socket);
      // As Redis does: else a command in two writes waits 40 ms for the acknowledgement of the first.
      socket.setNoDelay();
      // One end gone is the other end's end.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        outside.destroy();
        inside.destroy();
      });
    }
    outside.pipe(inside).pipe(outside);
  });
  server.listen(0);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    certificate,
    accepted: () => accepted,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
