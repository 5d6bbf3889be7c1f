/**
 * Opens a new model once and reports why it must not be served. Opening runs the model on the JS thread, and a run
 * that never ends would hang INIT as well as a refresh, so the model is first opened in a process that can be killed.
 */
import { badModel, ServingError } from '../contract/errors.ts';
import { IsolatedRunner } from './isolated-runner.ts';
import type { OnnxSettings } from './runner.ts';

interface SmokeTestOptions {
  readonly settings: OnnxSettings;
  /** The limit for everything: the process, the session, a run on zeros. Default 60,000. */
  readonly limitMs?: number | undefined;
}

const LIMIT_MS = 60_000;

/**
 * @param file named in errors
 * @throws bad_model when it does not open, never becomes ready or ends its process
 */
export async function smokeTest(
  file: string,
  { settings, limitMs = LIMIT_MS }: SmokeTestOptions,
): Promise<void> {
  const isolated = new IsolatedRunner({ file, version: 'smoke test', settings });
  try {
    await isolated.run([], limitMs);
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code === 'timeout') {
      throw badModel(
        `${file}: the model was not ready after ${limitMs / 1000} s; loading it, or a run on zeros, may never end`,
      );
    }
    if (code === 'model_failed') throw badModel(`${file}: while it was loaded, ${message}`);
    if (code === 'internal') throw error;
    throw badModel(message.includes(file) ? message : `${file}: ${message}`);
  } finally {
    await isolated.close();
  }
}
