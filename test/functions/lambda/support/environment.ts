/**
 * An execution environment as on Lambda, for a packaged function: INIT, events one by one, frozen between them, ended
 * when an event exceeds its time. Lambda keeps /tmp when it restarts the process of an environment, so `temp` is a
 * parameter.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

const CHILD = fileURLToPath(new URL('environment-child.mjs', import.meta.url));
const TIMEOUT_MS = 30_000;

export interface EnvironmentOptions {
  readonly folder: string;
  readonly temp: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Of its JavaScript. Default: Node's own choice. */
  readonly heapMb?: number;
}

export interface LambdaEnvironment {
  readonly pid: number;
  /** Resolves when INIT is over. */
  readonly ready: Promise<void>;
  /**
   * @param killMs when the process is ended. Default: when the time of the function is over
   * @throws when the function throws, its time is over, or the process ends
   */
  invoke<Answer>(event: unknown, timeoutMs?: number, killMs?: number): Promise<Answer>;
  freeze(): void;
  thaw(): void;
  /** SIGKILL, and it has ended. */
  kill(): Promise<void>;
  /** The signal or the exit code, once it has ended. */
  readonly ended: Promise<string>;
  output(): string;
}

type Reply = { readonly ready: true } | { readonly answer: unknown } | { readonly error: string };

export function startEnvironment(t: TestContext, options: EnvironmentOptions): LambdaEnvironment {
  const { folder, temp, variables, heapMb } = options;
  const child = fork(CHILD, [folder], {
    // HOME: the AWS SDK asks for it, and a user without an entry in /etc/passwd has no other.
    env: { ...variables, HOME: temp, TMPDIR: temp, AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9' },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    execArgv: heapMb === undefined ? [] : [`--max-old-space-size=${heapMb}`],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      output = (output + String(chunk)).slice(-20_000);
    });
  }
  // Not `exit`: until `close` its last words are still on the way.
  const ended = once(child, 'close').then(([code, signal]) => String(signal ?? code));
  const reply = (): Promise<Reply> =>
    Promise.race([
      once(child, 'message').then(([message]) => message as Reply),
      ended.then((how) => Promise.reject(new Error(`the process ended: ${how}\n${output}`))),
    ]);
  const ready = reply().then(() => undefined);
  ready.catch(() => undefined);
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  t.after(kill);
  return {
    pid: child.pid as number,
    ready,
    async invoke<Answer>(event: unknown, timeoutMs = TIMEOUT_MS, killMs = timeoutMs) {
      await ready;
      const answering = reply();
      child.send({ event, timeoutMs });
      // As Lambda does it: the whole process, whatever it does.
      const timer = setTimeout(() => child.kill('SIGKILL'), killMs);
      const answer = await answering.finally(() => clearTimeout(timer));
      if ('error' in answer) throw new Error(answer.error);
      return ('answer' in answer ? answer.answer : undefined) as Answer;
    },
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    kill,
    ended,
    output: () => output,
  };
}
