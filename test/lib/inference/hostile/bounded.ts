/**
 * Runs a script of this folder in a process with bounded memory and time, and returns its output. V8's limit does not
 * cover onnxruntime's memory, so the address space is limited.
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ADDRESS_SPACE_KB = 6_000_000;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function runBounded(script: string, args: readonly string[], limitMs: number): Promise<Ended> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const limited = `ulimit -v ${ADDRESS_SPACE_KB}; exec "$0" "$@"`;
  const child = spawn('bash', ['-c', limited, process.execPath, path, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: limitMs,
    killSignal: 'SIGKILL',
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}
