/** The module `net` of a process: connections and servers of the simulated network. */
import net from 'node:net';
import { type Network, Socket } from '../machine/network.ts';
import type { SimulatedProcess } from '../machine/process.ts';

export function netModule(network: Network, process: SimulatedProcess) {
  const { setTimeout, clear: clearTimeout } = process.clock;
  const timers: Pick<typeof globalThis, 'setTimeout' | 'clearTimeout'> = Object({ setTimeout, clearTimeout });
  const connect = ({ port }: { readonly port: number }) => network.connect(process, timers, port);
  return {
    Socket,
    connect,
    createConnection: connect,
    BlockList: net.BlockList,
    isIP: net.isIP,
    isIPv4: net.isIPv4,
    isIPv6: net.isIPv6,
    createServer: (_options: object, listener: (socket: Socket) => void) => {
      let taken = 0;
      return {
        once: () => undefined,
        off: () => undefined,
        address: () => ({ port: taken }),
        close: (done?: () => void) => done?.(),
        listen: (port: number, _host: string, done: () => void) => {
          taken = port;
          process.onEnd.push(network.listen(process, timers, port, listener));
          process.after(0, done);
        },
      };
    },
  };
}
