/**
 * Controls the process that measures one point. A model may crash its process or never answer; both are results here,
 * not errors.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { variables } from '../../lib/contract/variables.ts';
import { type ChildAnswer, type ChildQuestion, ROLE, SCRIPT } from './child.ts';

const MAX_STDERR = 2_048;

export class TuneProcess {
  readonly #child: ChildProcess;
  #errors = '';

  constructor() {
    this.#child = fork(fileURLToPath(script()), [ROLE], {
      execArgv: [],
      // Without this variable the functions open no dependencies. They log to stdout, which is ignored.
      env: { ...variables, AWS_LAMBDA_RUNTIME_API: undefined },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      if (this.#errors.length < MAX_STDERR) this.#errors += chunk.toString();
    });
    // A process that cannot be started or reached ends, which `ask` detects.
    this.#child.on('error', () => undefined);
  }

  /** Returns its answer, or a failure after its end or `limitMs`; the process has then ended. */
  async ask(question: ChildQuestion, limitMs: number): Promise<ChildAnswer> {
    const failed = (message: string): ChildAnswer => ({ failed: { code: 'model_failed', message } });
    if (this.#hasEnded()) return failed('its process has ended');
    const stop = new AbortController();
    const late = Promise.withResolvers<ChildAnswer>();
    const message = `it did not finish within ${Math.round(limitMs / 1000)} s`;
    const timer = setTimeout(() => late.resolve(failed(message)), limitMs);
    this.#child.send(question, () => undefined);
    const answered = once(this.#child, 'message', stop).then(([answer]) => answer as ChildAnswer);
    const ended = once(this.#child, 'close', stop).then(([code, signal]): ChildAnswer => {
      const how = signal === null ? `exit code ${code}` : String(signal);
      return failed(`it ended its process (${how})${this.#errors && `: ${this.#errors.trim()}`}`);
    });
    try {
      const answer = await Promise.race([answered, ended, late.promise]).catch((error: Error) =>
        failed(`its process cannot be used: ${error.message}`),
      );
      if ('failed' in answer) await this.end();
      return answer;
    } finally {
      clearTimeout(timer);
      stop.abort();
      await Promise.allSettled([answered, ended]);
    }
  }

  async end(): Promise<void> {
    if (this.#hasEnded() || this.#child.pid === undefined) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }

  #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}

/** The source in a checkout, else the chunk of the installed package. */
function script(): string {
  const source = new URL('./child.ts', import.meta.url).href;
  return process.features.typescript && existsSync(fileURLToPath(source)) ? source : SCRIPT;
}
