/** `wkr-decentral-status`, `-switch`, `-idle`, `-restart` and `-terminate`: each asks the supervisor and prints its answer. */
import { MAX_CLIENTS, readServers } from '../../../local/decentral/servers.ts';
import { isLoopback } from '../../../local/machine/hosts.ts';
import { type Values, wrongUse } from '../../command.ts';
import { EXIT, type Output } from '../../output.ts';
import { callControl, findControl } from '../control-client.ts';
import { defineWkrCommand } from '../flags.ts';

/** Every supervisor's control channel listens here. */
const CONTROL_HOST = '127.0.0.1';

const FLAGS = {
  port: { value: 'n', range: [1, 65_535], about: 'the -port of wkr-decentral-start' },
  ip: { value: 'address', default: 'localhost', about: 'accepted; the control channel is on this machine' },
  timeout: { value: 'ms', range: [1, 86_400_000], default: 5000, about: 'how long to wait for the answer' },
} as const;

const SWITCH_FLAGS = {
  ...FLAGS,
  num_client: {
    value: 'n',
    range: [0, MAX_CLIENTS],
    default: 0,
    about: 'processes for each server; 0 keeps the number',
  },
  remote_servers: { value: 'list', about: 'servers: [[ip, port, port_out], ...]; without it they stay' },
} as const;

const required = ['port'] as const;

async function ask(
  verb: string,
  values: Values<typeof FLAGS>,
  output: Output,
  body: object = {},
): Promise<number> {
  const { port = 0, ip, timeout } = values;
  if (!isLoopback(ip)) throw wrongUse(`-ip: the control channel is on the machine itself, not on ${ip}`);
  const answer = await callControl(await findControl(port, CONTROL_HOST), verb, body, timeout);
  if (answer === undefined) {
    output.note(`nothing listens on port ${port}`);
    return EXIT.notRunning;
  }
  output.answer(answer, JSON.stringify(answer, null, 2));
  return EXIT.ok;
}

const plain = (verb: string, about: string) =>
  defineWkrCommand({
    name: `wkr-decentral-${verb}`,
    usage: '[flags]',
    about,
    flags: FLAGS,
    required,
    run: ({ values }, output) => ask(verb, values, output),
  });

export const commands = {
  status: plain('status', 'Prints the servers and what each client does.'),
  switch: defineWkrCommand({
    name: 'wkr-decentral-switch',
    usage: '[flags]',
    about: 'Changes the servers or the number of clients. Clients of servers that stay keep running.',
    flags: SWITCH_FLAGS,
    required,
    wordLists: ['remote_servers'],
    run: async ({ values }, output) => {
      const { num_client, remote_servers } = values;
      // The supervisor checks it too; here a mistake is one of the command line.
      if (remote_servers !== undefined) readServers(remote_servers);
      return ask('switch', values, output, { num_client, remote_servers });
    },
  }),
  idle: plain('idle', 'Stops all clients. `switch` and `restart` start them again.'),
  restart: plain('restart', 'Replaces all clients by new ones.'),
  terminate: plain('terminate', 'Stops all clients and the supervisor.'),
} as const;
