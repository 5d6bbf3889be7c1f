/**
 * Lays out on disk what a Dockerfile of ours makes of its context, without docker: the COPY lines as they stand, what
 * .dockerignore lets through, links of `ln -s`, and the variables of ENV. Other RUN lines need the base image and are
 * left out.
 */
import assert from 'node:assert/strict';
import { cp, mkdir, readFile, stat, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';

export interface Layout {
  /** A path of the image, on this machine. */
  at(path: string): string;
  /** The variables of ENV, with paths of this machine. */
  readonly variables: Readonly<Record<string, string>>;
  readonly user: string | undefined;
  readonly command: readonly string[];
}

/** Set by AWS's base image. */
const BASE: Readonly<Record<string, string>> = {
  LAMBDA_TASK_ROOT: '/var/task',
  PATH: '/usr/local/bin:/usr/bin:/bin',
};
const KNOWN = ['ARG', 'CMD', 'COPY', 'ENV', 'FROM', 'RUN', 'USER'];

/** @param stand a program of this machine by the path that it has in the base image */
export async function layOut(
  context: string,
  root: string,
  stand: Readonly<Record<string, string>>,
): Promise<Layout> {
  const lines = instructionsOf(await readFile(join(context, 'Dockerfile'), 'utf8'));
  const sent = await ignoring(context);
  const at = (path: string) => join(root, path);
  const image: Record<string, string> = { ...BASE };
  const own = new Set<string>();
  const expand = (text: string) =>
    text.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
      assert.ok(image[name] !== undefined, `the Dockerfile uses ${name} and does not set it`);
      return image[name];
    });
  let user: string | undefined;
  let command: string[] = [];
  for (const { kind, rest } of lines) {
    assert.ok(KNOWN.includes(kind), `${kind} is not understood here`);
    if (kind === 'ENV') {
      for (const pair of rest.split(/\s+/)) {
        const [name = '', value = ''] = pair.split(/=(.*)/s);
        image[name] = expand(value);
        own.add(name);
      }
    }
    if (kind === 'COPY') {
      const [source = '', target = '', ...more] = expand(rest).split(/\s+/);
      assert.deepEqual(more, []);
      assert.ok(sent(source), `.dockerignore keeps ${source} away`);
      const from = join(context, source);
      const to = at(target.endsWith('/') && !(await stat(from)).isDirectory() ? target + source : target);
      await mkdir(dirname(to), { recursive: true });
      await cp(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    }
    for (const [, from = '', to = ''] of kind === 'RUN' ? rest.matchAll(/\bln -s (\S+) (\S+)/g) : []) {
      assert.ok(stand[from], `nothing stands for ${from}`);
      await mkdir(dirname(at(to)), { recursive: true });
      await symlink(stand[from], at(to));
    }
    if (kind === 'USER') user = rest;
    if (kind === 'CMD') command = JSON.parse(rest) as string[];
  }
  const here = (value: string) =>
    value
      .split(':')
      .map((part) => (part.startsWith('/opt/') ? at(part) : part))
      .join(':');
  const variables = Object.fromEntries([...own].map((name) => [name, here(image[name] as string)]));
  return { at, variables, user, command };
}

export function instructionsOf(text: string): { kind: string; rest: string }[] {
  const lines = text
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const [kind = '', rest = ''] = line.split(/\s+(.*)/s);
    return { kind, rest };
  });
}

/** Reads the top-level names; the last rule that matches counts. */
async function ignoring(context: string): Promise<(name: string) => boolean> {
  const rules = (await readFile(join(context, '.dockerignore'), 'utf8')).split('\n').filter(Boolean);
  return (name) => {
    const last = rules.findLast((rule) => ['*', name].includes(rule.replace(/^!/, '')));
    return last === undefined || last.startsWith('!');
  };
}
