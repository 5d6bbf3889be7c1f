/** `wkr-serving-terminate`: stops a service on this machine, and waits until it has ended. */
import { networkInterfaces } from 'node:os';
import { modelUnavailable, ServingError } from '../../../lib/contract/errors.ts';
import { isLoopback } from '../../../local/machine/hosts.ts';
import { wrongUse } from '../../command.ts';
import { EXIT } from '../../output.ts';
import { callControl, findControl, isReached } from '../control-client.ts';
import { defineWkrCommand } from '../flags.ts';

const ASK_AGAIN_MS = 100;
/** They stand for any address of this machine. */
const ANY = ['localhost', '0.0.0.0', '::'];

export const command = defineWkrCommand({
  name: 'wkr-serving-terminate',
  usage: '-port <n> [flags]',
  about: `Lets the service of a port finish what it has accepted, ends it, and waits until it has ended.`,
  flags: {
    ip: {
      value: 'address',
      default: 'localhost',
      about: 'address of the service, where several of this machine have the port',
    },
    port: { value: 'n', range: [1, 65_535], about: 'port of the HTTP API' },
    timeout: { value: 'ms', range: [1, 3_600_000], default: 5_000, about: 'how long to wait' },
  },
  required: ['port'],
  async run({ values: { ip, port = 0, timeout } }, output) {
    const endMs = performance.now() + timeout;
    const left = () => Math.max(1, Math.ceil(endMs - performance.now()));
    const service = await findControl(port, addressOf(ip));
    if ((await callControl(service, 'terminate', {}, left())) === undefined) {
      output.failure(modelUnavailable(`nothing listens on port ${port} of ${service.host}`));
      return EXIT.notRunning;
    }
    while ((await isReached(service)) && performance.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    }
    if (performance.now() >= endMs) {
      const text = `the service of port ${port} is still finishing after ${timeout} ms; -timeout waits longer`;
      throw new ServingError('timeout', text);
    }
    output.answer({ success: true }, `the service of port ${port} has ended`);
    return EXIT.ok;
  },
});

/** @returns undefined for any address. @throws bad_config for that of another machine, whose token is not here */
function addressOf(ip: string): string | undefined {
  const host = ip.toLowerCase().replace(/^\[(.*)\]$/, '$1');
  if (ANY.includes(host) || host.endsWith('.localhost')) return undefined;
  const own = Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
  if (isLoopback(host) || own.includes(host)) return host;
  throw wrongUse(`-ip ${ip}: expected an address of this machine, on which a service is terminated`);
}
