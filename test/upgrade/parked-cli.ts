/** `cluster-serving dlq --json`, as ae017ae prints it (`parked`, `tries`) and as today's code does. */
import { cliJson, type ParkedPlace, type Product } from './product.ts';

type Commands = Pick<Product, 'listParked' | 'showParked' | 'replayParked'>;

interface Line {
  readonly id: string;
  readonly uri?: string;
  readonly sentAt?: string;
  readonly tries?: number;
  readonly attempts?: number;
  readonly readable?: boolean;
  readonly result?: unknown;
}

type Listed = { readonly parked: readonly Line[] } | { readonly deadLetters: readonly Line[] };

interface Shown {
  readonly id: string;
  readonly uri?: string;
  readonly sentAt?: string;
  readonly tries?: number;
  readonly attempts?: number;
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
      const listed = await dlq<Listed>(place, 'list');
      const lines = 'parked' in listed ? listed.parked : listed.deadLetters;
      return lines.map(({ id, uri, sentAt, tries, attempts = tries, readable = true, result }) => {
        return { id, uri, sentAt, deliveries: attempts, readable, result };
      });
    },
    async showParked(place, wanted) {
      const shown = await dlq<Shown>(place, 'show', wanted);
      const { id, uri, sentAt, tries, attempts = tries, result, payload, inputs, error, message } = shown;
      return { id, uri, sentAt, deliveries: attempts, result, payload, inputs, code: error?.code, message };
    },
    async replayParked(place) {
      const { succeeded, over, failed } = await dlq<Replayed>(place, 'replay', '--all');
      return { succeeded, over, stillFailing: failed.map(({ id, uri, code }) => ({ id, uri, code })) };
    },
  };
}
