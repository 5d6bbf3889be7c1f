/**
 * `cluster-serving status`. In: a data folder, or a url. Out: whether it runs, whether it can predict, and where.
 * Trap: the exit code is the answer for scripts: 0 ready, 3 not running, 4 running but not ready.
 */
import { resolve } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import type { TimerReport } from '../../lib/metrics/timers.ts';
import { DEFAULT_DATA_DIR, findRunning, type StackRecord } from '../../local/data-folder.ts';
import { request } from '../../sdk/fetch.ts';
import { COMMON_HELP, defineCommand } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { placesText } from '../places.ts';
import { assertUrl, SERVICE_HELP, SERVICE_OPTIONS } from '../service.ts';

const HELP = `Usage: cluster-serving status [options]

Says whether the service runs, since when, where, what GET /ready answers, and how long requests took.
Exit code: 0 running and ready, 3 not running, 4 running but not ready.

${SERVICE_HELP}
${COMMON_HELP}`;

const ANSWER_LIMIT_MS = 5_000;

interface Answers {
  readonly ready: boolean;
  /** Version that serves, when ready. */
  readonly model?: string;
  /** Why it is not ready. */
  readonly reason?: string;
  /** Only those that have counted something. */
  readonly metrics: readonly TimerReport[];
  /** Nobody answered. */
  readonly unreachable: boolean;
}

export const status = defineCommand({
  name: 'status',
  help: HELP,
  options: SERVICE_OPTIONS,
  async run({ url, 'data-dir': folder }, output) {
    assertUrl('--url', url, ['http:', 'https:']);
    if (url !== undefined) return remote(url, output);
    const dataDir = resolve(folder ?? DEFAULT_DATA_DIR);
    const running = await findRunning(dataDir);
    if (!running) {
      output.answer({ running: false, ready: false, dataDir }, `not running on ${dataDir}`);
      return EXIT.notRunning;
    }
    const { process: found, record } = running;
    if (!record) {
      const reason = 'it is still starting, or stopping';
      const document = { running: true, ready: false, pid: found.pid, dataDir, reason };
      output.answer(document, `process ${found.pid} runs on ${dataDir}\nnot ready: ${reason}`);
      return EXIT.notReady;
    }
    const jobs = await Promise.all(record.jobs.map(async (job) => ({ ...job, ...(await ask(job.http)) })));
    const ready = jobs.every((job) => job.ready);
    const [first] = jobs;
    const document = {
      running: true,
      ready,
      ...(ready ? {} : { reason: jobs.find((job) => !job.ready)?.reason }),
      ...record,
      dataDir,
      metrics: first?.metrics ?? [],
      jobs: jobs.map(({ unreachable: _asked, ...job }) => job),
    };
    const several = jobs.length > 1;
    const texts = jobs.map((job) => (several ? `job ${job.job}: ${answerText(job)}` : answerText(job)));
    output.answer(document, [runningText(record), ...texts].join('\n'));
    return ready ? EXIT.ok : EXIT.notReady;
  },
});

async function remote(url: string, output: Output): Promise<number> {
  const { unreachable, ...answers } = await ask(url.replace(/\/+$/, ''));
  output.answer({ running: !unreachable, http: url, ...answers }, answerText({ unreachable, ...answers }));
  if (unreachable) return EXIT.notRunning;
  return answers.ready ? EXIT.ok : EXIT.notReady;
}

async function ask(http: string): Promise<Answers> {
  try {
    const { body } = await request(`${http}/ready`, {}, ANSWER_LIMIT_MS);
    const { ready, model } = (body ?? {}) as { ready?: unknown; model?: string };
    if (ready !== true)
      throw new ServingError('internal', `${http}/ready did not answer as this service does`);
    const metrics = await request(`${http}/metrics`, {}, ANSWER_LIMIT_MS);
    const counted = (metrics.body as TimerReport[]).filter(({ count }) => count > 0);
    return { ready: true, ...(model === undefined ? {} : { model }), metrics: counted, unreachable: false };
  } catch (error) {
    const { message } = ServingError.from(error);
    return { ready: false, reason: message, metrics: [], unreachable: isUnreachable(error) };
  }
}

/** The one error of a request that no server has answered has the network's own error inside. */
function isUnreachable(error: unknown): boolean {
  return error instanceof ServingError && error.cause instanceof TypeError;
}

function runningText(record: StackRecord): string {
  const minutes = Math.floor((Date.now() - Date.parse(record.since)) / 60_000);
  return `running since ${record.since} (${minutes} min)\n${placesText(record)}`;
}

function answerText({ ready, model, reason, metrics }: Answers): string {
  if (!ready) return `not ready: ${reason}`;
  const rows = metrics.map(
    ({ name, count, mean, _99thPercentile }) =>
      `  ${name.padEnd(28)} ${String(count).padStart(8)} times  mean ${ms(mean)}  99 % ${ms(_99thPercentile)}`,
  );
  return [`ready${model === undefined ? '' : `, model version ${model}`}`, ...rows].join('\n');
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`.padStart(11);
}
