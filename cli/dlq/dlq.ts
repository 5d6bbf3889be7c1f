/**
 * `cluster-serving dlq`: lists, replays and purges the records that failed too often, which are archived in a
 * job's bucket. replay and purge change the archive, so they need a selection; none does not mean all.
 */

import { replayAttributes } from '../../lib/codecs/attributes.ts';
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { queueName } from '../../lib/queue/names.ts';
import type { Send } from '../../local/console/replay.ts';
import { defineCommand, only, wrongUse } from '../command.ts';
import { DATA_DIR, notRunning, YES } from '../service.ts';
import { type DlqPlace, openDlq } from './place.ts';
import { parseWhere } from './where.ts';

const MAX_IDS = 1_000;

export const command = defineCommand({
  name: 'dlq',
  usage: ['<list | show | replay | purge> [<id>...] [<field=value>...] [options]'],
  about: `Records that failed too often are kept in the bucket, under dead-letters/<job>/, and their uris have the failure
max_receives_exceeded.

<which> is ids, conditions, or --all. All conditions must hold:
  code=max_receives_exceeded    code of the stored failure, or none where nothing is stored; needs Redis
  uri=day1/*                    the uri, or how it begins; uri=none for messages without one
  since=2026-11-21, until=36h   archived since, or before: a time, or so long ago
replay runs each record with the job's model, in a process that it may crash. Those that work leave the bucket, the
others are reported with the reason. Exit code of replay: 0 when all succeeded, 1 when some still fail.
replay <id> --edit, or --payload, sends one record with another payload, as a new enqueue.`,
  actions: {
    list: ['', 'list the dead letters: id, time, attempts, size, code of the stored result, uri'],
    show: ['<id>', 'show one message: its inputs with dtype, shape and first values, its text'],
    replay: [
      '<which>',
      'run them here; the results replace the failures, and what fails again stays archived',
    ],
    purge: ['<which>', 'delete them and their payloads in S3, after a confirmation'],
  },
  options: {
    ...only(['list', 'replay', 'purge'], {
      all: { about: 'every dead letter' },
      where: { value: 'field=value', multiple: true, about: 'condition; may stand without --where' },
    }),
    ...only(['list'], {
      limit: { value: 'n', range: [0, 10_000_000], default: 100, about: 'the most to list; 0 lists all' },
      after: { value: 'id', about: 'continue after this one' },
    }),
    ...only(['replay'], {
      'dry-run': { about: 'run them, and change nothing' },
      enqueue: {
        about:
          'put the ones that work back into the queue, for the batch function to run, instead of storing results from here: for a Redis that cannot be reached (see docs/how-to/deploy.md)',
      },
      edit: {
        about: 'change the payload of one record in the editor of VISUAL or EDITOR, and enqueue it',
      },
      payload: {
        value: 'json',
        about:
          'the payload instead of an editor: a file, "-" or {"instances": [{…}]}, as for POST /predictions; without "uri" that of the dead letter',
      },
      timeout: { value: 's', range: [0, 900], about: 'of one record (default: function.timeoutSeconds)' },
      'queue-url': { value: 'url', about: 'its queue, for --enqueue and --edit' },
      stage: { value: 'name', about: 'stage of the deployment, whose queue --enqueue and --edit then find' },
    }),
    ...only(['purge'], { yes: YES }),
    'data-dir': DATA_DIR,
    bucket: {
      value: 'name',
      about: 'bucket of another service, with the credentials of the AWS environment',
    },
    job: { value: 'name', about: "job (default: the service's first one; with --bucket the config's)" },
    config: { short: 'c', value: 'file', about: "its config (default: the service's, or ./config.yaml)" },
    'redis-url': { value: 'url', about: 'its Redis: redis://host:port or rediss://...' },
  },
  examples: [
    'dlq list uri=day1/* since=2h',
    'dlq replay --all --dry-run',
    'dlq replay 3f2a9c41-d07b-4a53-9f0e-0c8d7c5f8a11 --edit',
    'dlq replay code=max_receives_exceeded --bucket my-bucket --redis-url redis://localhost:6379',
    'dlq purge until=30d --yes',
  ],
  async run(values, output, args, action) {
    // Conditions have an equals sign, ids have none.
    const ids = args.filter((arg) => !arg.includes('='));
    const conditions = [...(values.where ?? []), ...args.filter((arg) => arg.includes('='))];
    const [id] = ids;
    if (action === 'show' && (ids.length !== 1 || conditions.length > 0))
      throw wrongUse('dlq show: which id?');
    if (action === 'list' && id !== undefined) throw wrongUse(`dlq list: unexpected ${JSON.stringify(id)}`);
    if (ids.length > MAX_IDS) throw wrongUse(`${ids.length} ids are over the limit of ${MAX_IDS}`);
    const where = parseWhere(conditions, Date.now(), ids);
    const isSelected = ids.length + conditions.length > 0;
    if ((action === 'replay' || action === 'purge') && isSelected === (values.all ?? false)) {
      throw wrongUse(`dlq ${action} what? Give ids, conditions (uri=day1/*), or --all`);
    }
    const edits = values.edit === true || values.payload !== undefined;
    if (edits && (ids.length !== 1 || conditions.length > 0 || values.enqueue === true))
      throw wrongUse('dlq replay --edit and --payload go with one id, without conditions or --enqueue');
    const sends = values.enqueue === true || edits;
    if (sends && values.bucket !== undefined && (values.stage ?? values['queue-url']) === undefined)
      throw wrongUse('dlq replay with --bucket: into which queue? Give --stage or --queue-url');
    const place = await openDlq(values);
    if (!place) return notRunning(values, output, '--bucket');
    try {
      if (action === 'show') return await (await import('./show.ts')).show(place, present(id, 'id'), output);
      await assertThere(place, ids);
      if (action === 'list') return await (await import('./list.ts')).list(place, where, values, output);
      if (action === 'purge') {
        return await (await import('./purge.ts')).purge(place, where, values.yes ?? false, output);
      }
      const dryRun = values['dry-run'] ?? false;
      if (edits) {
        const { replayEdit } = await import('./edit.ts');
        const edit = { payload: values.payload, dryRun, queueUrl: await queueUrlOf(place, values.stage) };
        return await replayEdit(place, present(id, 'id'), edit, output);
      }
      const { reportReplay } = await import('./replay-output.ts');
      const limitMs = values.timeout ? values.timeout * 1000 : undefined;
      const options = { dryRun, limitMs, send: undefined };
      if (!values.enqueue) return await reportReplay(place, where, options, output);
      return await withSender(place, values.stage, (send) =>
        reportReplay(place, where, { ...options, send }, output),
      );
    } finally {
      await place.close();
    }
  },
});

