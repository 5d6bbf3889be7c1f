/** Runs oxlint with the configuration of a tree, without the rules that need types. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { Violation } from './cruise.ts';

interface Diagnostic {
  readonly code: string;
  readonly filename: string;
  readonly message: string;
}

export async function lint(root: string): Promise<Violation[]> {
  // oxlint ends with 1 when it reports something.
  const output = await new Promise<string>((resolve) =>
    execFile(
      join(root, 'node_modules/.bin/oxlint'),
      ['--format', 'json'],
      { cwd: root, maxBuffer: 64 * 1024 * 1024 },
      (_, stdout) => resolve(stdout),
    ),
  );
  const { diagnostics } = JSON.parse(output) as { diagnostics: Diagnostic[] };
  return diagnostics.map(({ code, filename, message }) => {
    return { rule: code, from: filename, text: `${code}: ${filename}: ${message}` };
  });
}
