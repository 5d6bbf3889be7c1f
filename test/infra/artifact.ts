/**
 * Runs the function of an unzipped archive in a separate process, as Lambda does. Node's permissions restrict the
 * process to the archive's folder and its temp folder; otherwise a missing module would be found in the repository's
 * node_modules.
 */
import { fork } from 'node:child_process';
import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ArtifactOptions {
  /** The folder with the extracted archive. */
  readonly folder: string;
  /** As in the template: dist/predict/index.handler. */
  readonly handler: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Files the process may read besides. */
  readonly readable?: readonly string[];
}

export interface Artifact {
  invoke(event: unknown): Promise<unknown>;
  /** The function's output to stdout and stderr so far. */
  output(): string;
  close(): Promise<void>;
}

type Reply = { readonly ready: true } | { readonly answer: unknown } | { readonly error: string };

interface Waiting {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

const RUNNER = fileURLToPath(new URL('run-artifact.mjs', import.meta.url));
/** Time limit of an event, as Lambda counts it, and of our wait for any answer. */
const TIMEOUT_MS = 30_000;
const MAX_WAIT_MS = 90_000;

/** Resolves when the module has loaded, INIT included. */
export async function startArtifact(options: ArtifactOptions): Promise<Artifact> {
  const { handler, environment, readable = [] } = options;
  // Permissions are compared with the true path; TMPDIR may be a link.
  const folder = await realpath(options.folder);
  const temp = join(folder, '..', 'tmp');
  await mkdir(temp, { recursive: true });
  const reads = [folder, temp, RUNNER, ...readable].map((path) => `--allow-fs-read=${path}`);
  const child = fork(RUNNER, [folder, handler], {
    cwd: folder,
    execArgv: [
      '--permission',
      '--allow-addons',
      '--allow-child-process',
      '--allow-worker',
      ...reads,
      `--allow-fs-write=${temp}`,
    ],
    env: { ...environment, TMPDIR: temp, HOME: temp },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  const waiting: Waiting[] = [];
  child.on('message', (reply: Reply) => waiting.shift()?.resolve(reply));
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => {
      for (const { reject } of waiting.splice(0)) reject(new Error(`${handler} ended:\n${output}`));
      resolve();
    });
  });
  const reply = () =>
    new Promise<Reply>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${handler} is silent:\n${output}`)), MAX_WAIT_MS);
      const settle =
        <T>(act: (value: T) => void) =>
        (value: T) => {
          clearTimeout(timer);
          act(value);
        };
      waiting.push({ resolve: settle(resolve), reject: settle(reject) });
    });
  const close = async () => {
    child.kill();
    await ended;
  };
  let last: Promise<unknown> = reply();
  await last.catch(async (error: unknown) => {
    await close();
    throw error;
  });
  return {
    /** One event at a time, as in Lambda. */
    invoke(event) {
      const next = last.then(async () => {
        const answering = reply();
        child.send({ event, timeoutMs: TIMEOUT_MS });
        const answer = await answering;
        if ('error' in answer) throw new Error(answer.error);
        return 'answer' in answer ? answer.answer : undefined;
      });
      last = next.catch(() => undefined);
      return next;
    },
    output: () => output,
    close,
  };
}
