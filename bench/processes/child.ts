/**
 * In: the name of a program beside this file. Out: it, in a process of its own, answering one question at a time.
 * Trap: a child that dies must fail the question under way, not leave it waiting; and it must not outlive us, so it
 * ends when the channel closes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { variables } from '../../lib/contract/variables.ts';
import { pinned, type Role } from '../cores.ts';

export interface Child<Question, Answer> {
  readonly pid: number;
  /** @throws what the child threw, or that it ended or was silent for too long */
  ask(question: Question): Promise<Answer>;
  /** It closes what it opened; one that does not end by itself is killed. */
  close(): Promise<void>;
  /** At once. */
  kill(): Promise<void>;
}

interface ChildOptions {
  /** Added to this process's own. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Keeps it on one core; default: any. */
  readonly role?: Role;
  /** Of Node. */
  readonly flags?: readonly string[];
}

type Reply<Answer> = { readonly answer: Answer } | { readonly error: string };

const SILENCE_MS = 120_000;
/** Of closing: a connection whose other end has gone may never close. */
const END_LIMIT_MS = 20_000;

/** @param name of a program beside this file without its ending, or the path of another one */
export async function startChild<Question, Answer>(
  name: string,
  { environment = {}, role, flags = [] }: ChildOptions = {},
): Promise<Child<Question, Answer>> {
  const program = name.includes('/') ? name : fileURLToPath(new URL(`${name}.ts`, import.meta.url));
  // This process's own flags are left out: a profiler on it is not meant for that one.
  const args = [...flags, program];
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
    ask: (question) => ask<Answer>(child, name, question as object),
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

function ask<Answer>(child: ChildProcess, name: string, question: object): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const settle = (end: () => void) => {
      clearTimeout(timer);
      child.off('message', onReply);
      child.off('exit', onExit);
      end();
    };
    const onReply = (reply: Reply<Answer>) =>
      settle(() => ('error' in reply ? reject(new Error(`${name}: ${reply.error}`)) : resolve(reply.answer)));
    const onExit = () => settle(() => reject(new Error(`the process ${name} ended`)));
    const timer = setTimeout(
      () => settle(() => reject(new Error(`the process ${name} was silent for ${SILENCE_MS} ms`))),
      SILENCE_MS,
    );
    child.on('message', onReply);
    child.once('exit', onExit);
    child.send(question, (error) => {
      if (error) settle(() => reject(new Error(`the process ${name} cannot be reached: ${error.message}`)));
    });
  });
}

/** In the child: answers questions one after the other until the parent lets go. */
export function serveParent(
  answer: (question: unknown) => Promise<unknown>,
  close: () => Promise<unknown> = async () => undefined,
): void {
  process.on('message', (question) => {
    answer(question).then(
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
