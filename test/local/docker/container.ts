/**
 * Builds images without an engine (buildah) and runs what was built in namespaces and a chroot (unshare), as the image
 * says: its user, working directory, variables and command. Everything is kept below node_modules/.cache.
 */
import { execFile, spawn } from 'node:child_process';
import { chown, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { childEnvironment } from '../../support/environment.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';
import { ROOT } from '../../support/start.ts';
import { until } from '../../support/until.ts';

const execute = promisify(execFile);
const HERE = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const CACHE = join(ROOT, 'node_modules', '.cache', 'test-docker');
const BUILDAH = ['--root', join(CACHE, 'storage'), '--runroot', join(CACHE, 'run')];
const BASES = ['--build-arg', 'NODE=localhost/node', '--build-arg', 'BASE=localhost/debian'];
const NEEDED = ['buildah', 'debootstrap', 'unshare', 'nsenter', 'ip', 'ss', 'curl'];
const MAX_BUFFER = 2 ** 26;

/** Of the container beside its loopback, see run.sh. */
export const OUTER = '192.0.2.7';

/** For tests: why they are skipped. */
export const WITH_BUILDAH = { skip: await missing() };

async function missing(): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'images are built and run by root';
  const found = NEEDED.map((name) =>
    execute('sh', ['-c', `command -v ${name}`]).then(
      () => [],
      () => [name],
    ),
  );
  const names = (await Promise.all(found)).flat();
  return names.length > 0 && `Debian's ${names.join(', ')} to build images with are not installed`;
}

export interface Image {
  /** Bytes of all its files. */
  readonly bytes: number;
  readonly user: string;
  readonly health: string;
  readonly ports: readonly string[];
  readonly volumes: readonly string[];
  /** Starts it as `docker run` does, and waits for nothing. @param data the folder of /data @param options in place of CMD */
  start(t: TestContext, data: string, ...options: string[]): Promise<Container>;
}

export interface Container {
  /** Of its output so far. */
  readonly lines: readonly string[];
  /** Resolves with the exit code. */
  readonly exited: Promise<number | null>;
  /** Waits until a line matches. @throws when it ends before */
  line(pattern: RegExp): Promise<string>;
  /** In the network of the container, with the programs of this machine. @returns what it prints */
  beside(command: string): Promise<string>;
  /** As `docker exec`. */
  exec(command: string): Promise<{ readonly code: number; readonly output: string }>;
  /** As `docker kill`. */
  kill(): Promise<number | null>;
  /** As `docker stop`, which sends SIGTERM. */
  stop(): Promise<number | null>;
}

async function buildah(...args: readonly string[]): Promise<string> {
  const { stdout } = await execute('buildah', [...BUILDAH, ...args], { maxBuffer: MAX_BUFFER });
  return stdout.trim();
}

async function makeBases(): Promise<void> {
  const made = await buildah('images', '--quiet', 'localhost/node').catch(() => '');
  if (made !== '') return;
  const { stdout } = await execute('sh', ['-c', 'readlink -f "$(command -v npm)"']);
  const npm = dirname(dirname(stdout.trim()));
  const certificates = process.env['NODE_EXTRA_CA_CERTS'] ?? '';
  const args = [join(CACHE, 'debian'), process.execPath, npm, certificates, 'buildah', ...BUILDAH];
  await execute('sh', [HERE('base.sh'), ...args], { maxBuffer: MAX_BUFFER });
}

/** Builds the image of the Dockerfile from what git would check out, with the changes that are not committed. */
export async function buildImage(t: Hooks, name: string, packages = ''): Promise<Image> {
  await mkdir(CACHE, { recursive: true });
  await makeBases();
  const context = await temporaryFolder(t, 'cs-checkout-');
  const list = 'git ls-files --cached --others --exclude-standard --deduplicate';
  await execute('sh', ['-c', `${list} | tar -cf - -T - | tar -xf - -C "$0"`, context], { cwd: ROOT });
  const options = ['--layers', '--isolation', 'chroot', '--format', 'docker', ...BASES];
  await buildah('bud', ...options, '--build-arg', `PACKAGES=${packages}`, '-t', name, context);
  return open(t, name);
}

