/**
 * In: the name of a program beside this file. Out: it, in a process of its own, answering one question at a time.
 * Trap: a child that dies must fail the question under way, not leave it waiting; and it must not outlive us, so it
 * ends when the channel closes.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Child<Question, Answer> {
  /** @throws what the child threw, or that it ended or was silent for too long */
  ask(question: Question): Promise<Answer>;
  close(): Promise<void>;
}

type Reply<Answer> = { readonly answer: Answer } | { readonly error: string };

const SILENCE_MS = 120_000;

export async function startChild<Question, Answer>(
  name: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Child<Question, Answer>> {
  const child = fork(fileURLToPath(new URL(`${name}.ts`, import.meta.url)), {
    serialization: 'advanced',
    // Not ours: a profiler on this process is not meant for that one.
    execArgv: [],
    env: { ...process.env, ...environment },
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  return {
    ask: (question) => ask<Answer>(child, name, question as object),
    async close() {
      if (child.connected) child.disconnect();
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
    child.send(question);
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
    close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}
