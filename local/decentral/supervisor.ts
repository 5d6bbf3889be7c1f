/** Keeps as many clients running for each server as were asked for, and changes both while it runs. */
import { EventEmitter, once } from 'node:events';
import { ServingError } from '../../lib/contract/errors.ts';
import type { ServiceLog } from '../../lib/workers/log.ts';
import { Client, type ClientContext, type ClientSettings } from './client.ts';
import type { After } from './process.ts';
import type { RemoteServer } from './servers.ts';

export interface SupervisorSettings extends ClientSettings {
  readonly portOut: number;
  readonly numClient: number;
  readonly servers: readonly RemoteServer[];
}

export class Supervisor {
  readonly #settings: SupervisorSettings;
  readonly #context: ClientContext;
  readonly #changes = new EventEmitter();
  readonly #firstLoad = Promise.withResolvers<void>();
  #numClient: number;
  #servers: readonly RemoteServer[];
  #clients: Client[] = [];
  /** Counts the commands that change the clients. */
  #command = 0;
  #isClosed = false;
  #started = 0;

  constructor(settings: SupervisorSettings, log: ServiceLog, note: (text: string) => void, after?: After) {
    this.#settings = settings;
    this.#numClient = settings.numClient;
    this.#servers = settings.servers;
    // Each waiting caller listens.
    this.#changes.setMaxListeners(0);
    this.#context = {
      settings,
      log,
      note,
      changed: () => this.#changes.emit('change'),
      loaded: () => this.#firstLoad.resolve(),
      notLoaded: (why) =>
        this.#firstLoad.reject(
          new ServingError('model_failed', `${settings.worker} cannot be loaded: ${why}`),
        ),
      ...(after && { after }),
    };
  }

  /** Starts the clients. @throws bad_config when the first to load its class cannot */
  async start(): Promise<void> {
    this.#fill();
    await this.#firstLoad.promise;
  }

  status() {
    return {
      port_out: this.#settings.portOut,
      number_client_per_server: this.#numClient,
      remote_servers: this.#servers,
      clients: this.#clients.map((client) => client.status()),
    };
  }

  /** Sums over the clients that there are. */
  totals() {
    const sum = (of: (client: Client) => number) =>
      this.#clients.reduce((total, each) => total + of(each), 0);
    return {
      clients: this.#clients.length,
      running: sum(({ state }) => Number(state === 'running')),
      restarts: sum(({ restarts }) => restarts),
      done: sum(({ done }) => done),
      failed: sum(({ failed }) => failed),
    };
  }

  /** Clients of servers that stay keep running. Resolves when all run. */
  async switch(numClient: number, servers: readonly RemoteServer[], signal: AbortSignal): Promise<void> {
    this.#numClient = numClient;
    this.#servers = servers;
    const wanted = countsOf(servers, numClient);
    const left = this.#clients.filter((client) => {
      const key = String(client.server);
      const more = wanted.get(key) ?? 0;
      wanted.set(key, more - 1);
      return more <= 0;
    });
    await this.#replace(left, signal);
  }

  /** Replaces each client by a new one. Resolves when all run. */
  async restart(signal: AbortSignal): Promise<void> {
    await this.#replace(this.#clients, signal);
  }

  /** Resolves when all clients have stopped; `switch` and `restart` start them again. */
  async idle(): Promise<void> {
    this.#command++;
    await this.#retire(this.#clients);
  }

  /** Like idle, and never resumed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.idle();
  }

  async #replace(left: readonly Client[], signal: AbortSignal): Promise<void> {
    const command = ++this.#command;
    const assertLast = () => {
      if (command !== this.#command) throw new ServingError('cancelled', 'another command came in between');
    };
    const retired = this.#retire(left);
    // Beside the old ones, which may take a while to end.
    this.#fill();
    await retired;
    assertLast();
    // One that an earlier command retired may still be listed.
    while (!this.#clients.every(({ state }) => state === 'running' || state === 'stopped')) {
      await once(this.#changes, 'change', { signal });
      assertLast();
    }
  }

  async #retire(clients: readonly Client[]): Promise<void> {
    await Promise.all(clients.map((client) => client.stop()));
    this.#clients = this.#clients.filter(({ state }) => state !== 'stopped');
  }

  #fill(): void {
    if (this.#isClosed) return;
    const missing = countsOf(this.#servers, this.#numClient);
    for (const { server, state } of this.#clients) {
      const stays = state !== 'retiring' && state !== 'stopped';
      if (stays) missing.set(String(server), (missing.get(String(server)) ?? 0) - 1);
    }
    for (const server of this.#servers) {
      const count = missing.get(String(server)) ?? 0;
      for (let i = 0; i < count; i++) this.#clients.push(new Client(server, ++this.#started, this.#context));
      missing.set(String(server), 0);
    }
  }
}

/** A server that is listed twice gets twice as many. */
function countsOf(servers: readonly RemoteServer[], numClient: number): Map<string, number> {
  const counts = new Map<string, number>();
  for (const server of servers) counts.set(String(server), (counts.get(String(server)) ?? 0) + numClient);
  return counts;
}
