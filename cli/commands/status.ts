/** `cluster-serving status`. The exit code is the answer for scripts: 0 ready, 3 not running, 4 running but not ready. */
import type { NoticeFacts } from '../../console/api.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { percentText } from '../../lib/contract/share.ts';
import type { CanaryShare, ServedVersions } from '../../lib/contract/values.ts';
import { setVariables } from '../../lib/contract/variables.ts';
import type { IndexEntry } from '../../lib/http/open-inference/repository.ts';
import type { ShownBudget } from '../../lib/metrics/budget.ts';
import type { TimerReport } from '../../lib/metrics/timers.ts';
import { findRunning, type StackRecord } from '../../local/service/data-folder.ts';
import { otherServices } from '../../local/service/services.ts';
import { type AccessOptions, authorizedFetch } from '../../sdk/access.ts';
import { request } from '../../sdk/fetch.ts';
import { budgetText } from '../budget.ts';
import { lostText } from '../capture/lost.ts';
import { defineCommand } from '../command.ts';
import type { NoticePlace } from '../notify/notices.ts';
import { noticesText } from '../notify/text.ts';
import { jobTexts } from '../others.ts';
import { EXIT, type Output } from '../output.ts';
import { placesText } from '../places.ts';
import { accessOf, assertUrls, dataDirOf, findService, SERVICE_OPTIONS, type Service } from '../service.ts';

const ANSWER_LIMIT_MS = 5_000;
/** Further models that are shown as text. */
const SHOWN_MODELS = 20;

export const command = defineCommand({
  name: 'status',
  about: `Shows whether the service runs, since when, where, what GET /ready answers, and how long requests took, and which
other services run on this machine.
Exit code: 0 running and ready, 3 not running, 4 running but not ready.`,
  options: SERVICE_OPTIONS,
  async run(values, output) {
    assertUrls(values);
    if ((values.url ?? values.stack) !== undefined) {
      return remote((await findService(values)) as Service, output);
    }
    const dataDir = dataDirOf(values);
    const running = await findRunning(dataDir);
    const services = await otherServices(dataDir);
    const others = services.map((service) => ({
      dataDir: service.dataDir,
      jobs: service.record.jobs.map(({ job, http }) => ({ job, http })),
    }));
    const beside = services.flatMap(jobTexts);
    if (!running) {
      const document = { running: false, ready: false, dataDir, others };
      output.answer(document, [`not running on ${dataDir}`, ...beside].join('\n'));
      return EXIT.notRunning;
    }
    const { process: found, record } = running;
    if (!record) {
      const reason = 'it is still starting, or stopping';
      const document = { running: true, ready: false, pid: found.pid, dataDir, reason, others };
      const texts = [`process ${found.pid} runs on ${dataDir}`, `not ready: ${reason}`, ...beside];
      output.answer(document, texts.join('\n'));
      return EXIT.notReady;
    }
    const access = accessOf(values, record);
    const jobs = await Promise.all(
      record.jobs.map(async (job) => ({
        ...job,
        ...(await ask(job.http, access)),
        notices: await noticesOf({ ...job, ...placeOf(record) }),
      })),
    );
    const ready = jobs.every((job) => job.ready);
    const reason = jobs.find((job) => !job.ready)?.reason;
    const shown = jobs.map(({ unreachable: _unreachable, ...job }) => job);
    // JSON omits undefined values.
    const facts = { running: true, ready, reason, ...record, dataDir, metrics: jobs[0]?.metrics ?? [] };
    const document = { ...facts, jobs: shown, others };
    const minutes = Math.floor((Date.now() - Date.parse(record.since)) / 60_000);
    const texts = jobs.map(
      (job) =>
        `${jobs.length > 1 ? `job ${job.job}: ` : ''}${answerText(job)}${job.notices ? `\n${noticesText(job.notices)}` : ''}`,
    );
    const lines = [`running since ${record.since} (${minutes} min)`, placesText(record), ...texts, ...beside];
    output.answer(document, lines.join('\n'));
    return ready ? EXIT.ok : EXIT.notReady;
  },
});

/** @returns undefined for a job without targets, and where the queues do not answer */
async function noticesOf(
  place: {
    readonly [K in keyof NoticePlace]?: NoticePlace[K] | undefined;
  },
): Promise<NoticeFacts | undefined> {
  const { job, bucket, queueUrl, endpoint, region } = place;
  if (job === undefined || bucket === undefined || queueUrl === undefined) return undefined;
  // Loaded here, because without a service there is nothing to ask.
  const { withNotices } = await import('../notify/notices.ts');
  const known = { job, bucket, queueUrl, endpoint, region };
  return withNotices(known, (notices) => notices.facts()).catch(() => undefined);
}

/** The service of this machine, whose keys are in its record. */
function placeOf({ bucket, environment }: StackRecord): Omit<NoticePlace, 'job' | 'queueUrl'> {
  setVariables(environment);
  return { bucket, endpoint: environment['AWS_ENDPOINT_URL'], region: environment['AWS_REGION'] };
}