async function open(t: Hooks, name: string): Promise<Image> {
  const { Docker } = JSON.parse(await buildah('inspect', '--type', 'image', name)) as { Docker: Described };
  const config = Docker.config;
  const container = await buildah('from', '--pull-never', name);
  t.after(async () => void (await buildah('rm', container)));
  const root = await buildah('mount', container);
  const { stdout } = await execute('du', ['--summarize', '--apparent-size', '--block-size=1', root]);
  const place = { user: config.User, work: config.WorkingDir, variables: config.Env };
  return {
    bytes: Number.parseInt(stdout, 10),
    user: config.User,
    health: config.Healthcheck.Test.at(-1) ?? '',
    ports: Object.keys(config.ExposedPorts),
    volumes: Object.keys(config.Volumes),
    start: (test, data, ...options) =>
      run(test, { ...place, root, data }, [
        ...config.Entrypoint,
        ...(options.length > 0 ? options : config.Cmd),
      ]),
  };
}

interface Described {
  readonly config: {
    readonly User: string;
    readonly WorkingDir: string;
    readonly Env: readonly string[];
    readonly Entrypoint: readonly string[];
    readonly Cmd: readonly string[];
    readonly Healthcheck: { readonly Test: readonly string[] };
    readonly ExposedPorts: object;
    readonly Volumes: object;
  };
}

interface Place {
  readonly root: string;
  readonly data: string;
  readonly user: string;
  readonly work: string;
  readonly variables: readonly string[];
}

const NAMESPACES = ['--mount', '--pid', '--net', '--uts', '--ipc'];

async function run(t: TestContext, place: Place, command: readonly string[]): Promise<Container> {
  const { root, data, user, work, variables } = place;
  const script = ['sh', HERE('run.sh'), root, data, user, work, ...variables, ...command];
  const child = spawn('unshare', [...NAMESPACES, '--fork', ...script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: childEnvironment(),
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  let hasEnded = false;
  const exited = new Promise<number | null>((resolve) => {
    child.on('close', (code) => {
      hasEnded = true;
      resolve(code);
    });
  });
  const first = () => readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').catch(() => '');
  await until(async () => hasEnded || (await first()).trim() !== '');
  const pid = (await first()).trim();
  // The first of a namespace takes all of it along; unshare itself would leave behind what runs as another user.
  const kill = (signal: 'SIGTERM' | 'SIGKILL') => {
    if (!hasEnded && pid !== '') process.kill(Number(pid), signal);
    return exited;
  };
  t.after(async () => void (await kill('SIGKILL')));
  const enter = async (options: readonly string[], words: readonly string[]) => {
    const args = ['--target', pid, ...options, ...words];
    const env = childEnvironment();
    try {
      const { stdout, stderr } = await execute('nsenter', args, { env, maxBuffer: MAX_BUFFER });
      return { code: 0, output: stdout + stderr };
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { code, output: stdout + stderr };
    }
  };
  const [uid = '', gid = ''] = user.split(':');
  const as = ['--root', '--setuid', uid, '--setgid', gid, 'env', '-i', `--chdir=${work}`, ...variables];
  return {
    lines,
    exited,
    line: async (pattern) => {
      await until(() => hasEnded || lines.some((line) => pattern.test(line)));
      const found = lines.find((line) => pattern.test(line));
      if (found === undefined) throw new Error(`ended before ${pattern}:\n${lines.join('\n')}`);
      return found;
    },
    beside: async (shell) => (await enter(['--net'], ['sh', '-c', shell])).output,
    exec: (shell) => enter(NAMESPACES, [...as, 'sh', '-c', shell]),
    kill: () => kill('SIGKILL'),
    stop: () => kill('SIGTERM'),
  };
}

/** An empty folder that the user of the image may write, as Docker makes of a volume. */
export async function newVolume(t: TestContext, { user }: Image): Promise<string> {
  const folder = await temporaryFolder(t, 'cs-volume-');
  const [uid, gid] = user.split(':').map(Number);
  await chown(folder, uid ?? 0, gid ?? 0);
  return folder;
}
