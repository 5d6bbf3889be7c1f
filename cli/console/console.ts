/**
 * `cluster-serving console`: the page of a service. One of this machine has it by itself; for a deployment this command serves
 * it on loopback, and asks the deployment with the credentials of the one who started it. Other users of this machine reach the
 * port, too, so the page needs a token, which is in the address that is printed.
 */
import { onStopSignal } from '../../local/machine/signals.ts';
import { newToken } from '../../local/machine/token.ts';
import { findRunning } from '../../local/service/data-folder.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../output.ts';
import { dataDirOf, findService, JOB, notRunning, SERVICE_OPTIONS } from '../service.ts';

export const command = defineCommand({
  name: 'console',
  about: `Shows a service in the browser: try its model, watch it, and look after records, dead letters and versions.
A service of this machine has the page at its own address, which this prints. For a deployment it serves the page on
this machine until Ctrl-C, and signs its requests; what your rights or the API do not give is shown as not available.`,
  options: {
    ...SERVICE_OPTIONS,
    port: {
      value: 'n',
      range: [0, 65_535],
      default: 0,
      about: 'port of the page of a deployment (0 takes any)',
    },
    bucket: { value: 'name', about: 'bucket of a service that --url names' },
    'redis-url': { value: 'url', about: 'its Redis, where this machine reaches it: for replays' },
    config: {
      short: 'c',
      value: 'file',
      about: 'its config (default: ./config.yaml, if it is that of the job)',
    },
    job: JOB,
  },
  examples: ['console --stack cluster-serving-dev'],
  async run(values, output) {
    if ((values.stack ?? values.url) === undefined) {
      const record = (await findRunning(dataDirOf(values)))?.record;
      const service = record && (await findService(values));
      if (service?.http === undefined) return notRunning(values, output, '--stack or --url');
      const url = `${service.http}/console`;
      output.answer({ console: url }, url);
      return EXIT.ok;
    }
    const { openRemote } = await import('./remote.ts');
    const token = newToken();
    const { gateway, close } = await openRemote(values, token);
    try {
      const url = `${gateway.url}/console#token=${token}`;
      output.answer({ console: url }, `${url}\nCtrl-C ends it`);
      await new Promise(onStopSignal);
      return EXIT.ok;
    } finally {
      await close();
    }
  },
});
