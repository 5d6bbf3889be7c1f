/**
 * `cluster-serving plan`: which limit a rate meets first, and what a month of it costs, by closed forms over the settings of a
 * deployment. It calls nothing, except a service that is named for its figures.
 */
import { DEFAULT_JOB_NAME } from '../../lib/contract/names.ts';
import { authorizedFetch } from '../../sdk/access.ts';
import { request as fetchJson } from '../../sdk/fetch.ts';
import { defineCommand, type Values, wrongUse } from '../command.ts';
import { DEPLOYMENT_OPTIONS, deploymentRequest } from '../deployment-options.ts';
import { EXIT } from '../output.ts';
import { findService, JOB, SERVICE_OPTIONS } from '../service.ts';
import { type Calls, callsOfRow, callsOfTimers, callsOfTune, type Events, eventsOf } from './calls.ts';
import { loadOf } from './load.ts';
import { reportText } from './report.ts';

const ANSWER_LIMIT_MS = 10_000;

const OPTIONS = {
  rate: { value: 'n/time', about: 'records: 1e9/day, 200/s, 3e6/month' },
  peak: {
    value: 'n',
    range: [1, 10_000],
    decimals: true,
    default: 3,
    about: 'the highest rate, as a multiple of the mean',
  },
  bytes: { value: 'n', range: [1, 33_554_432], default: 1_000, about: 'bytes of a record as it is sent' },
  numbers: {
    value: 'n',
    range: [1, 90_000],
    default: 10,
    about: 'numbers of an answer; more than 1 MiB of them are in S3, and no plan is made of that',
  },
  ms: {
    value: 'ms',
    range: [0.001, 900_000],
    decimals: true,
    about: 'how long the model takes for a record (default: as measured at its import)',
  },
  tune: { value: 'file', about: 'take the times that `tune --json` printed into this file' },
  overhead: {
    value: 'ms',
    range: [0, 10_000],
    decimals: true,
    default: 3,
    about: 'what Lambda and Redis add to a call',
  },
  records: { value: 'n', range: [1, 10_000], about: 'records of an event (default: queue.batchSize)' },
  ...DEPLOYMENT_OPTIONS,
  ...SERVICE_OPTIONS,
  url: { ...SERVICE_OPTIONS.url, about: 'take the times of the service at this address, as it runs' },
  stack: { ...SERVICE_OPTIONS.stack, about: 'take the times of this CloudFormation stack, as it runs' },
  job: JOB,
} as const;

export const command = defineCommand({
  name: 'plan',
  about: `Says for a rate which limits it meets, the first one first, with its number and what to change, and what a month
costs, by part: with every record in a request to POST /predict, and with every record through the queue. The settings
are those of the deployment of this folder, the prices examples (docs/explanation/costs.md). Nothing is measured: how
long the model takes is known from its import, from --ms, from \`tune\`, or from a service that runs.`,
  options: OPTIONS,
  examples: [
    'plan --rate 1e9/day --bytes 400 --peak 3 --ms 50',
    'plan --rate 200/s --tune tune.json --stage prod',
    'plan --rate 5e6/day --stack cluster-serving-prod',
  ],
  async run(values, output) {
    const { rate, peak, bytes, numbers } = values;
    if (rate === undefined) throw wrongUse('plan: which rate? Give --rate, such as 1e6/day or 200/s');
    const load = loadOf(rate, { peak, bytes, numbers });
    const { readFacts } = await import('../../infra/doctor/facts.ts');
    const { documentOf } = await import('./document.ts');
    const { facts } = await readFacts(deploymentRequest('plan', values));
    const { job, model } = facts;
    const events = eventsOf(
      {
        records: values.records ?? job.queue.batchSize,
        windowSeconds: job.queue.windowSeconds,
        memoryMB: job.function.memoryMB,
      },
      bytes,
    );
    const imported = model.state === 'found' ? model.importReport?.latencyMs : undefined;
    const calls = await timesOf(values, events, imported);
    const document = documentOf(rate, load, calls, facts);
    output.answer(document, reportText(document));
    return EXIT.ok;
  },
});

/** The first that was named. @throws bad_config when nothing is known of the model */
async function timesOf(
  values: Values<typeof OPTIONS>,
  events: Events,
  importedMs: number | undefined,
): Promise<Calls> {
  const { ms, tune, url, stack, overhead, bytes } = values;
  const named = [ms, tune, url ?? stack].filter((way) => way !== undefined);
  if (named.length > 1)
    throw wrongUse('plan: --ms, --tune and --url or --stack each give the times; give one of them');
  if (ms !== undefined) return callsOfRow(ms, overhead, events, '--ms');
  if (tune !== undefined) return callsOfTune(tune, events, bytes);
  if (url !== undefined || stack !== undefined) {
    const service = await findService({ ...values, job: values.job ?? DEFAULT_JOB_NAME });
    const http = service?.http;
    if (service === undefined || http === undefined) throw wrongUse('plan: the service has no HTTPS address');
    const send = authorizedFetch(http, service.access);
    const { body } = await fetchJson(`${http}/metrics`, {}, ANSWER_LIMIT_MS, undefined, send);
    return callsOfTimers(Array.isArray(body) ? body.map(Object) : [], overhead, events, stack ?? http);
  }
  if (importedMs !== undefined)
    return callsOfRow(importedMs, overhead, events, 'the import of the model, on its machine');
  throw wrongUse(
    'plan: how long does the model take? Give --ms for a record, --tune with what `tune --json` printed, or --stack of one that runs',
  );
}
