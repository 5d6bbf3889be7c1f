/** Runs `npm start` with options as a process, with its output lines and a clean end after the test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from './environment.ts';
import { until } from './until.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Started {
  readonly child: ChildProcess;
  /** The lines of stdout and stderr so far. */
  readonly lines: string[];
  /** Resolves with the exit code. */
  readonly exited: Promise<number | null>;
  /** Waits for a line that matches, and gives it. */
  line(pattern: RegExp): Promise<string>;
}

export function start(t: TestContext, ...options: string[]): Started {
  return startWith(t, {}, ...options);
}

/** @param variables beside those that every child has */
export function startWith(
  t: TestContext,
  variables: Readonly<Record<string, string>>,
  ...options: string[]
): Started {
  const child = spawn(process.execPath, ['local/start.ts', ...options], {
    cwd: ROOT,
    env: childEnvironment(variables),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  }
  let code: number | null | undefined;
  const exited = new Promise<number | null>((resolve) => {
    child.on('close', (status) => {
      code = status;
      resolve(status);
    });
  });
  t.after(async () => {
    child.kill('SIGTERM');
    await exited;
  });
  return {
    child,
    lines,
    exited,
    async line(pattern) {
      await until(() => code !== undefined || lines.some((line) => pattern.test(line)));
      const found = lines.find((line) => pattern.test(line));
      if (found === undefined) throw new Error(`ended with ${code} before ${pattern}:\n${lines.join('\n')}`);
      return found;
    },
  };
}

export interface Addresses {
  readonly http: string;
  readonly jobs: readonly { readonly job: string; readonly http: string }[];
  readonly queueUrl: string;
  readonly redisUrl: string;
  readonly grpc?: string;
  readonly redis: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly sample: { readonly right: number; readonly rows: readonly { uri: string }[] };
}

/** A started service on free ports that has said it is ready, and where it is. */
export async function startReady(
  t: TestContext,
  ...options: string[]
): Promise<Started & { addresses: Addresses }> {
  const started = start(t, '--port', '0', '--json', ...options);
  await started.line(/"ready"/);
  return { ...started, addresses: JSON.parse(await started.line(/"queueUrl"/)) as Addresses };
}
