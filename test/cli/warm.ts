/**
 * Runs command lines one after another in one process that has loaded the commands already, as `cli` runs each in a process
 * of its own: with its folder, its environment and no terminal. Most of a short command's time is loading it. What is about
 * processes, signals or the scripts of cli/bin needs `cli`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { childEnvironment } from '../support/environment.ts';
import { type CliAnswer, jsonOf, type Ran, type RunOptions } from './cli.ts';

export interface WarmRequest {
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

type Options = Pick<RunOptions, 'cwd' | 'env'>;

let child: ChildProcess | undefined;
let last: Promise<unknown> = Promise.resolve();

export function warmCli(args: readonly string[], options: Options = {}): Promise<Ran> {
  const ran = last.then(() => ask(args, options));
  last = ran.catch(() => undefined);
  return ran;
}

export async function warmCliJson(
  args: readonly string[],
  options: Options = {},
): Promise<CliAnswer<unknown>> {
  return jsonOf(await warmCli([...args, '--json'], options));
}

async function ask(args: readonly string[], { cwd = process.cwd(), env = {} }: Options): Promise<Ran> {
  child ??= started();
  const { channel } = child;
  channel?.ref();
  const request: WarmRequest = { args, cwd, env: childEnvironment(env) };
  const done = new AbortController();
  const { signal: end } = done;
  const answer = Promise.race([
    once(child, 'message', { signal: end }),
    once(child, 'exit', { signal: end }),
  ]);
  child.send(request);
  const [reply, signal] = (await answer) as [Ran | number | null, unknown];
  // Takes the listener of the other event away.
  done.abort();
  channel?.unref();
  if (typeof reply === 'object' && reply !== null) return reply;
  child = undefined;
  throw new Error(`cluster-serving ${args.join(' ')} ended its process: ${reply ?? String(signal)}`);
}

function started(): ChildProcess {
  const path = new URL('warm-process.ts', import.meta.url);
  const warm = fork(path, {
    env: childEnvironment(),
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  warm.unref();
  return warm;
}