async function remote(service: Service, output: Output): Promise<number> {
  const { http: url = '', access } = service;
  // A caller of the API alone may not have the rights.
  const [{ unreachable, ...answers }, notices] = await Promise.all([ask(url, access), noticesOf(service)]);
  const text = answerText({ unreachable, ...answers });
  output.answer(
    { running: !unreachable, http: url, ...answers, notices },
    notices ? `${text}\n${noticesText(notices)}` : text,
  );
  if (unreachable) return EXIT.notRunning;
  return answers.ready ? EXIT.ok : EXIT.notReady;
}

/** @returns the pushed model and those that answer when ready, else the reason; and the metrics with a count above 0 */
async function ask(http: string, access: AccessOptions) {
  const send = authorizedFetch(http, access);
  try {
    const { body } = await request(`${http}/ready`, {}, ANSWER_LIMIT_MS, undefined, send);
    const { ready, model, canary, shadow, serving, lostCaptures, budget }: Ready = Object(body);
    if (ready !== true)
      throw new ServingError('internal', `${http}/ready did not answer as this service does`);
    const metrics = await request(`${http}/metrics`, {}, ANSWER_LIMIT_MS, undefined, send);
    const counted = (metrics.body as TimerReport[]).filter(({ count }) => count > 0);
    const models = await furtherModels(http, send);
    return {
      ready: true,
      model,
      canary,
      shadow,
      serving,
      lostCaptures,
      budget,
      models,
      reason: undefined,
      metrics: counted,
      unreachable: false,
    };
  } catch (error) {
    const known = ServingError.from(error);
    // Only if no server answered, the cause is the network's own error.
    const unreachable = known === error && known.cause instanceof TypeError;
    return {
      ready: false,
      model: undefined,
      canary: undefined,
      shadow: undefined,
      serving: undefined,
      lostCaptures: undefined,
      budget: undefined,
      models: undefined,
      reason: known.message,
      metrics: [],
      unreachable,
    };
  }
}

/** @returns undefined where there are none, and where the service does not list its models */
async function furtherModels(
  http: string,
  send: ReturnType<typeof authorizedFetch>,
): Promise<readonly IndexEntry[] | undefined> {
  const init = { method: 'POST', body: '{}' };
  const asked = request(`${http}/v2/repository/index`, init, ANSWER_LIMIT_MS, undefined, send);
  const [, ...further] = await asked.then(
    ({ body }): readonly IndexEntry[] => (Array.isArray(body) ? body : []),
    () => [],
  );
  return further.length > 0 ? further : undefined;
}

interface Ready {
  readonly ready?: unknown;
  readonly model?: string;
  readonly canary?: CanaryShare;
  readonly shadow?: ServedVersions['shadow'];
  readonly serving?: readonly { readonly version: string; readonly at: string }[];
  readonly lostCaptures?: number;
  readonly budget?: ShownBudget;
}

function answerText({
  ready,
  model,
  canary,
  shadow,
  serving = [],
  lostCaptures = 0,
  budget,
  models = [],
  reason,
  metrics,
}: Awaited<ReturnType<typeof ask>>): string {
  if (!ready) return `not ready: ${reason}`;
  const ms = (value: number) => `${value.toFixed(1)} ms`.padStart(11);
  const rows = metrics.map(
    ({ name, count, mean, _99thPercentile }) =>
      `  ${name.padEnd(28)} ${String(count).padStart(8)} times  mean ${ms(mean)}  99 % ${ms(_99thPercentile)}`,
  );
  const trials = [
    ...(canary
      ? [
          `  canary ${canary.version} answers ${percentText(canary.share)} of the records since ${canary.since}`,
        ]
      : []),
    ...(shadow ? [`  shadow ${shadow.version} answers captured requests since ${shadow.since}`] : []),
  ];
  const others = serving.filter(({ version }) => version !== model && version !== canary?.version);
  const old = others.map(({ version, at }) => `  version ${version} answered too, last at ${at}`);
  const lost = lostCaptures > 0 ? [`  ${lostText(lostCaptures)}; the log says why`] : [];
  const head = `ready${model === undefined ? '' : `, model version ${model}`}`;
  const spent = budget ? [`  ${budgetText(budget)}`] : [];
  return [head, ...trials, ...old, ...modelTexts(models), ...lost, ...spent, ...rows].join('\n');
}

/** Lines for further models: those that cannot be opened first, and of many only some. */
function modelTexts(models: readonly IndexEntry[]): string[] {
  const failed = models.filter(({ state }) => state !== 'READY');
  const others = models.filter(({ state }) => state === 'READY');
  const shown = [...failed, ...others].slice(0, SHOWN_MODELS);
  const texts = shown.map(({ name, version, reason }) => {
    const state = reason
      ? `cannot be opened: ${reason}`
      : version
        ? `version ${version} is open`
        : 'not open';
    return `  model ${name}: ${state}`;
  });
  const rest = models.length - shown.length;
  return rest > 0 ? [...texts, `  and ${rest} more models; --json has all of them`] : texts;
}
