/**
 * Runs a program in a process of its own and calls its methods, one at a time. A child that dies fails the call under way;
 * and it ends when the channel closes, so that it never outlives its parent.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { variables } from '../../lib/contract/variables.ts';
import { pinned, type Role } from '../cores.ts';

/** Each takes plain data and returns plain data; typed arrays too. */
type Methods = Readonly<Record<string, (input: never) => Promise<unknown>>>;

export interface Child<M extends Methods> {
  readonly pid: number;
  /** @throws what the method threw, or that the child ended or did not answer in time */
  call<K extends keyof M>(method: K, input: Parameters<M[K]>[0]): Promise<Awaited<ReturnType<M[K]>>>;
  /** The child closes what it opened; one that does not end by itself is killed. */
  close(): Promise<void>;
  /** At once. */
  kill(): Promise<void>;
}

interface ChildOptions {
  /** Added to this process's own. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Keeps it on one core; default: any. */
  readonly role?: Role;
  /** For Node. */
  readonly flags?: readonly string[];
}

interface Reply {
  readonly answer?: unknown;
  readonly error?: string;
}

const ANSWER_LIMIT_MS = 120_000;
/** For closing: a connection whose other end has gone may never close. */
const END_LIMIT_MS = 20_000;

/** @param program a program beside this file without its ending, or a path */
export async function startChild<M extends Methods>(
  program: string,
  { environment = {}, role, flags = [] }: ChildOptions = {},
): Promise<Child<M>> {
  const path = program.includes('/') ? program : fileURLToPath(new URL(`${program}.ts`, import.meta.url));
  // This process's own flags are left out: a profiler on it is not meant for the child.
  const args = [...flags, path];
  const [command, all] = role ? pinned(role, process.execPath, args) : [process.execPath, args];
  const child = spawn(command, all, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    serialization: 'advanced',
    env: { ...variables, ...environment },
  });
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  return {
    pid: child.pid ?? 0,
    call: (method, input) => callChild(child, program, { method, input }) as Promise<never>,
    async close() {
      if (child.connected) child.disconnect();
      const timer = setTimeout(() => child.kill('SIGKILL'), END_LIMIT_MS);
      await ended;
      clearTimeout(timer);
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

function callChild(child: ChildProcess, name: string, request: object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const settle = (end: () => void) => {
      clearTimeout(timer);
      child.off('message', onReply);
      child.off('exit', onExit);
      end();
    };
    const fail = (message: string) => settle(() => reject(new Error(message)));
    const onReply = ({ answer, error }: Reply) =>
      error === undefined ? settle(() => resolve(answer)) : fail(`${name}: ${error}`);
    const onExit = () => fail(`the process ${name} ended`);
    const timer = setTimeout(
      () => fail(`the process ${name} did not answer within ${ANSWER_LIMIT_MS} ms`),
      ANSWER_LIMIT_MS,
    );
    child.on('message', onReply);
    child.once('exit', onExit);
    child.send(request, (error) => {
      if (error) fail(`the process ${name} cannot be reached: ${error.message}`);
    });
  });
}

/** In the child: answers calls until the parent lets go. */
export function serveParent(methods: Methods, close: () => Promise<unknown> = async () => undefined): void {
  const answer = async ({ method, input }: { readonly method: string; readonly input: never }) => {
    const call = methods[method];
    if (!call) throw new Error(`no method ${method}`);
    return call(input);
  };
  process.on('message', (request: Parameters<typeof answer>[0]) => {
    answer(request).then(
      (value) => process.send?.({ answer: value }),
      (error: unknown) =>
        process.send?.({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
    );
  });
  process.once('disconnect', () => {
    setTimeout(() => process.exit(1), END_LIMIT_MS).unref();
    close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}
