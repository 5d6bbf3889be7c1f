/** `wkr-decentral-start`, in the foreground: the script of `wkr-decentral-make` puts it into the background. */
import { resolve } from 'node:path';
import type { DecentralSettings } from '../../../local/decentral/serve.ts';
import { MAX_CLIENTS, readServers } from '../../../local/decentral/servers.ts';
import type { Values } from '../../command.ts';
import { CLASS_USAGE, defineWkrCommand, readClass, readName } from '../flags.ts';

const PORT = [0, 65_535] as const;

export const START_FLAGS = {
  port: { value: 'n', range: PORT, about: 'port of the control channel, on 127.0.0.1; 0 takes a free one' },
  port_out: { value: 'n', range: PORT, default: 0, about: 'accepted and shown by status, not opened' },
  http_port: { value: 'n', range: PORT, about: 'port of the page /stat, on 127.0.0.1' },
  num_client: { value: 'n', range: [1, MAX_CLIENTS], default: 24, about: 'processes for each server' },
  remote_servers: {
    value: 'list',
    about: 'servers: [[ip, port, port_out], ...]; quotes and brackets need no escape in sh and bash',
  },
  log_dir: {
    value: 'dir',
    about: 'folder of the logs, by day: .log, and .err for errors; without it, stderr',
  },
  log_name: { value: 'name', default: 'WKRClient', about: 'begins the names of the logs' },
  name: { value: 'name', about: 'name of the service; it shows in the list of processes' },
  python: { value: 'command', default: 'python3', about: 'the Python that has the package wkr_serving' },
  verbose: { about: 'log debug messages too' },
} as const;

export const START_REQUIRED = ['port', 'remote_servers'] as const;

/** @throws bad_config */
export function readSettings(
  positionals: readonly string[],
  values: Values<typeof START_FLAGS>,
): DecentralSettings {
  const { log_dir: logDir, remote_servers: list = '' } = values;
  return {
    worker: readClass(positionals, 'decentralize.ProcessingModel'),
    directory: process.cwd(),
    python: values.python,
    port: values.port ?? 0,
    portOut: values.port_out,
    httpPort: values.http_port,
    numClient: values.num_client,
    servers: readServers(list),
    logDir: logDir === undefined ? undefined : resolve(logDir),
    logName: readName('-log_name', values.log_name),
    verbose: values.verbose ?? false,
  };
}

export const command = defineWkrCommand({
  name: 'wkr-decentral-start',
  usage: CLASS_USAGE,
  about: `Runs processes that call servers in a loop: -num_client for each server, with a class of this folder that
extends WKRWorker. Prints "ready" when the class is loaded, and stays until it is terminated.`,
  flags: START_FLAGS,
  required: START_REQUIRED,
  wordLists: ['remote_servers'],
  async run({ positionals, values }) {
    const settings = readSettings(positionals, values);
    const { serveDecentral } = await import('../../../local/decentral/serve.ts');
    return serveDecentral(settings);
  },
});
