/**
 * In: a point of a model. Out: its process: asked one thing at a time, and ended whatever it does.
 * Trap: a model may take its process down, or never answer; either is an answer here, and never an error of ours.
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
      // The functions log to stdout; and where Lambda's own variables are set they would open what they need there.
      env: { ...variables, AWS_LAMBDA_RUNTIME_API: undefined },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      if (this.#errors.length < MAX_STDERR) this.#errors += chunk.toString();
    });
    // What cannot be started, or be sent to, ends; that is what we look at.
    this.#child.on('error', () => undefined);
  }

  /** What it answers; or, when it ends or takes longer than `limitMs`, that. Then it is gone. */
  async ask(question: ChildQuestion, limitMs: number): Promise<ChildAnswer> {
    const stop = new AbortController();
    const failed = (message: string): ChildAnswer => ({ failed: { code: 'model_failed', message } });
    // Ended between two questions: nobody will hear of it any more.
    if (this.#child.exitCode !== null || this.#child.signalCode !== null)
      return failed('its process has ended');
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<ChildAnswer>((resolve) => {
      const message = `it was not done after ${Math.round(limitMs / 1000)} s`;
      timer = setTimeout(() => resolve(failed(message)), limitMs);
    });
    this.#child.send(question, () => undefined);
    const told = once(this.#child, 'message', stop).then(([answer]) => answer as ChildAnswer);
    const ended = once(this.#child, 'close', stop).then(([code, signal]): ChildAnswer => {
      const how = signal === null ? `exit code ${code}` : String(signal);
      return failed(`it took its process down (${how})${this.#errors && `: ${this.#errors.trim()}`}`);
    });
    try {
      const answer = await Promise.race([told, ended, late]).catch((error: Error) =>
        failed(`its process cannot be used: ${error.message}`),
      );
      if ('failed' in answer) await this.end();
      return answer;
    } finally {
      clearTimeout(timer);
      stop.abort();
      // The two that did not win.
      await Promise.allSettled([told, ended]);
    }
  }

  async end(): Promise<void> {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
}

/** The source in the repository; in the installed package the chunk that holds it. */
function script(): string {
  const source = new URL('./child.ts', import.meta.url).href;
  return process.features.typescript && existsSync(fileURLToPath(source)) ? source : SCRIPT;
}
