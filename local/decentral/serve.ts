/**
 * Runs the supervisor of decentralized clients in this process until it is terminated. "ready" is printed when the class
 * is loaded and the control channel answers; a server that a client cannot reach yet holds nothing up.
 */
import { badRequest } from '../../lib/contract/errors.ts';
import { localTime } from '../../lib/workers/local-time.ts';
import { FileLog, type ServiceLog, STDERR_LOG } from '../../lib/workers/log.ts';
import { outliveOutput } from '../machine/output.ts';
import { onStopSignal } from '../machine/signals.ts';
import { makeToken } from '../machine/token.ts';
import { type HttpServer, startControl, startPage, type Verb } from './control.ts';
import { MAX_CLIENTS, readServers } from './servers.ts';
import { statPage } from './stat-page.ts';
import { Supervisor, type SupervisorSettings } from './supervisor.ts';

export interface DecentralSettings extends SupervisorSettings {
  /** Port of the control channel; 0 takes a free one. */
  readonly port: number;
  readonly httpPort: number | undefined;
  /** Without it, the log is stderr. */
  readonly logDir: string | undefined;
}

/** @returns the exit code. @throws bad_config */
export async function serveDecentral(settings: DecentralSettings): Promise<number> {
  outliveOutput();
  const { logDir, logName, httpPort } = settings;
  const log = logDir === undefined ? STDERR_LOG : new FileLog(logDir, logName, () => new Date());
  const note = (text: string) => writeNote(log, logName, text);
  const supervisor = new Supervisor(settings, log, note);
  const { promise: ended, resolve: end } = Promise.withResolvers<string>();
  // The second signal ends this process, and with it the clients.
  onStopSignal(end);
  const { promise: token, resolve: setToken } = Promise.withResolvers<string>();
  const control = await startControl(
    settings.port,
    token,
    verbsOf(supervisor, () => control.port, end),
  );
  const servers: HttpServer[] = [control];
  const { token: made, forget } = await makeToken(control.port);
  setToken(made);
  try {
    const since = performance.now();
    const page = () => statPage(supervisor.totals(), performance.now() - since);
    if (httpPort !== undefined) servers.push(await startPage(httpPort, page));
    const how = await Promise.race([ended, supervisor.start()]);
    if (how === undefined) {
      note(`ready on port ${control.port}`);
      console.log(`ready http://127.0.0.1:${control.port}`);
      note(`${await ended}: stopping`);
    }
    return 0;
  } finally {
    await supervisor.close();
    await forget();
    await Promise.all(servers.map((server) => server.close()));
  }
}

function verbsOf(
  supervisor: Supervisor,
  port: () => number,
  end: (how: string) => void,
): Readonly<Record<string, Verb>> {
  const success = { success: true };
  return {
    status: async () => ({ port: port(), ...supervisor.status() }),
    switch: async (body, signal) => {
      const now = supervisor.status();
      const { num_client: numClient = 0, remote_servers: list } = body;
      const isCount = typeof numClient === 'number' && Number.isInteger(numClient);
      if (!isCount || numClient < 0 || numClient > MAX_CLIENTS) {
        throw badRequest(`num_client: expected a whole number from 0 to ${MAX_CLIENTS}`);
      }
      if (list !== undefined && typeof list !== 'string') throw badRequest('remote_servers: expected a text');
      const servers = list === undefined ? now.remote_servers : readServers(list);
      await supervisor.switch(numClient || now.number_client_per_server, servers, signal);
      return success;
    },
    idle: async () => {
      await supervisor.idle();
      return success;
    },
    restart: async (_, signal) => {
      await supervisor.restart(signal);
      return success;
    },
    terminate: async () => {
      await supervisor.close();
      end('terminate');
      return success;
    },
  };
}

function writeNote(log: ServiceLog, name: string, text: string): void {
  log.write('log', Buffer.from(`${localTime(new Date())} INFO ${name}: ${text}\n`));
}
