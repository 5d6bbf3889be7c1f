/**
 * Opens a model that nobody has served yet and reports why it must not be served. Opening a model runs it on the JS
 * thread, and a run that never ends hangs INIT as well as a refresh, so it is first opened in a process that can be
 * killed.
 */
import { badModel, ServingError } from '../contract/errors.ts';
import { IsolatedRunner } from './isolated-runner.ts';
import type { OnnxSettings } from './runner.ts';

interface SmokeTestOptions {
  readonly settings: OnnxSettings;
  /** For the whole: the process, the session, two runs on zeros. Default 60,000. */
  readonly limitMs?: number | undefined;
}

const LIMIT_MS = 60_000;

/**
 * Errors name `file`, which its owner knows; later openings use a copy.
 * @throws bad_model when it does not open, never gets ready or takes its process down
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