async function assertThere({ deadLetters, job }: DlqPlace, ids: readonly string[]): Promise<void> {
  const found = await deadLetters.messages(ids);
  const missing = ids.find((_, i) => found[i] === undefined);
  if (missing === undefined) return;
  throw new ServingError(
    'not_found',
    `no message ${missing} is archived for ${job.jobName}; nothing was done`,
  );
}

/** The queue of the records. @throws queue_unavailable */
async function queueUrlOf(
  { queueUrl, endpoint, region, job }: DlqPlace,
  stage: string | undefined,
): Promise<string> {
  if (queueUrl !== undefined) return queueUrl;
  const { openSqs } = await import('../../lib/queue/sender.ts');
  const { GetQueueUrlCommand } = await import('@aws-sdk/client-sqs');
  const sqs = openSqs({ endpoint, region });
  const QueueName = queueName(job.jobName, stage);
  try {
    const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName }));
    return present(QueueUrl, 'URL of the queue');
  } catch (error) {
    const message = `the queue ${QueueName} cannot be found (${asError(error).message}); --queue-url names it`;
    throw new ServingError('queue_unavailable', message, { cause: error });
  } finally {
    sqs.destroy();
  }
}

/** @param work gets a function that sends one message body */
async function withSender(
  place: DlqPlace,
  stage: string | undefined,
  work: (send: Send) => Promise<number>,
): Promise<number> {
  const { openSqs, QueueSender } = await import('../../lib/queue/sender.ts');
  const queueUrl = await queueUrlOf(place, stage);
  const { endpoint, region } = place;
  const sqs = openSqs({ endpoint, region });
  try {
    const sender = new QueueSender(sqs, { queueUrl });
    return await work((body, enqueue, groupId) => sender.send(body, replayAttributes(enqueue), groupId));
  } finally {
    sqs.destroy();
  }
}
