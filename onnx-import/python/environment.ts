/**
 * A throw-away environment of Python. Each step has a limit of time, of the disk that it takes and of what it prints; what it starts
 * ends with it. It sees neither credentials nor the home folder in its variables, but it runs as the user, and nothing else confines it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { lstat, mkdir, readdir, statfs } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { badModel, type ServingError } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';

const GB = 2 ** 30;
const WATCH_MS = 3_000;
/** Of a folder of pip. */
const MAX_COUNTED = 1_000_000;
/** Of what a step prints; the end counts, where errors are. */
const MAX_PRINTED = 64 * 1024;
const SHOWN_LINES = 12;

/** What pip, a proxy and certificates need; nothing else of the environment is passed on. */
const PASSED =
  /^(PATH|LANG|LC_\w+|SYSTEMROOT|PIP_\w+|(https?|no|all)_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE)$/i;

export interface Step {
  readonly command: string;
  readonly args: readonly string[];
  /** For errors: "installing catboost". */
  readonly what: string;
  readonly ms: number;
}

/** The step could not start, or ended in an error. */
export interface Failure {
  readonly what: string;
  /** The end of what it printed. */
  readonly printed: string;
}

export class PythonEnvironment {
  readonly #folder: string;
  readonly #diskGB: number;
  readonly #signal: AbortSignal | undefined;

  /** @param folder an empty one, which the caller removes */
  constructor(folder: string, diskGB: number, signal: AbortSignal | undefined) {
    this.#folder = folder;
    this.#diskGB = diskGB;
    this.#signal = signal;
  }

  get #bin(): string {
    return join(this.#folder, 'env', process.platform === 'win32' ? 'Scripts' : 'bin');
  }

  /** Undefined when it is made and has the packages. */
  async install(python: string, packages: readonly string[], ms: number): Promise<Failure | undefined> {
    const free = await this.#free();
    if (free < this.#diskGB * GB)
      throw badModel(
        `${this.#folder} has ${(free / GB).toFixed(1)} GB free, and ${packages.join(' ')} may take ${this.#diskGB} GB; set TMPDIR to a folder with more`,
      );
    for (const name of ['home', 'tmp']) await mkdir(join(this.#folder, name), { recursive: true });
    const made = await this.run({
      command: python,
      args: ['-m', 'venv', join(this.#folder, 'env')],
      what: `making an environment by ${python} -m venv`,
      ms,
    });
    if (made) return made;
    const args = ['-m', 'pip', 'install', '-q', ...packages];
    return this.run({ ...this.#python(args), what: `installing ${packages.join(' ')}`, ms });
  }

  /** Runs lines of Python. */
  script(lines: string, args: readonly string[], what: string, ms: number): Promise<Failure | undefined> {
    return this.run({ ...this.#python(['-I', '-c', lines, ...args]), what, ms });
  }

  #python(args: readonly string[]): Pick<Step, 'args' | 'command'> {
    return { command: join(this.#bin, 'python'), args };
  }

  async #free(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#folder);
    return bavail * bsize;
  }

  /** @throws bad_model for a step over a limit; the reason of the signal */
  async run({ command, args, what, ms }: Step): Promise<Failure | undefined> {
    this.#signal?.throwIfAborted();
    const child = spawn(command, args, {
      cwd: this.#folder,
      env: this.#variables(),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const printed = lastOf(child);
    const limits = this.#watch(child, what, ms);
    try {
      const code = await new Promise<number | string>((resolve) => {
        child.on('error', (error) => resolve(error.message));
        child.on('close', (status, signal) => resolve(status ?? signal ?? 1));
      });
      this.#signal?.throwIfAborted();
      const exceeded = limits.exceeded();
      if (exceeded) throw exceeded;
      return code === 0 ? undefined : { what, printed: printed() || String(code) };
    } finally {
      limits.end();
    }
  }

  #watch(child: ChildProcess, what: string, ms: number) {
    let exceeded: ServingError | undefined;
    const end = (reason?: ServingError) => {
      exceeded ??= reason;
      killGroup(child);
    };
    const late = setTimeout(() => end(badModel(`${what} took over ${ms / 1000} s`)), ms);
    let isCounting = false;
    const count = async () => {
      if (isCounting) return;
      isCounting = true;
      const bytes = await bytesBelow(this.#folder);
      isCounting = false;
      if (bytes > this.#diskGB * GB) end(badModel(`${what} took over ${this.#diskGB} GB of disk`));
    };
    const timer = setInterval(() => void count(), WATCH_MS);
    const onAbort = () => end();
    this.#signal?.addEventListener('abort', onAbort);
    return {
      exceeded: () => exceeded,
      end: () => {
        clearTimeout(late);
        clearInterval(timer);
        this.#signal?.removeEventListener('abort', onAbort);
        killGroup(child);
      },
    };
  }

  #variables(): NodeJS.ProcessEnv {
    const passed = Object.entries(variables).filter(([name]) => PASSED.test(name));
    const own = {
      PIP_NO_INPUT: '1',
      PIP_NO_CACHE_DIR: '1',
      HOME: join(this.#folder, 'home'),
      TMPDIR: join(this.#folder, 'tmp'),
      PATH: [this.#bin, variables['PATH']].join(delimiter),
    };
    return { ...Object.fromEntries(passed), ...own, PYTHONDONTWRITEBYTECODE: '1', TF_CPP_MIN_LOG_LEVEL: '3' };
  }
}

/** What vanishes meanwhile counts nothing. */
export async function bytesBelow(folder: string): Promise<number> {
  let bytes = 0;
  const open = [folder];
  for (let count = 0; open.length > 0 && count < MAX_COUNTED; count++) {
    const place = open.pop() ?? '';
    for (const entry of await readdir(place, { withFileTypes: true }).catch(() => [])) {
      const path = join(place, entry.name);
      if (entry.isDirectory()) open.push(path);
      else bytes += (await lstat(path).catch(() => undefined))?.size ?? 0;
    }
  }
  return bytes;
}

/** With all that it started. */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function lastOf(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (more: string) => {
      text = (text + more).slice(-MAX_PRINTED);
    });
  return () => text.trim().split('\n').slice(-SHOWN_LINES).join('\n');
}
