/** `cluster-serving dlq --json`, as ae017ae prints it. */
import { cliJson, type ParkedPlace, type Product } from './product.ts';

type Commands = Pick<Product, 'listParked' | 'showParked' | 'replayParked'>;

interface Listed {
  readonly parked: readonly {
    readonly id: string;
    readonly uri?: string;
    readonly sentAt?: string;
    readonly tries?: number;
    readonly readable?: boolean;
    readonly result?: unknown;
  }[];
}

interface Shown {
  readonly id: string;
  readonly uri?: string;
  readonly sentAt?: string;
  readonly tries?: number;
  readonly result?: unknown;
  readonly payload?: unknown;
  readonly inputs?: unknown;
  readonly error?: { readonly code: string };
  readonly message: string;
}

interface Replayed {
  readonly succeeded: number;
  readonly over: number;
  readonly failed: readonly { readonly id: string; readonly uri?: string; readonly code: string }[];
}

/** @param run the command line, in this process */
export function parkedCommands(run: Parameters<typeof cliJson>[0]): Commands {
  const dlq = <T>({ bucket, configFile, redisUrl }: ParkedPlace, ...args: string[]) =>
    cliJson<T>(run, ['dlq', ...args, '--bucket', bucket, '-c', configFile, '--redis-url', redisUrl]);
  return {
    async listParked(place) {
      const { parked } = await dlq<Listed>(place, 'list');
      return parked.map(({ id, uri, sentAt, tries, readable = true, result }) => {
        return { id, uri, sentAt, deliveries: tries, readable, result };
      });
    },
    async showParked(place, wanted) {
      const shown = await dlq<Shown>(place, 'show', wanted);
      const { id, uri, sentAt, tries, result, payload, inputs, error, message } = shown;
      return { id, uri, sentAt, deliveries: tries, result, payload, inputs, code: error?.code, message };
    },
    async replayParked(place) {
      const { succeeded, over, failed } = await dlq<Replayed>(place, 'replay', '--all');
      return { succeeded, over, stillFailing: failed.map(({ id, uri, code }) => ({ id, uri, code })) };
    },
  };
}
