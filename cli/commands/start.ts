/**
 * `cluster-serving start`. The background start runs this command with --foreground, which reports over the IPC
 * channel whether the service is ready.
 */
import { type ErrorRecord, ServingError } from '../../lib/contract/errors.ts';
import { findRunning, logPath } from '../../local/service/data-folder.ts';
import { readSettings, type StartSettings } from '../../local/service/start-options.ts';
import { type StartReport, startInBackground } from '../background.ts';
import { defineCommand, explained } from '../command.ts';
import { settingsBeside } from '../others.ts';
import { EXIT, type Output } from '../output.ts';
import { placesText } from '../places.ts';

/**
 * Also the options of a restart. Only the timeout has a default, so that a restart can tell which options were given.
 */
export const START_OPTIONS = {
  timeout: { value: 's', range: [0, 86_400], default: 120, about: 'how long the start may take' },
  config: {
    short: 'c',
    value: 'file',
    multiple: true,
    about:
      "config.yaml (default: ./config.yaml, else the sample's); each further one adds a job, on HTTP port +3, +4, ...",
  },
  model: {
    value: 'dir',
    about:
      "model to serve instead of the config's modelPath: a folder, s3://bucket/prefix or hf://org/name@revision of Hugging Face",
  },
  port: { value: 'n', about: 'HTTP port (default 10020; 0 takes free ports for everything)' },
  'aws-port': { value: 'n', about: 'SQS and S3 port (default 10021)' },
  'redis-port': { value: 'n', about: 'Redis port (default 10022)' },
  'grpc-port': {
    value: 'n',
    about: 'also serve the Open Inference Protocol over gRPC, all jobs on this port',
  },
  host: {
    value: 'address',
    about: 'address of the HTTP API (default 127.0.0.1); any other needs one of the next three options',
  },
  'token-file': {
    value: 'file',
    about: 'callers must send the token in this file: `Authorization: Bearer <token>`',
  },
  'make-token': {
    about: 'make a token at the first start, keep it in the data folder, and print a call with it',
  },
  'no-token': { about: 'everybody who reaches the address may call' },
  'allow-host': {
    value: 'name',
    multiple: true,
    about: 'name by which clients may call besides those of this machine, as that of a proxy',
  },
  'data-dir': { value: 'dir', about: 'where data are kept across restarts (default .cluster-serving)' },
  'embedded-redis': { about: 'use the embedded Redis even if redis-server is installed' },
  watch: { about: 'for development: when files of a worker change, new processes take over; not the config' },
  'drop-golden': {
    about: 'let a model serve without the golden requests of the version that served before it',
  },
  verbose: { about: 'print what each part does' },
} as const;

export const command = defineCommand({
  name: 'start',
  about: `Starts the whole service on this machine, in the background, and returns when it is ready. Its output goes to
start.log in the data folder. Without a config.yaml of your own it serves the digits sample.`,
  options: {
    ...START_OPTIONS,
    foreground: { about: 'stay in the terminal until Ctrl-C' },
    once: { about: 'run the sample through both paths and exit' },
  },
  async run({ foreground = false, timeout, ...values }, output) {
    // The background start has chosen for the process that it starts.
    const settings = foreground && process.send ? readSettings(values) : await settingsBeside(values, output);
    if (foreground || settings.once) return startHere(settings, output);
    const running = await findRunning(settings.dataDir);
    if (running) {
      const where = running.record ? `, ready at ${running.record.http}` : ', not ready yet';
      throw new ServingError(
        'bad_config',
        `a service already runs on ${settings.dataDir} (process ${running.process.pid}${where}); \`cluster-serving restart\` starts it again, --data-dir starts another`,
      );
    }
    return startAndReport(settings, timeout * 1000, output);
  },
});

/** Starts in the background and prints all addresses. */
export async function startAndReport(settings: StartSettings, timeoutMs: number, output: Output) {
  for (const note of settings.notes) output.note(`note: ${note}`);
  const { ready: record, sample } = await startInBackground(settings, timeoutMs, output);
  const document = { ...record, ...(sample ? { sample } : {}), ready: record.http };
  const lines = [placesText(record)];
  if (sample) lines.push(`  sample  ${sample.right} of ${sample.of} digits right, both ways the same`);
  output.answer(document, [...lines, `ready ${record.jobs.map(({ http }) => http).join(' ')}`].join('\n'));
  return EXIT.ok;
}

async function startHere(settings: StartSettings, output: Output): Promise<number> {
  const isBackground = process.send !== undefined;
  try {
    const { serve } = await import('../../local/service/serve.ts');
    return await serve(settings, {
      json: output.json,
      log: isBackground ? logPath(settings.dataDir) : undefined,
      onReady: async (ready, sample) => {
        const counts = sample && { sample: { right: sample.right, of: sample.rows.length } };
        await report({ ready, ...counts });
      },
    });
  } catch (error) {
    // The full message, even of a defect: the user at the terminal can read the log anyway.
    const { code, message } = explained(error);
    if (isBackground) await report({ failed: { code, message } satisfies ErrorRecord });
    throw error;
  }
}

/** Resolves when the parent has the message, or has ended. */
function report(startReport: StartReport): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve();
    else process.send(startReport, undefined, undefined, () => resolve());
  });
}
