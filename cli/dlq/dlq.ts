/**
 * `cluster-serving dlq`. In: records that ran out of tries, parked in a job's bucket. Out: what they are, another try,
 * or their end.
 * Trap: replay and purge change what is there, so both want to be told which messages; nothing said is not all.
 */

import { ServingError } from '../../lib/contract/errors.ts';
import { queueName } from '../../lib/contract/names.ts';
import { COMMON_HELP, defineCommand, wholeNumber, wrongUse } from '../command.ts';
import type { Output } from '../output.ts';
import { notRunning } from '../service.ts';
import { DLQ_OPTIONS, type DlqPlace, type DlqValues, openDlq } from './place.ts';
import { parseWhere, splitArguments, WHERE_HELP } from './where.ts';

const HELP = `Usage: cluster-serving dlq <list | show | replay | purge> [<id>...] [<field=value>...] [options]

Records that ran out of tries lie in the bucket, under parked/<job>/, and their uris have the failure out_of_tries.

  list            what is parked: id, when, tries, size, code of the stored result, uri
  show <id>       one of them whole: its inputs with dtype, shape and first values, its message
  replay <which>  run them here, with the job's model in a process that they may end; those that work now get their
                  result in place of the failure and leave the bucket, the others stay and are told with their reason
  purge <which>   delete them, and payloads of theirs in S3, after a question

<which> is ids, conditions, or --all. Exit code of replay: 0 when all succeeded, 1 when some still fail.

      --all                   everything that is parked
${WHERE_HELP}
      --limit <n>             of list: at most so many (default 100; 0 lists all)
      --after <id>            of list: go on behind this one
      --dry-run               of replay: run them, and change nothing
      --enqueue               of replay: put what works back into the queue, for the batch function to run, in place of
                              storing its result from here: where Redis cannot be reached (see docs/deploy.md)
      --timeout <s>           of replay: how long one record may run (default: the job's function.timeoutSeconds)
  -y, --yes                   of purge: do not ask; without a terminal this is needed
      --data-dir <dir>        folder of the local service (default .cluster-serving)
      --bucket <name>         bucket of a service elsewhere, by the AWS environment
      --job <name>            which job (default: the first of the local service, elsewhere that of the config)
  -c, --config <file>         its config (default: the local service's own, elsewhere ./config.yaml)
      --redis-url <url>       its Redis: redis://host:port or rediss://...
      --queue-url <url>       its queue, for --enqueue
${COMMON_HELP}

Examples:
  cluster-serving dlq list uri=day1/* since=2h
  cluster-serving dlq replay --all --dry-run
  cluster-serving dlq replay code=out_of_tries --bucket my-bucket --redis-url redis://localhost:6379
  cluster-serving dlq purge until=30d --yes`;

const ACTIONS = ['list', 'show', 'replay', 'purge'] as const;
type Action = (typeof ACTIONS)[number];

/** Which options belong to which of them alone. */
const OWN: readonly (readonly [option: string, actions: readonly Action[]])[] = [
  ['limit', ['list']],
  ['after', ['list']],
  ['where', ['list', 'replay', 'purge']],
  ['all', ['list', 'replay', 'purge']],
  ['dry-run', ['replay']],
  ['enqueue', ['replay']],
  ['timeout', ['replay']],
  ['queue-url', ['replay']],
  ['yes', ['purge']],
];

const MAX_IDS = 1_000;

