/**
 * `cluster-serving start`. In: options of a start. Out: the service, ready, in the background or in this process.
 * Trap: the background start runs this same command with --foreground, which then tells over a channel what came of
 * it; a person never sees that part.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import { findRunning, logPath } from '../../local/data-folder.ts';
import {
  readSettings,
  START_OPTIONS,
  START_OPTIONS_HELP,
  type StartSettings,
} from '../../local/start-options.ts';
import { type StartNews, startInBackground } from '../background.ts';
import { COMMON_HELP, defineCommand, explained, wholeNumber } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { placesText } from '../places.ts';

const HELP = `Usage: cluster-serving start [options]

Starts the whole service on this machine, in the background; returns when it is ready. Its output goes to start.log
in the data folder. Without a config.yaml of your own it serves the digits sample.

      --foreground        stay in the terminal until Ctrl-C
      --timeout <s>       how long the background start may take (default 120)
${START_OPTIONS_HELP}
${COMMON_HELP}`;

const DEFAULT_TIMEOUT_SECONDS = 120;

export const start = defineCommand({
  name: 'start',
  help: HELP,
  options: { ...START_OPTIONS, foreground: { type: 'boolean' }, timeout: { type: 'string' } },
  async run({ foreground = false, timeout, ...values }, output) {
    const timeoutMs = startTimeoutMs(timeout);
    const settings = readSettings(values);
    if (foreground || settings.once) return startHere(settings, output);
    await assertFree(settings.dataDir);
    await startAndTell(settings, timeoutMs, output);
    return EXIT.ok;
  },
});

export function startTimeoutMs(timeout: string | undefined): number {
  return wholeNumber('--timeout', timeout, { otherwise: DEFAULT_TIMEOUT_SECONDS, most: 86_400 }) * 1000;
}

/** Starts in the background and says where everything is. */
export async function startAndTell(
  settings: StartSettings,
  timeoutMs: number,
  output: Output,
): Promise<void> {
  for (const note of settings.notes) output.note(`note: ${note}`);
  const { record, sample } = await startInBackground(settings, timeoutMs, output);
  const document = { ...record, ...(sample ? { sample } : {}), ready: record.http };
  const lines = [placesText(record)];
  if (sample) lines.push(`  sample  ${sample.right} of ${sample.of} digits right, both ways the same`);
  output.answer(document, [...lines, `ready ${record.jobs.map(({ http }) => http).join(' ')}`].join('\n'));
}

async function assertFree(dataDir: string): Promise<void> {
  const running = await findRunning(dataDir);
  if (!running) return;
  const { process: found, record } = running;
  const where = record ? `, ready at ${record.http}` : ', not ready yet';
  throw new ServingError(
    'bad_config',
    `a service already runs on ${dataDir} (process ${found.pid}${where}); \`cluster-serving restart\` starts it anew, --data-dir starts another`,
  );
}

async function startHere(settings: StartSettings, output: Output): Promise<number> {
  const isBackground = process.send !== undefined;
  try {
    const { serve } = await import('../../local/serve.ts');
    return await serve(settings, {
      json: output.json,
      log: isBackground ? logPath(settings.dataDir) : undefined,
      onReady: async (record, sample) => {
        await tell({
          ready: record,
          ...(sample ? { sample: { right: sample.right, of: sample.rows.length } } : {}),
        });
      },
    });
  } catch (error) {
    if (isBackground) await tell({ failed: failureOf(error) });
    throw error;
  }
}

/** The whole message, that of a defect too: it goes to the person at the terminal, who could read it in the log. */
function failureOf(error: unknown): ErrorRecord {
  const { code, message } = explained(error);
  return { code, message };
}

/** Resolves when the other side has it; an other side that went away need not know. */
function tell(news: StartNews): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve();
    else process.send(news, undefined, undefined, () => resolve());
  });
}
