/** `cluster-serving capture`: lists, exports and deletes captured requests and records. */
import { assertModelName } from '../../lib/contract/names.ts';
import { CaptureReader, capturedModels } from '../../lib/s3/capture-reader.ts';
import { openS3 } from '../../lib/s3/client.ts';
import type { S3Client } from '../../lib/s3/objects.ts';
import { defineCommand, only, wrongUse } from '../command.ts';
import { findService, JOB, notRunning, SERVICE_OPTIONS, YES } from '../service.ts';
import { exportCaptures } from './export.ts';
import { listCaptures } from './list.ts';
import { askLost } from './lost.ts';
import { purgeCaptures } from './purge.ts';
import { sinceOf } from './since.ts';

export const command = defineCommand({
  name: 'capture',
  usage: ['<list | export | purge> [options]'],
  about: `With \`capture.share\` in config.yaml, a share of the requests and records of the queue is kept in S3 with the answers.
\`model replay\` asks a model the same again.`,
  actions: {
    list: [
      '',
      'show how many objects there are of each version and day, and how many requests and records were lost',
    ],
    export: ['', 'print what was captured, a line of JSON for each request and record'],
    purge: ['', 'delete captures, or those of one record, after a confirmation'],
  },
  options: {
    since: {
      value: 'time',
      about: 'captures from here on: 24h, 30m, 7d or 2026-11-28T08:00Z (default: all)',
    },
    model: {
      value: 'name',
      about: 'only of this further model; the name of the job is that of its own model (default: of each)',
    },
    version: { value: 'version', about: 'only what this version of the model answered' },
    ...only(['purge'], {
      uri: { value: 'uri', about: 'only the record with this uri, or the request with this id' },
      yes: YES,
    }),
    ...SERVICE_OPTIONS,
    bucket: { group: 'Connection', value: 'name', about: 'bucket of another service' },
    job: JOB,
  },
  examples: [
    'capture list --stack cluster-serving-images-prod',
    'capture export --since 24h > captures.ndjson',
    'capture purge --uri customer-17 --yes',
  ],
  async run(values, output, [surplus], action) {
    if (surplus !== undefined) throw wrongUse(`capture ${action}: unexpected ${JSON.stringify(surplus)}`);
    const now = Date.now();
    const since = values.since === undefined ? undefined : sinceOf(values.since, now);
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--stack, or --bucket with --job');
    const { job, bucket, endpoint, region } = service;
    if (bucket === undefined) throw wrongUse('capture: which service? Give --stack, or --bucket with --job');
    const s3 = openS3({ endpoint, region });
    const filter = { version: values.version, since };
    try {
      const readers = await readersOf(s3, bucket, job, values.model);
      if (action === 'list') {
        // The service counts all; objects say it of those that the options choose.
        const isAll = (values.since ?? values.version ?? values.model) === undefined;
        return await listCaptures(readers, filter, output, isAll ? await askLost(service) : undefined);
      }
      if (action === 'export') return await exportCaptures(readers, filter, output);
      const { uri, yes = false } = values;
      return await purgeCaptures(readers, { filter: { ...filter, until: now }, uri, yes, job }, output);
    } finally {
      s3.destroy();
    }
  },
});

/** A reader of each model that is meant, the job's own first. */
async function readersOf(
  s3: S3Client,
  bucket: string,
  job: string,
  model: string | undefined,
): Promise<readonly CaptureReader[]> {
  const names = model === undefined ? await capturedModels(s3, bucket, job) : [];
  const own = model === job ? undefined : model;
  if (own !== undefined) assertModelName(own, job);
  return [own, ...names].map((name) => new CaptureReader(s3, bucket, { job, model: name }));
}
