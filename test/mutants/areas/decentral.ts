/** Bugs in decentralized clients (local/decentral) and their commands (cli/wkr). */
import type { Suite } from '../mutant.ts';

const CLIENTS = 'test/system/worker/clients.test.ts';
const PARTS = 'test/workers/decentral/parts.test.ts';
const SCRIPT = 'test/workers/decentral/script.test.ts';

export const DECENTRAL: readonly Suite[] = [
  {
    file: 'local/decentral/client.ts',
    tests: [CLIENTS],
    bugs: [
      {
        guarantee: 'the calls of a process that ended are counted',
        find: 'return this.#before.done + this.#now.done;',
        replace: 'return this.#now.done;',
      },
      {
        guarantee: 'a restart waits at most 30 s',
        find: 'Math.min(MAX_DELAY_MS, ',
        replace: 'Math.max(0, ',
      },
    ],
  },
  {
    file: 'local/decentral/process.ts',
    tests: [CLIENTS],
    bugs: [
      {
        guarantee: 'a client that does not retire is killed',
        find: 'this.#after(RETIRE_MS, () => this.kill());',
        replace: 'this.#after(RETIRE_MS, () => {});',
      },
      {
        guarantee: 'a client that breaks the protocol is killed',
        find: 'this.kill(error instanceof Error ? error.message : String(error));',
        replace: 'this.#how = String(error);',
      },
    ],
  },
  {
    file: 'local/decentral/supervisor.ts',
    tests: [CLIENTS],
    bugs: [
      {
        guarantee: 'clients of servers that stay keep running',
        find: 'return more <= 0;',
        replace: 'return true;',
      },
      {
        guarantee: 'clients that retire are replaced',
        find: 'if (stays) missing',
        replace: 'if (server) missing',
      },
    ],
  },
  {
    file: 'local/decentral/control.ts',
    tests: [CLIENTS],
    bugs: [
      {
        guarantee: 'the control channel needs its token',
        find: 'if (withoutToken({ token: await token }, request)) {',
        replace: 'if (withoutToken({ token: undefined }, request)) {',
      },
      {
        guarantee: 'a foreign Host is refused',
        find: '!foreignHost({}, request) && ',
        replace: '',
      },
      {
        guarantee: 'a foreign Origin is refused',
        find: ' && !foreignOrigin({}, request)',
        replace: '',
      },
    ],
  },
  {
    file: 'local/decentral/token.ts',
    tests: [CLIENTS],
    bugs: [
      {
        guarantee: 'only the user reads the token',
        find: 'const FILE_MODE = 0o600;',
        replace: 'const FILE_MODE = 0o644;',
      },
    ],
  },
  {
    file: 'local/decentral/servers.ts',
    tests: [PARTS],
    bugs: [
      {
        guarantee: 'a port is at most 65535',
        find: 'Number(each) > MAX_PORT',
        replace: 'Number(each) > MAX_PORT * 2',
      },
    ],
  },
  {
    file: 'lib/workers/log.ts',
    tests: [PARTS],
    bugs: [
      {
        guarantee: 'a full log is moved aside',
        find: 'file.bytes === 0 || file.bytes + more <= this.#limits.bytes',
        replace: 'file.bytes >= 0',
      },
      {
        guarantee: 'a day has a log of its own',
        find: 'known?.path === path ? known',
        replace: 'known ? known',
      },
    ],
  },
  {
    file: 'cli/wkr/production-script.ts',
    tests: [SCRIPT],
    bugs: [
      {
        guarantee: 'flags are quoted',
        find: "return `'${word.replaceAll(\"'\", `'\\\\''`)}'`;",
        replace: 'return `"${word}"`;',
      },
      {
        guarantee: 'a pid of another process is stale',
        find: '  case "$LINE " in *@COMMAND@*" -name $NAME "*) return 0 ;; esac\n  return 1',
        replace: '  return 0',
      },
    ],
  },
];