export const dlq = defineCommand({
  name: 'dlq',
  help: HELP,
  takesArguments: true,
  options: {
    all: { type: 'boolean' },
    where: { type: 'string', multiple: true },
    limit: { type: 'string' },
    after: { type: 'string' },
    'dry-run': { type: 'boolean' },
    enqueue: { type: 'boolean' },
    timeout: { type: 'string' },
    yes: { type: 'boolean', short: 'y' },
    ...DLQ_OPTIONS,
  },
  async run(values, output, [action, ...args]) {
    assertAction(action);
    const stray = OWN.find(([option, actions]) => option in values && !actions.includes(action));
    if (stray) throw wrongUse(`--${stray[0]} belongs to dlq ${stray[1].join(', ')}`);
    const { ids, conditions } = splitArguments(args, values.where);
    const limit = wholeNumber('--limit', values.limit, { otherwise: 100, most: 10_000_000 });
    const timeout = wholeNumber('--timeout', values.timeout, { otherwise: 0, most: 900 });
    if (action === 'show' && (ids.length !== 1 || conditions.length > 0))
      throw wrongUse('dlq show: which id?');
    if (action === 'list' && ids.length > 0) throw wrongUse(`dlq list: unexpected ${JSON.stringify(ids[0])}`);
    if (ids.length > MAX_IDS) throw wrongUse(`${ids.length} ids are over the limit of ${MAX_IDS}`);
    const where = parseWhere(conditions, Date.now(), ids);
    const isSaid = ids.length + conditions.length > 0;
    if ((action === 'replay' || action === 'purge') && isSaid === (values.all ?? false)) {
      throw wrongUse(`dlq ${action} what? Give ids, conditions (uri=day1/*), or --all`);
    }
    return withDlq(values, output, async (place) => {
      if (action === 'show') return (await import('./show.ts')).show(place, ids[0] as string, output);
      await assertThere(place, ids);
      if (action === 'list') {
        return (await import('./list.ts')).list(place, where, { limit, after: values.after }, output);
      }
      if (action === 'purge')
        return (await import('./purge.ts')).purge(place, where, values.yes ?? false, output);
      const dryRun = values['dry-run'] ?? false;
      const { tellReplay } = await import('./replay-output.ts');
      const limitMs = timeout === 0 ? undefined : timeout * 1000;
      if (!values.enqueue) return tellReplay(place, where, { dryRun, limitMs, send: undefined }, output);
      return withSender(place, (send) => tellReplay(place, where, { dryRun, limitMs, send }, output));
    });
  },
});

function assertAction(action: string | undefined): asserts action is Action {
  if ((ACTIONS as readonly (string | undefined)[]).includes(action)) return;
  const found = action === undefined ? 'nothing' : JSON.stringify(action);
  throw wrongUse(
    `dlq: expected ${ACTIONS.join(', ')}, got ${found}; \`cluster-serving dlq --help\` shows how`,
  );
}

async function withDlq(
  values: DlqValues,
  output: Output,
  work: (place: DlqPlace) => Promise<number>,
): Promise<number> {
  const place = await openDlq(values);
  if (!place) return notRunning(values, output, '--bucket');
  try {
    return await work(place);
  } finally {
    await place.close();
  }
}

async function assertThere({ parked, job }: DlqPlace, ids: readonly string[]): Promise<void> {
  const found = await parked.messages(ids);
  const missing = ids.find((_, i) => found[i] === undefined);
  if (missing === undefined) return;
  throw new ServingError('not_found', `no message ${missing} is parked for ${job.jobName}; nothing was done`);
}

/** @param work gets what sends one message body */
async function withSender(
  { queueUrl, endpoint, region, job }: DlqPlace,
  work: (send: (body: string) => Promise<void>) => Promise<number>,
): Promise<number> {
  const [{ openSqs, QueueSender }, { GetQueueUrlCommand }] = await Promise.all([
    import('../../lib/queue/sender.ts'),
    import('@aws-sdk/client-sqs'),
  ]);
  const sqs = openSqs({ endpoint, region });
  try {
    const name = queueName(job.jobName);
    const url =
      queueUrl ??
      (
        await sqs.send(new GetQueueUrlCommand({ QueueName: name })).catch((cause: Error) => {
          const message = `the queue ${name} cannot be found (${cause.message}); --queue-url names it`;
          throw new ServingError('queue_unavailable', message, { cause });
        })
      ).QueueUrl;
    const sender = new QueueSender(sqs, { queueUrl: url as string });
    return await work((body) => sender.send(body));
  } finally {
    sqs.destroy();
  }
}
