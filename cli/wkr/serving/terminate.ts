/** `wkr-serving-terminate`: stops a service on this machine, and waits until it has ended. */
import { modelUnavailable, ServingError } from '../../../lib/contract/errors.ts';
import { isLoopback } from '../../../local/hosts.ts';
import { wrongUse } from '../../command.ts';
import { EXIT } from '../../output.ts';
import { callControl } from '../control-client.ts';
import { defineWkrCommand } from '../flags.ts';

const ASK_AGAIN_MS = 100;

export const command = defineWkrCommand({
  name: 'wkr-serving-terminate',
  usage: '-port <n> [flags]',
  about: `Lets the service of a port finish what it has accepted, ends it, and waits until it has ended.`,
  flags: {
    ip: { value: 'address', default: 'localhost', about: 'this machine; the token of another is not here' },
    port: { value: 'n', range: [1, 65_535], about: 'port of the HTTP API' },
    timeout: { value: 'ms', range: [1, 3_600_000], default: 5_000, about: 'how long to wait' },
  },
  required: ['port'],
  async run({ values: { ip, port = 0, timeout } }, output) {
    if (!isLoopback(ip) && ip !== '0.0.0.0')
      throw wrongUse(`-ip ${ip}: a service is terminated on its own machine`);
    const endMs = performance.now() + timeout;
    const left = () => Math.max(1, Math.ceil(endMs - performance.now()));
    if ((await callControl(port, 'terminate', {}, left())) === undefined) {
      output.failure(modelUnavailable(`nothing listens on port ${port}`));
      return EXIT.notRunning;
    }
    while ((await stillThere(port, left())) && performance.now() < endMs) {
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

/** A port that refuses connections has no service any more. */
async function stillThere(port: number, limitMs: number): Promise<boolean> {
  try {
    await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(limitMs) });
    return true;
  } catch (error) {
    return (error as { cause?: { code?: unknown } }).cause?.code !== 'ECONNREFUSED';
  }
}
